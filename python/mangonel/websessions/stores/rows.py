"""Records as rows for SQL engines: names of columns, and conversion from and to records. Knows no engine.

Times are whole milliseconds, so that every engine keeps them exactly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mangonel.websessions.errors import UsageError
from mangonel.websessions.record import Record

__all__ = ["COLUMNS", "SCHEMA_VERSION", "record_of", "table_name", "values_of"]

# key, version, data, created, issued, expires, deadline, sid, user, next, prev, label, epoch, writes
COLUMNS = ("k", "v", "d", "c", "i", "e", "l", "s", "u", "n", "p", "b", "r", "w")

# Raised with every change of the columns; `setup()` migrates a table to the next version.
SCHEMA_VERSION = 1

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def table_name(name: str) -> str:
    """Return the name of a table if it is valid in SQL without quotes.

    Raises:
        UsageError: it is not.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"expected table as letters, digits and underscores, got {name!r}")
    return name


def values_of(record: Record) -> list[Any]:
    """Return the values of a record in the order of COLUMNS."""
    return [
        record.key,
        record.version,
        record.data,
        round(record.created * 1000),
        round(record.issued * 1000),
        round(record.expires * 1000),
        round(record.deadline * 1000),
        record.sid,
        record.user,
        record.next,
        record.prev,
        record.label,
        record.epoch,
        record.writes,
    ]


def record_of(row: Sequence[Any]) -> Record:
    """Return the record of a row in the order of COLUMNS."""
    (
        key,
        version,
        data,
        created,
        issued,
        expires,
        deadline,
        sid,
        user,
        next_key,
        prev,
        label,
        epoch,
        writes,
    ) = row
    return Record(
        key,
        data,
        version,
        created / 1000,
        expires / 1000,
        deadline / 1000,
        user,
        next_key,
        prev,
        issued / 1000,
        sid,
        label,
        epoch,
        writes,
    )


class Statements:
    """The statements of a store for one table; `mark` returns the n-th placeholder, counted from 1."""

    def __init__(self, table: str, mark: Any) -> None:
        names = ", ".join(COLUMNS)
        marks = ", ".join(mark(n + 1) for n in range(len(COLUMNS)))
        sets = ", ".join(f"{name} = {mark(n + 1)}" for n, name in enumerate(COLUMNS[1:]))
        self.table = table_name(table)
        self.get = f"SELECT {names} FROM {table} WHERE k = {mark(1)}"
        self.insert = f"INSERT INTO {table} ({names}) VALUES ({marks})"
        # The values come first, then key and expected version.
        self.update = (
            f"UPDATE {table} SET {sets} WHERE k = {mark(len(COLUMNS))} AND v = {mark(len(COLUMNS) + 1)}"
        )
        self.touch = f"UPDATE {table} SET e = {mark(1)} WHERE k = {mark(2)}"
        self.delete = f"DELETE FROM {table} WHERE k = {mark(1)}"
        self.find = f"SELECT {names} FROM {table} WHERE u = {mark(1)}"
        self.stats = (
            f"SELECT count(*), coalesce(sum(CASE WHEN e < {mark(1)} THEN 1 ELSE 0 END), 0), count(DISTINCT u) "
            f"FROM {table}"
        )

    @staticmethod
    def update_values(record: Record, expected: int) -> list[Any]:
        """Return the values of `update`."""
        values = values_of(record)
        return [*values[1:], values[0], expected]

    @staticmethod
    def stats_of(row: Sequence[Any]) -> dict[str, int]:
        """Return figures by name."""
        return {"records": int(row[0]), "expired": int(row[1]), "users": int(row[2])}
