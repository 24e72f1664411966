"""Websessions in PostgreSQL, with asyncpg; psycopg on the blocking face.

One row each. An insert that meets an existing row does nothing; a write names the version. The index on `e` is a BRIN
index, which lets updates of other columns stay on their page. Set `statement_cache_size=0` behind PgBouncer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg

from mangonel.websessions.stores._threads import PerThread, PurgesOnThreads
from mangonel.websessions.stores.rows import SCHEMA_VERSION, RowStore, Statements
from mangonel.websessions.stores.urls import StoreURL, flag

__all__ = ["BlockingPostgresStore", "PostgresStore"]

TABLE = "websessions"
TIMEOUT = 5.0
CONNECTIONS = 20

SCHEMA = """
CREATE TABLE IF NOT EXISTS {table} (
    k bytea PRIMARY KEY, v bigint NOT NULL, d bytea NOT NULL, c bigint NOT NULL, i bigint NOT NULL,
    e bigint NOT NULL, l bigint NOT NULL, s bytea NOT NULL, u text, n bytea, p bytea, b text,
    r bigint NOT NULL, w bytea NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX IF NOT EXISTS {table}_e ON {table} USING brin (e);
CREATE INDEX IF NOT EXISTS {table}_u ON {table} (u) WHERE u IS NOT NULL;
COMMENT ON TABLE {table} IS 'websessions, schema {version}'
"""

# Two processes that create the same table at once conflict in the catalogue, despite IF NOT EXISTS.
SETUP_LOCK = 0x6D61_6E67_6F6E

# Several processes may purge at once.
PURGE = (
    "DELETE FROM {table} WHERE k = ANY(ARRAY("
    "SELECT k FROM {table} WHERE e < {now} LIMIT {limit} FOR UPDATE SKIP LOCKED))"
)

NO_RIGHT = (
    "there is no table {table}, and this user may not make it: {error}; "
    "run `mangonel websessions setup URL` once as a user who may"
)


async def _no_reset(connection: Any) -> None:
    """Do nothing: connections here never listen, lock or set anything, and a reset would cost a round trip."""


class _Statements(Statements):
    def delete(self, keys: list[bytes]) -> tuple[str, list[Any]]:
        """Return one statement for any number of keys, which is prepared once."""
        return f"DELETE FROM {self.table} WHERE k = ANY({self.mark(1)})", [keys]


def _statements(table: str, mark: Callable[[int], str]) -> _Statements:
    return _Statements(table, mark, PURGE, " ON CONFLICT DO NOTHING")


class PostgresStore(RowStore):
    """Websessions in a table, on an event loop.

    Args:
        dsn: connection string.
        table: name of the table.
        durable: False: `synchronous_commit=off`, so a crash may lose the last second.
        connect: more arguments of `asyncpg.create_pool`.
    """

    def __init__(
        self,
        dsn: str,
        *,
        table: str = TABLE,
        durable: bool = True,
        timeout: float = TIMEOUT,
        connections: int = CONNECTIONS,
        **connect: Any,
    ) -> None:
        self._dsn = dsn
        self._sql = _statements(table, lambda n: f"${n}")
        self._connect = {
            "min_size": 1,
            "max_size": connections,
            "command_timeout": timeout,
            "timeout": timeout,
            "reset": _no_reset,
            **connect,
        }
        if not durable:
            self._connect["server_settings"] = {"synchronous_commit": "off"}
        self._timeout = timeout
        self._pool: Any = None
        self._lock = asyncio.Lock()

    async def setup(self) -> None:
        """Create the table and its indexes."""
        pool = self._pool or await self._open()
        schema = SCHEMA.format(table=self._sql.table, version=SCHEMA_VERSION)
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({SETUP_LOCK})")
            await connection.execute(schema)

    async def aclose(self) -> None:
        """Close the connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _run(self, query: str, values: list[Any]) -> tuple[list[Any], int]:
        try:
            return await self._send(query, values)
        except asyncpg.UndefinedTableError:
            await self._set_up()
        return await self._send(query, values)

    async def _send(self, query: str, values: list[Any]) -> tuple[list[Any], int]:
        pool = self._pool or await self._open()
        connection = await pool.acquire(timeout=self._timeout)
        try:
            if query.startswith("SELECT"):
                return await connection.fetch(query, *values), 0
            status = await connection.execute(query, *values)
        finally:
            await pool.release(connection)
        return [], int(status.rpartition(" ")[2])

    async def _set_up(self) -> None:
        try:
            await self.setup()
        except asyncpg.InsufficientPrivilegeError as error:
            raise PermissionError(NO_RIGHT.format(table=self._sql.table, error=error)) from error

    async def _open(self) -> Any:
        async with self._lock:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(self._dsn, **self._connect)
        return self._pool


class _InThreads(PerThread, RowStore):
    def __init__(self, dsn: str, table: str, durable: bool, timeout: float) -> None:
        super().__init__()
        self._dsn = dsn
        self._sql = _statements(table, lambda n: "%s")
        self._options = f"-c statement_timeout={int(timeout * 1000)}"
        if not durable:
            self._options += " -c synchronous_commit=off"
        self._timeout = timeout

    async def setup(self) -> None:
        """As `PostgresStore.setup`."""
        connection = self._connection()
        with connection.transaction():
            connection.execute(f"SELECT pg_advisory_xact_lock({SETUP_LOCK})")
            for statement in SCHEMA.format(table=self._sql.table, version=SCHEMA_VERSION).split(";"):
                connection.execute(statement)

    async def _run(self, query: str, values: list[Any]) -> tuple[list[Any], int]:
        import psycopg.errors

        try:
            cursor = self._connection().execute(query, values, binary=True)
        except psycopg.errors.UndefinedTable:
            try:
                await self.setup()
            except psycopg.errors.InsufficientPrivilege as error:
                raise PermissionError(NO_RIGHT.format(table=self._sql.table, error=error)) from error
            cursor = self._connection().execute(query, values, binary=True)
        return (cursor.fetchall() if query.startswith("SELECT") else []), cursor.rowcount

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(
            self._dsn, autocommit=True, connect_timeout=max(int(self._timeout), 1), options=self._options
        )


class BlockingPostgresStore(PurgesOnThreads):
    """The same for threads, with psycopg, one connection for each thread."""

    def __init__(
        self, dsn: str, *, table: str = TABLE, durable: bool = True, timeout: float = TIMEOUT
    ) -> None:
        super().__init__(_InThreads(dsn, table, durable, timeout))


def from_url(url: StoreURL) -> PostgresStore:
    """Return a store for `postgresql://user:password@host/database?table=…&durable=…&timeout=…&connections=…`."""
    own = _own(url)
    own["connections"] = url.take("connections", CONNECTIONS, int)
    size = url.take("statement_cache_size", None, int)
    if size is not None:
        own["statement_cache_size"] = size
    return PostgresStore(_dsn(url), **own)


def blocking_from_url(url: StoreURL) -> BlockingPostgresStore:
    """Return the same for threads."""
    own = _own(url)
    url.take("connections")
    url.take("statement_cache_size")
    return BlockingPostgresStore(_dsn(url), **own)


def _own(url: StoreURL) -> dict[str, Any]:
    return {
        "table": url.take("table", TABLE),
        "durable": url.take("durable", True, flag),
        "timeout": url.take("timeout", TIMEOUT, float),
    }


def _dsn(url: StoreURL) -> str:
    from urllib.parse import quote, urlencode

    # The options that both clients know; both refuse unknown ones.
    names = ("host", "sslmode", "sslrootcert", "sslcert", "sslkey")
    rest: dict[str, str] = {name: url.take(name) for name in names if name in url.options}
    url.finish()
    text = url.without_query()
    # libpq reads a plus sign as a plus sign, not as a space.
    return f"{text}?{urlencode(rest, quote_via=quote)}" if rest else text
