"""Creates, lists, drops and validates a database's collections; aggregations and cursors on the database itself.

Spec: enumerate-collections, crud (database aggregate).
"""

from __future__ import annotations

from mangonel import _core
from mangonel._core import KIND_READ_ONCE, READ_BATCH
from mangonel._faces.deadline import check_wait
from mangonel._light import Generic
from mangonel._shared.client.admin_commands import (
    PLAIN,
    AdministeredSource,
)
from mangonel._shared.collection.aggregation import AggregatingSource
from mangonel._shared.collection.encrypted import drop_flow
from mangonel._shared.face_result import FaceResult
from mangonel._shared.operation import command_document
from mangonel._shared.replies import ReplyTo, cursor_of
from mangonel._shared.settings import preference_in, session_of
from mangonel.common import validate_is_mapping
from mangonel.errors import CollectionInvalid, ConfigurationError, InvalidOperation
from mangonel.read_preferences import Primary
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.cursors.command_cursor import _CommandCursor
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.bson.codec_options import CodecOptions
    from mangonel.bson.dbref import DBRef
    from mangonel.read_concern import ReadConcern
    from mangonel.read_preferences import _ServerMode
    from mangonel.typings import _Pipeline
    from mangonel.write_concern import WriteConcern


_PRIMARY = Primary()


