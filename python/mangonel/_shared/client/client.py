"""The client: parses the options, makes the core and chooses a port; databases are views on it.

Spec: mongodb-handshake, connection-monitoring-and-pooling, server-discovery-and-monitoring (one server).
"""

from __future__ import annotations

import _thread
import os
from _weakref import ref

from mangonel import _core
from mangonel._arguments import told_by_public_name
from mangonel._faces.deadline import timeout
from mangonel._faces.monitors import Starter
from mangonel._light import Generic
from mangonel._observe.listeners import Listeners
from mangonel._observe.logger_names import logger_name
from mangonel._shared.client import fork_and_exit
from mangonel._shared.client.abandoned_cursors import AbandonedCursors
from mangonel._shared.client.admin import ClientAdministration
from mangonel._shared.client.bulk import ClientBulkWrite
from mangonel._shared.client.database_too import database_too
from mangonel._shared.cursors.watch import Watched
from mangonel._shared.face_result import FaceResult
from mangonel._shared.operation import build_operation
from mangonel.auth import has_secret, without_frames
from mangonel.client_options import ClientOptions
from mangonel.errors import ConfigurationError
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mangonel._faces.port import Port
    from mangonel._shared.advice.advisor import Advisor
    from mangonel._shared.client.database import _Database
    from mangonel._shared.cursors.change_stream import _ClusterChangeStream  # noqa: F401  # in a base
    from mangonel._shared.sessions.options import TransactionOptions
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.bson.codec_options import CodecOptions, TypeRegistry
    from mangonel.metrics import ClientMetrics
    from mangonel.read_concern import ReadConcern
    from mangonel.read_preferences import _ServerMode
    from mangonel.write_concern import WriteConcern

# Suffixes of the host names of services that speak MongoDB's protocol but behave differently.
_OTHERS = (".cosmos.azure.com", ".docdb.amazonaws.com", ".docdb-elastic.amazonaws.com")

# How many seconds closing a client may spend on cleaning up on the server.
_TIDY_UP_SECONDS = 1.0


