"""Websessions in MySQL or MariaDB, with asyncmy; PyMySQL on the blocking face.

One InnoDB row each. Error 1062, a duplicate key, means that another request inserted first. A write names the version,
and FOUND_ROWS counts matched rows, so that a touch without a change counts too. Values are always positional
parameters.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncmy
import asyncmy.errors
from asyncmy.constants.CLIENT import FOUND_ROWS

from mangonel.websessions.errors import UsageError
from mangonel.websessions.stores._threads import PerThread, PurgesOnThreads
from mangonel.websessions.stores.rows import RowStore, Statements
from mangonel.websessions.stores.tls import take_tls
from mangonel.websessions.stores.urls import StoreURL

__all__ = ["BlockingMySQLStore", "MySQLStore"]

TABLE = "websessions"
PORT = 3306
TIMEOUT = 5.0
CONNECTIONS = 20

DUPLICATE = 1062
NO_TABLE = 1146
NO_RIGHT = (1044, 1142)

SCHEMA = """
CREATE TABLE IF NOT EXISTS {table} (
    k binary(32) NOT NULL PRIMARY KEY, v bigint NOT NULL, d longblob NOT NULL, c bigint NOT NULL, i bigint NOT NULL,
    e bigint NOT NULL, l bigint NOT NULL, s varbinary(16) NOT NULL,
    u varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, n varbinary(32), p varbinary(32),
    b varchar(255) CHARACTER SET utf8mb4, r bigint NOT NULL, w varbinary(192) NOT NULL,
    INDEX {table}_e (e), INDEX {table}_u (u)
) ENGINE=InnoDB COMMENT='websessions, schema 1'
"""


PURGE = "DELETE FROM {table} WHERE e < {now} LIMIT {limit}"


class _Table(RowStore):
    _errors: Any = asyncmy.errors  # the client's
    _duplicate = DUPLICATE

    def __init__(self, connect: dict[str, Any], *, table: str = TABLE, timeout: float = TIMEOUT) -> None:
        self._options = {
            **connect,
            "autocommit": True,
            "client_flag": FOUND_ROWS,
            "charset": "utf8mb4",
            "connect_timeout": timeout,
        }
        self._sql = Statements(table, lambda n: "%s", PURGE)
        self._timeout = timeout

    async def setup(self) -> None:
        """Create the table."""
        query = "SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name = %s"
        rows, _ = await self._send(query, [self._sql.table])
        if not rows[0][0]:  # asked first, since IF NOT EXISTS prints a warning for a table that exists
            await self._send(SCHEMA.format(table=self._sql.table), [])

    async def _run(self, query: str, values: list[Any]) -> tuple[Any, int]:
        try:
            return await self._send(query, values)
        except self._errors.ProgrammingError as error:
            if error.args[0] != NO_TABLE:
                raise
        try:
            await self.setup()
        except self._errors.MySQLError as error:
            raise _told(error, self._sql.table) from error
        return await self._send(query, values)

    async def _send(self, query: str, values: list[Any]) -> tuple[Any, int]:
        raise NotImplementedError


class MySQLStore(_Table):
    """Websessions in a table, on an event loop.

    Args:
        connect: arguments of `asyncmy.connect`: host, port, user, password, db, unix_socket, ssl.
        table: name of the table.
        timeout: seconds for each call.
        connections: the most connections.
    """

    _refusal = asyncmy.errors.IntegrityError

    def __init__(
        self,
        connect: dict[str, Any],
        *,
        table: str = TABLE,
        timeout: float = TIMEOUT,
        connections: int = CONNECTIONS,
    ) -> None:
        super().__init__(connect, table=table, timeout=timeout)
        self._idle: list[Any] = []
        self._free = asyncio.Semaphore(connections)

    async def aclose(self) -> None:
        """Close the connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.ensure_closed()

    async def _send(self, query: str, values: list[Any]) -> tuple[Any, int]:
        # Kept in a name, as in _faces/aio.py.
        limit = asyncio.timeout(self._timeout)
        async with limit, self._free:
            connection = self._idle.pop() if self._idle else await asyncmy.connect(**self._options)
            is_sound = False
            try:
                async with connection.cursor() as cursor:
                    count = await cursor.execute(query, values or None)
                    rows = await cursor.fetchall() if cursor.description else ()
                is_sound = True
            except asyncmy.errors.IntegrityError:
                is_sound = True
                raise
            finally:
                # A connection that owes a reply is never used again.
                if is_sound:
                    self._idle.append(connection)
                else:
                    connection.close()
        return rows, count


class _InThreads(PerThread, _Table):
    def __init__(self, connect: dict[str, Any], *, table: str = TABLE, timeout: float = TIMEOUT) -> None:
        super().__init__(connect, table=table, timeout=timeout)
        import pymysql

        self._client: Any = pymysql
        self._errors = pymysql.err
        self._refusal: type[Exception] = pymysql.err.IntegrityError
        self._options |= {
            "database": self._options.pop("db"),
            "read_timeout": timeout,
            "write_timeout": timeout,
        }

    async def _send(self, query: str, values: list[Any]) -> tuple[Any, int]:
        connection = self._connection()
        try:
            with connection.cursor() as cursor:
                count = cursor.execute(query, values or None)
                return cursor.fetchall(), count
        except self._refusal:
            raise
        except BaseException:
            await self.aclose()
            raise

    def _connect(self) -> Any:
        return self._client.connect(**self._options)


class BlockingMySQLStore(PurgesOnThreads):
    """The same for threads, with PyMySQL, one connection for each thread."""

    def __init__(self, connect: dict[str, Any], *, table: str = TABLE, timeout: float = TIMEOUT) -> None:
        super().__init__(_InThreads(connect, table=table, timeout=timeout))


def _told(error: Exception, table: str) -> Exception:
    """Return the error to raise if the table could not be created."""
    if error.args[0] not in NO_RIGHT:
        return error
    return PermissionError(
        f"there is no table {table}, and this user may not make it: {error}; "
        "run `mangonel websessions setup URL` once as a user who may"
    )


def from_url(url: StoreURL) -> MySQLStore:
    """Return a store for `mysql://user:password@host:3306/database?table=…&timeout=…&connections=…&socket=…`.

    Over TLS with `tls=1`, `tlsCAFile=…`, `tlsCertificateKeyFile=…`.
    """
    connections = url.take("connections", CONNECTIONS, int)
    own = _own(url)
    return MySQLStore(_connect(url), connections=connections, **own)


def blocking_from_url(url: StoreURL) -> BlockingMySQLStore:
    """Return the same for threads."""
    url.take("connections")
    own = _own(url)
    return BlockingMySQLStore(_connect(url), **own)


def _own(url: StoreURL) -> dict[str, Any]:
    return {"table": url.take("table", TABLE), "timeout": url.take("timeout", TIMEOUT, float)}


def _connect(url: StoreURL) -> dict[str, Any]:
    database = url.path.strip("/")
    if not database:
        raise UsageError('expected a database in the store\'s URL, as "mysql://user:password@host/app"')
    connect: dict[str, Any] = {
        "host": url.host or "localhost",
        "port": url.port or PORT,
        "user": url.user or "root",
        "password": url.password or "",
        "db": database,
    }
    socket = url.take("socket")
    if socket:
        connect["unix_socket"] = socket
    tls = take_tls(url)
    if tls is not None:
        connect["ssl"] = tls.context()
    url.finish()
    return connect
