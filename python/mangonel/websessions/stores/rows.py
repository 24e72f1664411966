"""Records as rows for SQL engines: columns, statements and the flows of a store. Knows no engine.

Times are whole milliseconds, so that every engine keeps them exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from mangonel.websessions.errors import UsageError
from mangonel.websessions.record import Record

__all__ = ["COLUMNS", "SCHEMA_VERSION", "RowStore", "Statements", "record_of", "table_name", "values_of"]

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
    key, version, data, created, issued, expires, deadline, sid, user, then, prev, label, epoch, writes = row
    return Record(
        key,
        data,
        version,
        created / 1000,
        expires / 1000,
        deadline / 1000,
        user,
        then,
        prev,
        issued / 1000,
        sid,
        label,
        epoch,
        writes,
    )


class Statements:
    """The statements of a store for one table.

    Args:
        table: its name.
        mark: returns the n-th placeholder, counted from 1.
        purge: the statement of `purge`; `{table}`, and `{now}` and `{limit}` for placeholders.
        insert_end: the end of an INSERT that makes it do nothing if the key exists.
    """

    def __init__(self, table: str, mark: Callable[[int], str], purge: str, insert_end: str = "") -> None:
        names = ", ".join(COLUMNS)
        marks = ", ".join(mark(n + 1) for n in range(len(COLUMNS)))
        sets = ", ".join(f"{name} = {mark(n + 1)}" for n, name in enumerate(COLUMNS[1:]))
        self.table = table_name(table)
        self.get = f"SELECT {names} FROM {table} WHERE k = {mark(1)}"
        self.insert = f"INSERT INTO {table} ({names}) VALUES ({marks}){insert_end}"
        # The values come first, then key and expected version.
        self.update = (
            f"UPDATE {table} SET {sets} WHERE k = {mark(len(COLUMNS))} AND v = {mark(len(COLUMNS) + 1)}"
        )
        self.touch = f"UPDATE {table} SET e = {mark(1)} WHERE k = {mark(2)}"
        self.find = f"SELECT {names} FROM {table} WHERE u = {mark(1)}"
        self.mark = mark
        self.purge = purge.format(table=table, now=mark(1), limit=mark(2))
        self.stats = (
            f"SELECT count(*), coalesce(sum(CASE WHEN e < {mark(1)} THEN 1 ELSE 0 END), 0), count(DISTINCT u) "
            f"FROM {table}"
        )

    def delete(self, keys: list[bytes]) -> tuple[str, list[Any]]:
        """Return the statement that removes rows, and its values."""
        marks = ", ".join(self.mark(n + 1) for n in range(len(keys)))
        return f"DELETE FROM {self.table} WHERE k IN ({marks})", keys


class RowStore:
    """The flows of every SQL store over its client's `_run`, which returns rows and how many were written."""

    _sql: Statements
    # For an engine without such an INSERT: the error for an existing key, and its number.
    _refusal: type[Exception] | tuple[()] = ()
    _duplicate = 0

    async def get(self, key: bytes) -> Record | None:
        """Return the record, which may have expired."""
        rows, _ = await self._run(self._sql.get, [key])
        return record_of(rows[0]) if rows else None

    async def put(self, record: Record, expected: int) -> bool:
        """Write if the stored version is `expected`."""
        values = values_of(record)
        if expected:
            _, count = await self._run(self._sql.update, [*values[1:], record.key, expected])
            return count == 1
        try:
            _, count = await self._run(self._sql.insert, values)
        except self._refusal as error:
            if error.args[0] == self._duplicate:
                return False
            raise
        return count == 1

    async def touch(self, key: bytes, expires: float) -> bool:
        """Move `e`."""
        _, count = await self._run(self._sql.touch, [round(expires * 1000), key])
        return count == 1

    async def delete(self, *keys: bytes) -> int:
        """Remove records."""
        _, count = await self._run(*self._sql.delete(list(keys)))
        return count

    async def find(self, user: str) -> list[Record]:
        """Return the user's records."""
        rows, _ = await self._run(self._sql.find, [user])
        return [record_of(row) for row in rows]

    async def purge(self, now: float, limit: int = 1000) -> int:
        """Remove expired records."""
        _, count = await self._run(self._sql.purge, [round(now * 1000), limit])
        return count

    async def stats(self, now: float) -> dict[str, int]:
        """Return counts."""
        rows, _ = await self._run(self._sql.stats, [round(now * 1000)])
        records, expired, users = map(int, rows[0])
        return {"records": records, "expired": expired, "users": users}

    async def _run(self, query: str, values: list[Any]) -> tuple[Any, int]:
        raise NotImplementedError