@told_by_public_name
class _MongoClient(
    ClientAdministration[_DocumentType],
    ClientBulkWrite,
    Watched["_ClusterChangeStream[_DocumentType]"],
    Generic[_DocumentType],
):
    """A client for a MongoDB deployment: its connections, shared by all databases and collections made from it.

    Creating a client does not wait: the blocking client starts monitoring in the background, an asyncio client with its
    first operation. One client per process is enough: it may be used from many threads, tasks and event loops at once,
    and works in a forked child.

    Args:
        host: host name, `host:port`, path of a Unix socket, or a URI `mongodb://...`; or a list of them.
        port: the port of hosts without one.
        document_class: the mapping class of decoded documents.
        tz_aware: decode dates as aware datetimes.
        connect: start monitoring at once, in the background. False: with the first operation, as always on asyncio.
        type_registry: encoders and decoders for your own types.
        **kwargs: any option of a URI, in snake case or in the URI's spelling.

    Raises:
        ConfigurationError, InvalidURI: the options are wrong or contradict each other. Nothing was sent.

    Example:
        >>> client = MongoClient("mongodb://localhost:27017", maxPoolSize=10)
        >>> client.shop.orders.find_one({"_id": 1})
    """

    HOST = "localhost"
    PORT = 27017

    _instead = (
        "pass its URI and options, and make a client there; threads and forked children may use this one"
    )
    # Set by each face in `api.py`.
    _port_class: type[Any]
    _database_class: type[Any]
    _session_class: type[Any]
    # False once the server has refused a `$unionWith` or a `$lookup` of GridFS.
    _knows_unions = True
    _knows_joins = True
    # How many chunks to request with the document of the next GridFS file, if more than the least number.
    _first_chunks = 0
    # Whether the command that opens a GridFS file leaves its cursor open, for the rest of a large file.
    _keeps_opening_cursor = False
    # The common fields of its databases, made for the first one.
    _databases: _core.ChildTemplate | None = None
    # What a session needs to start a transaction without options; made for the first one.
    _plain_start: tuple[Any, bytes, bytes, Any] | None = None

    def __init__(
        self,
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        document_class: type[_DocumentType] | None = None,
        tz_aware: bool | None = None,
        connect: bool | None = None,
        type_registry: TypeRegistry | None = None,
        **kwargs: Any,
    ) -> None:
        try:
            options = ClientOptions.from_arguments(
                self.HOST if host is None else host,
                self.PORT if port is None else port,
                document_class,
                tz_aware,
                connect,
                type_registry,
                kwargs,
                is_sync=not self._port_class.is_async,
            )
            if not self._port_class.is_async:
                # DNS must not block an event loop; there the first operation queries it.
                options = options.with_resolved_hosts()
        except Exception as error:
            if not has_secret(self.HOST if host is None else host, kwargs):
                raise
            # Some tools show the locals in a traceback, and these hold a password.
            host, kwargs = None, {}
            without_frames(error)
            raise
        self._options = options
        # Names of GridFS buckets whose indexes existed when a file was last stored.
        self._indexed_buckets: set[str] = set()
        _tell_others(options)
        self._take_settings(
            options.codec_options, options.read_preference, options.write_concern, options.read_concern
        )
        self._database_name = "admin"
        listeners = self._listeners = Listeners(options)
        try:
            self._core = _core.Core(options.core_options(), os.urandom(16), listeners)
        except UnicodeEncodeError:
            # The error holds the whole text, which may be a password.
            host, kwargs, is_encodable = None, {}, False
        else:
            is_encodable = True
        if not is_encodable:
            raise ConfigurationError(
                "expected options that UTF-8 can encode, got a lone surrogate in the user name, the password "
                "or another option"
            )
        fork_and_exit.prepare()
        listeners.follow(self._core)
        self._tracer = listeners.tracer
        if options.security is not None:
            self._core.set_security(options.security)
        if (proxy := options.proxy) is not None:
            self._core.set_proxy(proxy)
        self._core.set_starter(Starter(self._core, options.srv))
        self._port: Port = self._port_class(self._core)
        if not options.is_resolved:
            self._port.preparation = _LateHosts(self, options)
        self._abandoned_cursors = AbandonedCursors(self._core)
        self._core.set_sweeper(*self._abandoned_cursors.sweepers())
        self._advisor: Advisor | None = None
        if options.advise:
            from mangonel._shared.advice.advisor import Advisor

            self._advisor = advisor = Advisor(self._core)
            self._abandoned_cursors.heard = advisor.abandoned
            listeners.add(advisor)
        if (encryption := options.auto_encryption_opts) is not None:
            # A separate port, so that a client without encryption checks nothing per operation.
            self._port = encryption._attach(self, self._core, self._port)
        fork_and_exit.remember(self)
        if options.connect and not self._port.is_async:
            # Monitoring runs in the background.
            selection = self._operation({"ping": 1}, kind=_core.KIND_SELECTION)
            selection.silence()
            self._port.begin(selection)  # type: ignore[attr-defined]  # asyncio's has none

    def _watched(self) -> tuple[Any, int, Any]:
        admin = self._database_class(self, "admin")
        return admin, 1, admin["$cmd.aggregate"]

    @property
    def options(self) -> ClientOptions:
        """The options of the client."""
        return self._options

    def get_database(
        self,
        name: str | None = None,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> _Database[_DocumentType]:
        """Return a database. Sends nothing.

        Args:
            name: its name. None: the name in the URI.
            codec_options, read_preference, write_concern, read_concern: override the client's.
            timeout_ms: milliseconds for each operation; see `Collection.with_options`.

        Raises:
            ConfigurationError: neither `name` nor the URI names a database.
            InvalidName: the server would refuse the name.

        Example:
            >>> client.get_database("shop", write_concern=WriteConcern(w=1))
        """
        if name is None:
            name = self._options.default_database_name
            if name is None:
                raise ConfigurationError("no default database: name one here or in the URI")
        made: _Database[_DocumentType] = self._database_class(
            self, name, codec_options, read_preference, write_concern, read_concern
        )
        return made if timeout_ms is None else made.with_options(timeout_ms=timeout_ms)

    def get_default_database(
        self,
        default: str | None = None,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> _Database[_DocumentType]:
        """Return the database that the URI names, or `default`. Sends nothing.

        Args:
            default: name of the database if the URI has none.
            codec_options, read_preference, write_concern, read_concern: override the client's.
            timeout_ms: milliseconds for each operation; see `Collection.with_options`.

        Raises:
            ConfigurationError: the URI names none and `default` is None.

        Example:
            >>> MongoClient("mongodb://localhost/shop").get_default_database().name
            'shop'
        """
        name = self._options.default_database_name
        if name is None and default is None:
            raise ConfigurationError("no default database name defined or provided")
        return self.get_database(
            default if name is None else name,
            codec_options,
            read_preference,
            write_concern,
            read_concern,
            timeout_ms=timeout_ms,
        )

    def start_session(
        self,
        causal_consistency: bool | None = None,
        default_transaction_options: TransactionOptions | None = None,
        snapshot: bool | None = False,
        *,
        default_timeout_ms: float | None = None,
    ) -> _ClientSession:
        """Return a new session, for causally consistent operations and for transactions. Sends nothing.

        Args:
            causal_consistency: reads see the session's earlier writes and reads. None: True unless `snapshot`.
            default_transaction_options: defaults for the session's transactions.
            snapshot: all reads see the data of one moment; needs MongoDB 5.0.
            default_timeout_ms: milliseconds for each commit, each abort and each `with_transaction`; 0: no limit. None:
                the client's `timeoutMS`.

        Raises:
            ConfigurationError: both `causal_consistency` and `snapshot` are set.
            TypeError: `default_transaction_options` has another type.

        Example:
            >>> with client.start_session() as session:
            ...     client.shop.orders.insert_one({"_id": 1}, session=session)
        """
        kind = self._session_class
        has_more = default_transaction_options is not None or default_timeout_ms is not None
        if causal_consistency is None and snapshot is False and not has_more:
            return kind(self, kind._usual_options)
        options = kind._options_class(
            causal_consistency, default_transaction_options, snapshot, default_timeout_ms=default_timeout_ms
        )
        return kind(self, options)

    def __getitem__(self, name: str) -> _Database[_DocumentType]:
        template = self._databases
        made: _Database[_DocumentType] | None = None if template is None else template.database(self, name)
        return self._new_database(name) if made is None else made

    def _new_database(self, name: str) -> _Database[_DocumentType]:
        template = self._databases
        if template is None or template.port is not self._port:
            # Loaded late: a program that only makes a client needs no database.
            from mangonel._shared.client import database

            self._databases = database.template_of(self)
        return self._database_class(self, name)

    def __getattr__(self, name: str) -> _Database[_DocumentType]:
        if name.startswith("_"):
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}. "
                f"To access the {name} database, use client[{name!r}]"
            )
        return self[name]

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, _MongoClient) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        options = self._options
        return type(self)._port_class, options.seeds, options.replica_set_name, options.direct_connection

    def __repr__(self) -> str:
        hosts = [host if port is None else f"{host}:{port}" for host, port in self._options.seeds]
        described = [f"host={hosts!r}", *self._options.described()]
        return f"{type(self).__name__}({', '.join(described)})"

    @database_too
    def metrics(self) -> ClientMetrics:
        """Return the client's counts: operations, connections, bytes, retries, cursors. Sends nothing.

        A database of this name is `client["metrics"]`, and `client.metrics` as long as it is not called.

        Raises:
            ConfigurationError: the client does not count, because it was made without `metrics=True`.

        Example:
            >>> client = MongoClient(metrics=True)
            >>> [pool.in_use for pool in client.metrics().pools]
            [0]
        """
        from mangonel.metrics import snapshot

        counted = snapshot(self._core)
        if counted is None:
            raise ConfigurationError("expected a client made with metrics=True, got one without")
        return counted

    def close(self) -> FaceResult[None]:
        """Close every connection. Operations in flight fail; later ones raise InvalidOperation.

        It first ends the sessions on the server if a connection is available; errors are ignored, since the server's
        timeout ends them too.

        Example:
            >>> with MongoClient() as client:
            ...     client.admin.command("ping")
        """
        return self._port.flow(self._close_flow())

    async def _close_flow(self) -> None:
        if self._core.is_closed:
            return
        try:
            ids = self._core.drain_sessions()
            left = self._abandoned_cursors.left_to_do()
            # An unreachable server must not delay the close.
            if self._port.has_idle_link():
                await self._tidy_up_flow(left, ids)
        except Exception:
            # After any error, the client is closed below, and the server's timeouts end cursors and sessions.
            return
        finally:
            self._core.close()
            self._port.close()
            if self._tracer is not None:
                self._tracer.closed()

    async def _tidy_up_flow(self, left: list[_core.Operation], ids: list[bytes]) -> None:
        """Kill the cursors of dropped objects and end the sessions, within a second."""
        # The server cleans up by itself too, so this must not wait long for an unreachable deployment.
        with timeout(_TIDY_UP_SECONDS):
            for operation in [*left, self._end_sessions(ids)] if ids else left:
                await self._port.arun(operation)

    def _end_sessions(self, ids: list[bytes]) -> _core.Operation:
        from mangonel.bson.binary import UUID_SUBTYPE, Binary

        # The specification's limit for one command.
        most = 10_000
        sessions = [{"id": Binary(id, UUID_SUBTYPE)} for id in ids[:most]]
        return build_operation(
            {"endSessions": sessions},
            database="admin",
            codec=self._codec,
            kind=_core.KIND_WRITE,
            reading=_core.READ_UNCHECKED,
            session=False,
        )

    def _after_fork(self) -> None:
        """Start over in a forked child; close this process's copies of the sockets silently."""
        credentials = self._options._credentials
        if credentials is not None and credentials.responder is not None:
            credentials.responder.after_fork()
        links = self._core.restart_in_child(os.urandom(16))
        self._port.close()
        self._abandoned_cursors.retire()
        self._abandoned_cursors = AbandonedCursors(self._core)
        self._core.set_sweeper(*self._abandoned_cursors.sweepers())
        if self._advisor is not None:
            self._advisor.retire()
        for link in links:
            link.transport.abandon()


