"""Websessions in SQLite, with aiosqlite; the standard library's sqlite3 on the blocking face.

One row each, in a table without rowids. The database uses a write-ahead log, so readers do not wait for the writer;
several processes on one machine may share the file.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from typing import Any

import aiosqlite

from mangonel.websessions.errors import UsageError
from mangonel.websessions.stores._threads import PerThread, PurgesOnThreads
from mangonel.websessions.stores.rows import SCHEMA_VERSION, RowStore, Statements
from mangonel.websessions.stores.urls import StoreURL, flag

__all__ = ["BlockingSQLiteStore", "SQLiteStore"]

TABLE = "websessions"
TIMEOUT = 5.0

SCHEMA = """
CREATE TABLE IF NOT EXISTS {table} (
    k BLOB PRIMARY KEY, v INTEGER NOT NULL, d BLOB NOT NULL, c INTEGER NOT NULL, i INTEGER NOT NULL,
    e INTEGER NOT NULL, l INTEGER NOT NULL, s BLOB NOT NULL, u TEXT, n BLOB, p BLOB, b TEXT,
    r INTEGER NOT NULL, w BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {table}_e ON {table} (e);
CREATE INDEX IF NOT EXISTS {table}_u ON {table} (u) WHERE u IS NOT NULL;
PRAGMA user_version = {version}
"""
PURGE = "DELETE FROM {table} WHERE k IN (SELECT k FROM {table} WHERE e < {now} LIMIT {limit})"


def _pragmas(durable: bool, timeout: float) -> list[str]:
    return [
        f"PRAGMA busy_timeout = {int(timeout * 1000)}",
        "PRAGMA journal_mode = WAL",
        f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}",
    ]


class _Table(RowStore):
    def __init__(
        self, path: str, *, table: str = TABLE, durable: bool = False, timeout: float = TIMEOUT
    ) -> None:
        self._path = path
        self._sql = Statements(table, lambda n: "?", PURGE, " ON CONFLICT DO NOTHING")
        self._schema = SCHEMA.format(table=table, version=SCHEMA_VERSION)
        self._pragmas = _pragmas(durable, timeout)
        self._timeout = timeout


class SQLiteStore(_Table):
    """Websessions in a table, on an event loop; one connection with its own thread.

    Args:
        path: path of the file.
        table: name of the table.
        durable: wait for the disk at every write; otherwise a crash of the machine may lose the last writes.
        timeout: seconds to wait for another writer.
    """

    def __init__(
        self, path: str, *, table: str = TABLE, durable: bool = False, timeout: float = TIMEOUT
    ) -> None:
        super().__init__(path, table=table, durable=durable, timeout=timeout)
        self._connection: Any = None
        self._lock = asyncio.Lock()

    async def setup(self) -> None:
        """Create the table and its indexes."""
        connection = self._connection or await self._open()
        await connection.executescript(self._schema)

    async def aclose(self) -> None:
        """Close the connection and end its thread."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _run(self, query: str, values: list[Any]) -> tuple[list[Any], int]:
        connection = self._connection or await self._open()
        # One switch to the thread for all calls of the cursor, instead of one for each.
        try:
            answer: tuple[list[Any], int] = await connection._execute(
                _execute, connection._conn, query, values
            )
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            await self.setup()
            answer = await connection._execute(_execute, connection._conn, query, values)
        return answer

    async def _open(self) -> Any:
        async with self._lock:
            if self._connection is None:
                _prepare_file(self._path)
                connection = await aiosqlite.connect(self._path, isolation_level=None, timeout=self._timeout)
                for pragma in self._pragmas:
                    await connection.execute(pragma)
                self._connection = connection
        return self._connection


def _prepare_file(path: str) -> None:
    """Create the file for its owner only: it stores who is logged in. SQLite's other files get the same mode."""
    _check_folder(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return  # the owner decides on its mode


def _check_folder(path: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"cannot open {os.path.abspath(path)}: there is no folder {folder}; "
            "sqlite:///app.db is below the working folder, sqlite:////var/lib/app.db is not"
        )


def _execute(connection: sqlite3.Connection, query: str, values: list[Any]) -> tuple[list[Any], int]:
    cursor = connection.execute(query, values)
    try:
        return (cursor.fetchall() if cursor.description else []), cursor.rowcount
    finally:
        cursor.close()


class _InThreads(PerThread, _Table):
    async def setup(self) -> None:
        """As `SQLiteStore.setup`."""
        self._connection().executescript(self._schema)

    async def _run(self, query: str, values: list[Any]) -> tuple[list[Any], int]:
        try:
            return _execute(getattr(self._local, "connection", None) or self._connection(), query, values)
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
        await self.setup()
        return _execute(self._connection(), query, values)

    def _connect(self) -> sqlite3.Connection:
        _prepare_file(self._path)
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=self._timeout)
        for pragma in self._pragmas:
            connection.execute(pragma)
        return connection


class BlockingSQLiteStore(PurgesOnThreads):
    """The same for threads, one connection for each thread."""

    def __init__(
        self, path: str, *, table: str = TABLE, durable: bool = False, timeout: float = TIMEOUT
    ) -> None:
        super().__init__(_InThreads(path, table=table, durable=durable, timeout=timeout))


def from_url(url: StoreURL) -> SQLiteStore:
    """Return a store for `sqlite:///app.db` (relative), `sqlite:////var/lib/app.db` and ?table, durable, timeout."""
    path, own = _parts(url)
    return SQLiteStore(path, **own)


def blocking_from_url(url: StoreURL) -> BlockingSQLiteStore:
    """Return the same for threads."""
    path, own = _parts(url)
    return BlockingSQLiteStore(path, **own)


def _parts(url: StoreURL) -> tuple[str, dict[str, Any]]:
    own = {
        "table": url.take("table", TABLE),
        "durable": url.take("durable", False, flag),
        "timeout": url.take("timeout", TIMEOUT, float),
    }
    url.finish()
    if url.netloc:
        raise UsageError(f"expected three slashes before a file's path, as sqlite:///{url.netloc}{url.path}")
    path = url.path.removeprefix("/")
    if not path:
        raise UsageError("expected a file in the store's URL; for tests without one there is memory:")
    return path, own
