"""Lists and drops a deployment's databases, and reads facts about its servers.

Spec: enumerate-databases, mongodb-handshake (append metadata).
"""

from __future__ import annotations

from mangonel import _core
from mangonel._arguments import expect_instance
from mangonel._core import KIND_SELECTION, READ_DATABASES
from mangonel._faces.deadline import is_in_block, timeout
from mangonel._faces.port import address_of
from mangonel._light import Generic
from mangonel._shared.client.admin_commands import PLAIN, AdministeredSource
from mangonel._shared.face_result import FaceResult
from mangonel._shared.replies import ReplyTo, cursor_of
from mangonel.read_preferences import ReadPreference
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mangonel._faces.port import Address
    from mangonel._observe.listeners import Listeners
    from mangonel._shared.client.database import _Database
    from mangonel._shared.cursors.command_cursor import _CommandCursor
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.client_options import ClientOptions
    from mangonel.driver_info import DriverInfo
    from mangonel.topology_description import TopologyDescription


class ClientAdministration(AdministeredSource, Generic[_DocumentType]):
    """Operations on a deployment as a whole."""

    _listeners: Listeners
    _core: _core.Core
    _options: ClientOptions
    _database_class: type[Any]

    def list_databases(
        self,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[_CommandCursor[dict[str, Any]]]:
        """Return a cursor over the descriptions of the databases: name, size, emptiness.

        Args:
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: more fields of the command: `filter`, `nameOnly`, `authorizedDatabases`.

        Raises:
            AutoReconnect: the connection broke twice. A read is safe to repeat.
            OperationFailure: the server refused; see `code` and `details`.

        Example:
            >>> [database["name"] for database in client.list_databases()]
            ['admin', 'config', 'local', 'shop']
        """
        self = self._limited(timeout_ms)
        return self._port.flow(self._list_databases_flow(session, comment, kwargs))

    async def _list_databases_flow(
        self, session: _ClientSession | None, comment: Any, options: dict[str, Any]
    ) -> Any:
        operation = self._listing(
            {"listDatabases": 1, **options}, READ_DATABASES, session=session, comment=comment
        )
        batch = await self._port.arun(operation)
        collection = self._database_class(self, "admin")["$cmd"]
        return collection._command_cursor_class(collection, cursor_of(batch), PLAIN, comment=comment)

    def list_database_names(
        self,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[list[str]]:
        """Return the names of the databases. Arguments and errors as for `list_databases`.

        Example:
            >>> client.list_database_names()
            ['admin', 'config', 'local', 'shop']
        """
        self = self._limited(timeout_ms)
        return self._port.flow(self._database_names_flow(session, comment))

    async def _database_names_flow(self, session: _ClientSession | None, comment: Any) -> list[str]:
        cursor = await self._list_databases_flow(session, comment, {"nameOnly": True})
        databases = await cursor._to_list_flow(None)
        with ReplyTo("listDatabases"):
            return [database["name"] for database in databases]

    def drop_database(
        self,
        name_or_database: str | _Database[Any],
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[None]:
        """Drop a database with everything in it. Does nothing if the database does not exist.

        Args:
            name_or_database: the database or its name.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            TypeError: `name_or_database` is neither a name nor a database.
            OperationFailure: the server refused; see `code` and `details`.
            WriteConcernError: dropped, but the write concern was not satisfied.
            AutoReconnect: the connection broke. Whether the database is gone is not known.

        Example:
            >>> client.drop_database("shop")
        """
        self = self._limited(timeout_ms)
        name = name_or_database
        if isinstance(name, self._database_class):
            name = name.name
        if not isinstance(name, str):
            raise TypeError(f"name_or_database must be an instance of str or a Database, not {type(name)}")
        # The constructor refuses invalid names.
        database = self._database_class(self, name)
        return self._port.flow(self._drop_database_flow(database.name, session, comment))

    async def _drop_database_flow(self, name: str, session: _ClientSession | None, comment: Any) -> None:
        await self._administer_flow(
            {"dropDatabase": 1}, session=session, comment=comment, database=name, codec=PLAIN
        )

    def server_info(
        self, session: _ClientSession | None = None, *, timeout_ms: float | None = None
    ) -> FaceResult[dict[str, Any]]:
        """Return the server's `buildInfo`: its version and build options.

        Args:
            session: run in this session; it must come from the same client.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            AutoReconnect: the connection broke.

        Example:
            >>> client.server_info()["version"]
            '6.0.5'
        """
        self = self._limited(timeout_ms)
        return self._database_class(self, "admin").command("buildInfo", session=session)

    def append_metadata(self, driver_info: DriverInfo) -> None:
        """Add a library's name to the metadata of new connections; open connections do not change.

        Args:
            driver_info: name, version and platform of the library; adding the same again changes nothing.

        Raises:
            TypeError: `driver_info` is not a DriverInfo.

        Example:
            >>> client.append_metadata(DriverInfo("my-library", "1.2"))
        """
        from mangonel.driver_info import DriverInfo

        expect_instance("driver_info", driver_info, DriverInfo)
        pool_options = self._options.pool_options
        if pool_options.append_driver(driver_info):
            self._core.set_metadata(pool_options.metadata)

    # The servers. On asyncio all but `nodes` are awaited.

    async def _hello_flow(self) -> dict[str, Any]:
        """Return the server's hello reply; connect first if there is none yet."""
        hello = self._core.hello()
        if hello is None:
            # Selects any server, and sends nothing.
            selection = self._operation(
                {"ping": 1}, kind=KIND_SELECTION, read_preference=ReadPreference.NEAREST, codec=PLAIN
            )
            selection.silence()
            await self._port.arun(selection)
            hello = self._core.hello()
        if hello is None:
            # Behind a load balancer, only opening a connection brings a hello reply.
            await self._administer_flow({"ping": 1}, codec=PLAIN, takes_write_concern=False)
            hello = self._core.hello()
        return hello or {}

    async def _connect_flow(self) -> None:
        if is_in_block():
            await self._hello_flow()
            return
        # This is not an operation: serverSelectionTimeoutMS limits it, timeoutMS does not.
        with timeout(0):
            await self._hello_flow()

    def _members(self, *types: str) -> list[Address]:
        """Return the known servers of these types, in the specification's names."""
        return [address_of(server) for server, kind in self._core.servers() if kind in types]

    async def _address_flow(self) -> Address:
        from mangonel.errors import InvalidOperation

        await self._hello_flow()
        found = self._members("Standalone", "Mongos", "RSPrimary", "LoadBalancer")
        if not found and self._options.direct_connection:
            found = self._members("RSSecondary", "RSArbiter", "RSOther", "RSGhost")
        if len(found) == 1:
            return found[0]
        raise InvalidOperation(
            f"expected one server that takes writes, got {len(found)}; see `nodes` for all of them"
        )

    async def _fact_flow(self, name: str) -> bool:
        return bool((await self._hello_flow()).get(name))

    async def _primary_flow(self) -> Address | None:
        await self._hello_flow()
        # A directly connected server is not reported as a primary.
        found = [] if self._options.direct_connection else self._members("RSPrimary")
        return found[0] if found else None

    async def _members_flow(self, type: str) -> set[Address]:
        await self._hello_flow()
        return set() if self._options.direct_connection else set(self._members(type))

    @property
    def address(self) -> FaceResult[Address]:
        """Host and port of the server; connects first if necessary."""
        return self._port.flow(self._address_flow())

    @property
    def primary(self) -> FaceResult[Address | None]:
        """Host and port of the replica set's primary; None without a primary or a replica set."""
        return self._port.flow(self._primary_flow())

    @property
    def secondaries(self) -> FaceResult[set[Address]]:
        """Hosts and ports of the replica set's secondaries."""
        return self._port.flow(self._members_flow("RSSecondary"))

    @property
    def arbiters(self) -> FaceResult[set[Address]]:
        """Hosts and ports of the replica set's arbiters."""
        return self._port.flow(self._members_flow("RSArbiter"))

    @property
    def is_primary(self) -> FaceResult[bool]:
        """Whether the server accepts writes."""
        return self._port.flow(self._fact_flow("is_writable"))

    @property
    def is_mongos(self) -> FaceResult[bool]:
        """Whether the server is a mongos."""
        return self._port.flow(self._fact_flow("is_mongos"))

    @property
    def nodes(self) -> frozenset[Address]:
        """Hosts and ports of the servers reached so far. Sends nothing."""
        known = [address_of(server) for server, kind in self._core.servers() if kind != "Unknown"]
        return frozenset(known)

    @property
    def topology_description(self) -> TopologyDescription:
        """The current description of the topology, as topology listeners receive it. Sends nothing.

        Example:
            >>> client.topology_description.topology_type_name
            'ReplicaSetWithPrimary'
        """
        from mangonel.topology_description import topology_described

        return topology_described(self._core.topology(), self._listeners.topology_id)