class DatabaseAdministration(AggregatingSource, AdministeredSource, Generic[_DocumentType]):
    """Operations on a database as a whole."""

    _collection_class: type[Any]
    _command_cursor_class: type[Any]

    def create_collection(
        self,
        name: str,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        session: _ClientSession | None = None,
        check_exists: bool | None = True,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[_Collection[_DocumentType]]:
        """Create a collection or a view and return it. Only needed for options: a first write creates a collection too.

        Args:
            name: the collection's name.
            codec_options, read_preference, write_concern, read_concern: override the database's.
            session: run in this session; it must come from the same client.
            check_exists: first check whether a collection with that name exists.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: options of the collection: `capped`, `size` (bytes) and `max`; `timeseries` with
                `expireAfterSeconds`; `clusteredIndex`; `validator`, `validationLevel` and `validationAction`;
                `viewOn` and `pipeline`; `collation`; `indexOptionDefaults`; `changeStreamPreAndPostImages`;
                `encryptedFields` of Queryable Encryption, by default those in the client's `encrypted_fields_map`.

        Raises:
            CollectionInvalid: the collection exists already. Nothing was created.
            ConfigurationError: there are encrypted fields, and the server is older than MongoDB 7.0. Nothing was sent.
            InvalidName: the server would refuse the name. Nothing was sent.
            OperationFailure: the server refused the options, or has such a collection with other options.
            AutoReconnect: the connection broke. Whether the collection was created is not known.

        Example:
            >>> client.shop.create_collection("log", capped=True, size=1_048_576).name
            'log'
        """
        if kwargs.get("clusteredIndex"):
            validate_is_mapping("clusteredIndex", kwargs["clusteredIndex"])
        collection = self._collection_class(
            self, name, False, codec_options, read_preference, write_concern, read_concern
        )
        if kwargs.get("collation") is not None and not collection._write_concern._acknowledged:
            raise ConfigurationError("Collation is unsupported for unacknowledged writes.")
        # Only the call has this limit; the returned collection keeps the database's.
        port = self._limited(timeout_ms)._port
        return port.flow(self._create_collection_flow(collection, session, check_exists, kwargs))

    async def _create_collection_flow(
        self,
        collection: _Collection[_DocumentType],
        session: _ClientSession | None,
        check_exists: bool | None,
        options: dict[str, Any],
    ) -> _Collection[_DocumentType]:
        name = collection._name
        explicit = session_of(self._port, session)
        # The server lists no collections in a transaction.
        is_listable = explicit is None or not explicit.in_transaction
        if check_exists and is_listable and name in await self._names_flow({"name": name}, session, None, {}):
            raise CollectionInvalid(f"collection {name} already exists")
        await collection._create_flow(options, session)
        return collection

    def drop_collection(
        self,
        name_or_collection: str | _Collection[Any],
        session: _ClientSession | None = None,
        comment: Any | None = None,
        encrypted_fields: Mapping[str, Any] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[dict[str, Any]]:
        """Drop a collection with its documents and indexes; return the server's reply.

        Does nothing if the collection does not exist.

        Args:
            name_or_collection: the collection or its name.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            encrypted_fields: for Queryable Encryption: also drop the state collections of these fields. None: the
                fields in the client's `encrypted_fields_map` or, with `auto_encryption_opts`, on the server.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            TypeError: `name_or_collection` is neither a name nor a collection.
            OperationFailure: the server refused; see `code` and `details`.
            WriteConcernError: dropped, but the write concern was not satisfied.
            AutoReconnect: the connection broke. Whether the collection is gone is not known.

        Example:
            >>> client.shop.drop_collection("orders")["ok"]
            1.0
        """
        self = self._limited(timeout_ms)
        name = _name_of(name_or_collection, "name_or_collection must be an instance of str")
        return self._port.flow(drop_flow(self, name, encrypted_fields, session, comment))

    def list_collections(
        self,
        session: _ClientSession | None = None,
        filter: Mapping[str, Any] | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
        **kwargs: Any,
    ) -> FaceResult[_CommandCursor[dict[str, Any]]]:
        """Return a cursor over the descriptions of the collections and views.

        Args:
            session: run in this session; it must come from the same client.
            filter: query document for those descriptions, such as `{"type": "view"}`.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the first command and all batches together; 0: no limit. None: the usual limit.
            timeout_mode: `"iteration"`: the limit holds for the first command, and again for each later batch.
                `"cursor_lifetime"` or None: it is for all of them together.
            **kwargs: more fields of the command: `nameOnly`, `authorizedCollections`.

        Raises:
            AutoReconnect: the connection broke twice. A read is safe to repeat.
            OperationFailure: the server refused; see `code` and `details`.

        Example:
            >>> sorted(collection["name"] for collection in client.shop.list_collections())
            ['orders', 'users']
        """
        if timeout_ms is not None or timeout_mode is not None:
            self = self._limited_cursor(timeout_ms, timeout_mode)
        return self._port.flow(self._list_collections_flow(filter, session, comment, kwargs))

    async def _list_collections_flow(
        self,
        filter: Mapping[str, Any] | None,
        session: _ClientSession | None,
        comment: Any,
        options: dict[str, Any],
    ) -> Any:
        command: dict[str, Any] = {"listCollections": 1, "cursor": {}, **options}
        if filter is not None:
            command["filter"] = filter
        batch = await self._port.arun(self._listing(command, session=session, comment=comment))
        return self._command_cursor_class(
            self._collection_class(self, "$cmd"),
            cursor_of(batch),
            PLAIN,
            comment=comment,
            session=session_of(self._port, session),
        )

    def list_collection_names(
        self,
        session: _ClientSession | None = None,
        filter: Mapping[str, Any] | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[list[str]]:
        """Return the names of the collections and views. Arguments and errors as for `list_collections`.

        Example:
            >>> client.shop.list_collection_names(filter={"name": {"$regex": "^order"}})
            ['orders']
        """
        self = self._limited(timeout_ms)
        if filter is not None:
            validate_is_mapping("filter", filter)
        return self._port.flow(self._names_flow(filter, session, comment, kwargs))

    async def _names_flow(
        self,
        filter: Mapping[str, Any] | None,
        session: _ClientSession | None,
        comment: Any,
        options: dict[str, Any],
    ) -> list[str]:
        # With nameOnly the server returns only names, so a filter on anything else would match nothing.
        if not filter or set(filter) == {"name"}:
            options = {**options, "nameOnly": True}
        cursor = await self._list_collections_flow(filter, session, comment, options)
        collections = await cursor._to_list_flow(None)
        with ReplyTo("listCollections"):
            return [description["name"] for description in collections]

    def aggregate(
        self,
        pipeline: _Pipeline,
        session: _ClientSession | None = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
        **kwargs: Any,
    ) -> FaceResult[_CommandCursor[dict[str, Any]]]:
        """Run an aggregation without a collection, such as `$currentOp` or `$documents`; return a cursor.

        Arguments and errors as for `Collection.aggregate`.

        Example:
            >>> client.admin.aggregate([{"$currentOp": {}}, {"$count": "n"}]).next()
            {'n': ...}
        """
        if timeout_ms is not None or timeout_mode is not None:
            self = self._limited_cursor(timeout_ms, timeout_mode)
        collection = self._collection_class(self, "$cmd.aggregate")
        return self._aggregate(1, self._command_cursor_class, collection, pipeline, session, kwargs)

    def cursor_command(
        self,
        command: str | Mapping[str, Any],
        value: Any = 1,
        read_preference: _ServerMode | None = None,
        codec_options: CodecOptions[Any] | None = None,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        max_await_time_ms: int | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[_CommandCursor[dict[str, Any]]]:
        """Run a command exactly as given and return the cursor in its reply. Never retried.

        Args:
            command: a document whose first key is the command's name, or that name.
            value: the value of the first key if `command` is a name.
            read_preference: where to run it. None: on the primary.
            codec_options: how to decode the documents. None: to plain dicts.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile for later batches; the command has its own comment field.
            max_await_time_ms: milliseconds that the server may wait for new data in each later batch.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: more fields of the command.

        Raises:
            InvalidOperation: the reply contains no cursor.
            OperationFailure: the server refused; see `code` and `details`.
            AutoReconnect: the connection broke. Whether the command ran is not known.

        Example:
            >>> client.shop.cursor_command("find", "orders", filter={"_id": 1}, projection={"total": 1}).to_list()
            [{'_id': 1, 'total': 9.5}]
        """
        self = self._limited(timeout_ms)
        explicit = session_of(self._port, session)
        asked = command_document(command, value)
        asked.update(kwargs)
        check_wait(max_await_time_ms, self._port.timeout)
        codec = PLAIN if codec_options is None else _core.Codec(codec_options)
        operation = self._operation(
            asked,
            kind=KIND_READ_ONCE,
            reading=READ_BATCH,
            session=explicit,
            read_preference=preference_in(explicit, _PRIMARY, read_preference),
            codec=codec,
        )
        collection = self._collection_class(self, "$cmd", read_preference=read_preference)
        return self._port.flow(
            self._cursor_command_flow(operation, collection, codec, max_await_time_ms, comment, explicit)
        )

    async def _cursor_command_flow(
        self,
        operation: _core.Operation,
        collection: _Collection[Any],
        codec: _core.Codec,
        max_await_time_ms: int | None,
        comment: Any,
        session: _ClientSession | None,
    ) -> Any:
        batch = await self._port.arun(operation)
        if batch is None:
            raise InvalidOperation("Command does not return a cursor.")
        return self._command_cursor_class(collection, batch, codec, 0, max_await_time_ms, comment, session)

    def validate_collection(
        self,
        name_or_collection: str | _Collection[Any],
        scandata: bool = False,
        full: bool = False,
        session: _ClientSession | None = None,
        background: bool | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[dict[str, Any]]:
        """Make the server check a collection's documents and indexes; return its report.

        Args:
            name_or_collection: the collection or its name.
            scandata: check the data too, not only its structure.
            full: check everything; this may take long and blocks other operations.
            session: run in this session; it must come from the same client.
            background: do not block other operations.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            TypeError: `name_or_collection` is neither a name nor a collection.
            CollectionInvalid: the server found damage.
            OperationFailure: the collection does not exist, or the server refused for another reason.

        Example:
            >>> client.shop.validate_collection("orders")["valid"]
            True
        """
        self = self._limited(timeout_ms)
        name = _name_of(name_or_collection, "name_or_collection must be an instance of str or Collection")
        command: dict[str, Any] = {"validate": name, "scandata": scandata, "full": full}
        if background is not None:
            command["background"] = background
        return self._port.flow(self._validate_flow(name, command, session, comment))

    async def _validate_flow(
        self, name: str, command: dict[str, Any], session: _ClientSession | None, comment: Any
    ) -> dict[str, Any]:
        found = await self._administer_flow(
            command, session=session, comment=comment, codec=PLAIN, takes_write_concern=False
        )
        # A mongos reports each shard.
        with ReplyTo("validate"):
            shards = found["raw"].values() if "raw" in found else [found]
            is_valid = all(shard.get("valid", False) for shard in shards)
        if not is_valid:
            raise CollectionInvalid(f"{name} invalid: {found!r}")
        return found

    def dereference(
        self,
        dbref: DBRef,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[_DocumentType | None]:
        """Return the document that a DBRef points to, or None.

        Args:
            dbref: the reference.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: as for `Collection.find`.

        Raises:
            TypeError: `dbref` is not a DBRef.
            ValueError: `dbref` points to another database.
            AutoReconnect, OperationFailure: as for `Collection.find_one`.

        Example:
            >>> client.shop.dereference(DBRef("orders", 1))["total"]
            9.5
        """
        self = self._limited(timeout_ms)
        from mangonel.bson.dbref import DBRef

        if not isinstance(dbref, DBRef):
            raise TypeError(f"cannot dereference a {type(dbref)}")
        if dbref.database is not None and dbref.database != self._database_name:
            raise ValueError(
                f"expected a DBRef to database {self._database_name!r}, got one to {dbref.database!r}"
            )
        collection = self._collection_class(self, dbref.collection)
        return collection.find_one({"_id": dbref.id}, session=session, comment=comment, **kwargs)


def _name_of(name_or_collection: Any, expected: str) -> str:
    name = getattr(name_or_collection, "_name", None)
    if isinstance(name_or_collection, str):
        return name_or_collection
    if not isinstance(name, str):
        raise TypeError(f"{expected}, not {type(name_or_collection)}")
    return name
