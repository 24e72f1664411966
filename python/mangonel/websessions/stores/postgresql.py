"""Websessions in PostgreSQL, with asyncpg; psycopg on the blocking face.

One row each. An insert that meets an existing row does nothing; a write names the version. The index on `e` is a BRIN
index, which lets updates of other columns stay on their page. Set `statement_cache_size=0` behind PgBouncer.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import asyncpg

from mangonel.websessions.record import Record
from mangonel.websessions.stores.rows import SCHEMA_VERSION, Statements, record_of, table_name, values_of
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


NO_RIGHT = (
    "there is no table {table}, and this user may not make it: {error}; "
    "run `mangonel websessions setup URL` once as one who may"
)


async def _no_reset(connection: Any) -> None:
    """Do nothing: connections here never listen, lock or set anything, and a reset would cost a round trip."""


class PostgresStore:
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
        self._sql = Statements(table_name(table), lambda n: f"${n}")
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

    async def get(self, key: bytes) -> Record | None:
        """Return the record, which may have expired."""
        row = await self._run("fetchrow", self._sql.get, key)
        return record_of(row) if row is not None else None

    async def put(self, record: Record, expected: int) -> bool:
        """Write if the stored version is `expected`."""
        if expected:
            status = await self._run("execute", self._sql.update, *Statements.update_values(record, expected))
        else:
            status = await self._run(
                "execute", f"{self._sql.insert} ON CONFLICT DO NOTHING", *values_of(record)
            )
        return _count(status) == 1

    async def touch(self, key: bytes, expires: float) -> bool:
        """Move `e`."""
        return _count(await self._run("execute", self._sql.touch, round(expires * 1000), key)) == 1

    async def delete(self, *keys: bytes) -> int:
        """Remove records."""
        return _count(await self._run("execute", f"DELETE FROM {self._sql.table} WHERE k = ANY($1)", keys))

    async def find(self, user: str) -> list[Record]:
        """Return the user's records."""
        return [record_of(row) for row in await self._run("fetch", self._sql.find, user)]

    async def purge(self, now: float, limit: int = 1000) -> int:
        """Remove expired records; several processes may do so at once."""
        table = self._sql.table
        query = (
            f"DELETE FROM {table} WHERE k = ANY(ARRAY("
            f"SELECT k FROM {table} WHERE e < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))"
        )
        return _count(await self._run("execute", query, round(now * 1000), limit))

    async def stats(self, now: float) -> dict[str, int]:
        """Return counts."""
        return Statements.stats_of(await self._run("fetchrow", self._sql.stats, round(now * 1000)))

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

    async def _run(self, method: str, query: str, *values: Any) -> Any:
        try:
            return await self._send(method, query, *values)
        except asyncpg.UndefinedTableError:
            await self._set_up()
        return await self._send(method, query, *values)

    async def _send(self, method: str, query: str, *values: Any) -> Any:
        pool = self._pool or await self._open()
        connection = await pool.acquire(timeout=self._timeout)
        try:
            return await getattr(connection, method)(query, *values)
        finally:
            await pool.release(connection)

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


def _count(status: str) -> int:
    return int(status.rpartition(" ")[2])


class BlockingPostgresStore:
    """The same for threads, with psycopg, one connection for each thread."""

    def __init__(
        self, dsn: str, *, table: str = TABLE, durable: bool = True, timeout: float = TIMEOUT
    ) -> None:
        self._dsn = dsn
        self._sql = Statements(table_name(table), lambda n: "%s")
        self._options = f"-c statement_timeout={int(timeout * 1000)}"
        if not durable:
            self._options += " -c synchronous_commit=off"
        self._timeout = timeout
        self._local = threading.local()

    def get(self, key: bytes) -> Record | None:
        """As `PostgresStore.get`."""
        row = self._run(self._sql.get, [key]).fetchone()
        return record_of(row) if row is not None else None

    def put(self, record: Record, expected: int) -> bool:
        """As `PostgresStore.put`."""
        if expected:
            return bool(self._run(self._sql.update, Statements.update_values(record, expected)).rowcount == 1)
        return bool(self._run(f"{self._sql.insert} ON CONFLICT DO NOTHING", values_of(record)).rowcount == 1)

    def touch(self, key: bytes, expires: float) -> bool:
        """As `PostgresStore.touch`."""
        return bool(self._run(self._sql.touch, [round(expires * 1000), key]).rowcount == 1)

    def delete(self, *keys: bytes) -> int:
        """As `PostgresStore.delete`."""
        return int(self._run(f"DELETE FROM {self._sql.table} WHERE k = ANY(%s)", [list(keys)]).rowcount)

    def find(self, user: str) -> list[Record]:
        """As `PostgresStore.find`."""
        return [record_of(row) for row in self._run(self._sql.find, [user]).fetchall()]

    def purge(self, now: float, limit: int = 1000) -> int:
        """As `PostgresStore.purge`."""
        table = self._sql.table
        query = (
            f"DELETE FROM {table} WHERE k = ANY(ARRAY("
            f"SELECT k FROM {table} WHERE e < %s LIMIT %s FOR UPDATE SKIP LOCKED))"
        )
        return int(self._run(query, [round(now * 1000), limit]).rowcount)

    def setup(self) -> None:
        """As `PostgresStore.setup`."""
        connection = self._connection()
        with connection.transaction():
            connection.execute(f"SELECT pg_advisory_xact_lock({SETUP_LOCK})")
            for statement in SCHEMA.format(table=self._sql.table, version=SCHEMA_VERSION).split(";"):
                connection.execute(statement)

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _run(self, query: str, values: list[Any]) -> Any:
        import psycopg.errors

        try:
            return self._connection().execute(query, values, binary=True)
        except psycopg.errors.UndefinedTable:
            pass
        try:
            self.setup()
        except psycopg.errors.InsufficientPrivilege as error:
            raise PermissionError(NO_RIGHT.format(table=self._sql.table, error=error)) from error
        return self._connection().execute(query, values, binary=True)

    def _connection(self) -> Any:
        import psycopg

        connection = getattr(self._local, "connection", None)
        if connection is None or connection.closed:
            connection = self._local.connection = psycopg.connect(
                self._dsn, autocommit=True, connect_timeout=max(int(self._timeout), 1), options=self._options
            )
        return connection


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
    # libpq reads a plus sign as one, not as a space.
    return f"{text}?{urlencode(rest, quote_via=quote)}" if rest else text
