"""Websessions in MySQL or MariaDB, with asyncmy; PyMySQL on the blocking face.

One InnoDB row each. Error 1062, a duplicate key, means that another request inserted first. A write names the version,
and FOUND_ROWS counts matched rows, so that a touch without a change counts too. Values are always positional
parameters.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import asyncmy
import asyncmy.errors
from asyncmy.constants.CLIENT import FOUND_ROWS

from mangonel.websessions.errors import UsageError
from mangonel.websessions.record import Record
from mangonel.websessions.stores.rows import Statements, record_of, table_name, values_of
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


class MySQLStore:
    """Websessions in a table, on an event loop.

    Args:
        connect: arguments of `asyncmy.connect`: host, port, user, password, db, unix_socket, ssl.
        table: name of the table.
        timeout: seconds for each call.
        connections: the most connections.
    """

    def __init__(
        self,
        connect: dict[str, Any],
        *,
        table: str = TABLE,
        timeout: float = TIMEOUT,
        connections: int = CONNECTIONS,
    ) -> None:
        self._connect = {
            **connect,
            "autocommit": True,
            "client_flag": FOUND_ROWS,
            "charset": "utf8mb4",
            "connect_timeout": timeout,
        }
        self._sql = Statements(table_name(table), lambda n: "%s")
        self._timeout = timeout
        self._idle: list[Any] = []
        self._free = asyncio.Semaphore(connections)

    async def get(self, key: bytes) -> Record | None:
        """Return the record, which may have expired."""
        _, rows = await self._run(self._sql.get, [key])
        return record_of(rows[0]) if rows else None

    async def put(self, record: Record, expected: int) -> bool:
        """Write if the stored version is `expected`."""
        if expected:
            count, _ = await self._run(self._sql.update, Statements.update_values(record, expected))
            return count == 1
        try:
            await self._run(self._sql.insert, values_of(record))
        except asyncmy.errors.IntegrityError as error:
            if error.args[0] == DUPLICATE:
                return False
            raise
        return True

    async def touch(self, key: bytes, expires: float) -> bool:
        """Move `e`."""
        count, _ = await self._run(self._sql.touch, [round(expires * 1000), key])
        return count == 1

    async def delete(self, *keys: bytes) -> int:
        """Remove records."""
        marks = ", ".join(["%s"] * len(keys))
        count, _ = await self._run(f"DELETE FROM {self._sql.table} WHERE k IN ({marks})", list(keys))
        return count

    async def find(self, user: str) -> list[Record]:
        """Return the user's records."""
        _, rows = await self._run(self._sql.find, [user])
        return [record_of(row) for row in rows]

    async def purge(self, now: float, limit: int = 1000) -> int:
        """Remove expired records."""
        query = f"DELETE FROM {self._sql.table} WHERE e < %s LIMIT %s"
        count, _ = await self._run(query, [round(now * 1000), limit])
        return count

    async def stats(self, now: float) -> dict[str, int]:
        """Return counts."""
        _, rows = await self._run(self._sql.stats, [round(now * 1000)])
        return Statements.stats_of(rows[0])

    async def setup(self) -> None:
        """Create the table."""
        query = "SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name = %s"
        _, rows = await self._send(query, [self._sql.table])
        if not rows[0][0]:  # asked first, since IF NOT EXISTS prints a warning for a table that exists
            await self._send(SCHEMA.format(table=self._sql.table), [])

    async def aclose(self) -> None:
        """Close the connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.ensure_closed()

    async def _run(self, query: str, values: list[Any]) -> tuple[int, Any]:
        try:
            return await self._send(query, values)
        except asyncmy.errors.ProgrammingError as error:
            if error.args[0] != NO_TABLE:
                raise
        try:
            await self.setup()
        except asyncmy.errors.MySQLError as error:
            raise _told(error, self._sql.table) from error
        return await self._send(query, values)

    async def _send(self, query: str, values: list[Any]) -> tuple[int, Any]:
        # Kept in a name, as in _faces/aio.py.
        limit = asyncio.timeout(self._timeout)
        async with limit, self._free:
            connection = self._idle.pop() if self._idle else await asyncmy.connect(**self._connect)
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
        return count, rows


class BlockingMySQLStore:
    """The same for threads, with PyMySQL, one connection for each thread."""

    def __init__(self, connect: dict[str, Any], *, table: str = TABLE, timeout: float = TIMEOUT) -> None:
        import pymysql

        self._open: Any = pymysql.connect
        self._integrity: type[Exception] = pymysql.err.IntegrityError
        connect = dict(connect)
        self._connect = {
            "database": connect.pop("db"),
            **connect,
            "autocommit": True,
            "client_flag": FOUND_ROWS,
            "charset": "utf8mb4",
            "connect_timeout": timeout,
            "read_timeout": timeout,
            "write_timeout": timeout,
        }
        self._sql = Statements(table_name(table), lambda n: "%s")
        self._local = threading.local()

    def get(self, key: bytes) -> Record | None:
        """As `MySQLStore.get`."""
        _, rows = self._run(self._sql.get, [key])
        return record_of(rows[0]) if rows else None

    def put(self, record: Record, expected: int) -> bool:
        """As `MySQLStore.put`."""
        if expected:
            return self._run(self._sql.update, Statements.update_values(record, expected))[0] == 1
        try:
            self._run(self._sql.insert, values_of(record))
        except self._integrity as error:
            if error.args[0] == DUPLICATE:
                return False
            raise
        return True

    def touch(self, key: bytes, expires: float) -> bool:
        """As `MySQLStore.touch`."""
        return self._run(self._sql.touch, [round(expires * 1000), key])[0] == 1

    def delete(self, *keys: bytes) -> int:
        """As `MySQLStore.delete`."""
        marks = ", ".join(["%s"] * len(keys))
        return self._run(f"DELETE FROM {self._sql.table} WHERE k IN ({marks})", list(keys))[0]

    def find(self, user: str) -> list[Record]:
        """As `MySQLStore.find`."""
        return [record_of(row) for row in self._run(self._sql.find, [user])[1]]

    def purge(self, now: float, limit: int = 1000) -> int:
        """As `MySQLStore.purge`."""
        return self._run(f"DELETE FROM {self._sql.table} WHERE e < %s LIMIT %s", [round(now * 1000), limit])[
            0
        ]

    def setup(self) -> None:
        """As `MySQLStore.setup`."""
        self._send(SCHEMA.format(table=self._sql.table), [])

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            self._local.connection = None
            connection.close()

    def _run(self, query: str, values: list[Any]) -> tuple[int, Any]:
        import pymysql

        try:
            return self._send(query, values)
        except pymysql.err.ProgrammingError as error:
            if error.args[0] != NO_TABLE:
                raise
        try:
            self.setup()
        except pymysql.err.MySQLError as error:
            raise _told(error, self._sql.table) from error
        return self._send(query, values)

    def _send(self, query: str, values: list[Any]) -> tuple[int, Any]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._open(**self._connect)
        try:
            with connection.cursor() as cursor:
                count = cursor.execute(query, values or None)
                return count, cursor.fetchall()
        except self._integrity:
            raise
        except BaseException:
            self.close()
            raise


def _told(error: Exception, table: str) -> Exception:
    """Return the error to raise if the table could not be created."""
    if error.args[0] not in NO_RIGHT:
        return error
    return PermissionError(
        f"there is no table {table}, and this user may not make it: {error}; "
        "run `mangonel websessions setup URL` once as one who may"
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