class _LateHosts:
    """Looks up the hosts in DNS before the first operation of a client. Blocks; called off the loop."""

    def __init__(self, client: _MongoClient[Any], options: ClientOptions) -> None:
        # A coroutine may outlive its client, and still needs the hosts.
        self._client = ref(client)
        self._core = client._core
        self._options = options
        self._lock = _thread.allocate_lock()

    def __call__(self) -> None:
        with self._lock:
            if self._options.is_resolved:
                return
            options = self._options.with_resolved_hosts()
            _tell_others(options)
            self._core.configure(options.core_options())
            self._options = options
            client = self._client()
            if client is not None:
                client._options = options


def _tell_others(options: ClientOptions) -> None:
    """Log that a host belongs to another service; warn if the log is off."""
    for host, _ in options.seeds:
        host = host.lower()
        if host.endswith(_OTHERS):
            import logging
            import warnings

            service = "CosmosDB" if host.endswith(_OTHERS[0]) else "DocumentDB"
            text = (
                f"{host} is {service}, which speaks MongoDB's protocol and lacks some of its features: "
                f"https://www.mongodb.com/supportability/{service.lower()}"
            )
            logger = logging.getLogger(logger_name("client"))
            if logger.isEnabledFor(logging.INFO):
                logger.info(text)
            else:
                warnings.warn(text, UserWarning, stacklevel=3)
            return
