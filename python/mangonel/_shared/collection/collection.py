"""A collection: a name, settings, and operations on its documents, one module for each kind."""

from __future__ import annotations

from mangonel._arguments import told_by_public_name
from mangonel._core import ChildTemplate, made_like
from mangonel._light import Generic
from mangonel._shared.collection.admin import CollectionAdministration
from mangonel._shared.collection.aggregation import CollectionAggregation
from mangonel._shared.collection.indexes import CollectionIndexes
from mangonel._shared.collection.inference import CollectionInference
from mangonel._shared.collection.partitions import CollectionPartitions
from mangonel._shared.collection.reads import CollectionReads
from mangonel._shared.collection.writes import CollectionWrites
from mangonel._shared.cursors.watch import Watched
from mangonel._shared.operation import PRIMARY_MODE
from mangonel._shared.settings import Settings, port_of
from mangonel.errors import InvalidName
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from mangonel._faces.port import Port
    from mangonel._shared.base import CollectionContext
    from mangonel._shared.client.database import _Database
    from mangonel._shared.cursors.change_stream import _CollectionChangeStream  # noqa: F401  # in a base
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.bson.codec_options import CodecOptions
    from mangonel.read_concern import ReadConcern
    from mangonel.read_preferences import _ServerMode
    from mangonel.write_concern import WriteConcern


# Names that passed the check.
known_names: set[str] = set()
_MOST_KNOWN = 1000


def check_collection_name(name: Any) -> None:
    """Raise unless `name` is a valid collection name.

    Raises:
        TypeError: `name` is not a string.
        InvalidName: `name` is empty, or has a forbidden form.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be an instance of str, not {type(name)}")
    if not name or ".." in name:
        raise InvalidName("collection names cannot be empty")
    if "$" in name and not name.startswith(("oplog.$main", "$cmd")):
        raise InvalidName(f"collection names must not contain '$': {name!r}")
    if name[0] == "." or name[-1] == ".":
        raise InvalidName(f"collection names must not start or end with '.': {name!r}")
    if "\x00" in name:
        raise InvalidName("collection names must not contain the null character")
    if len(known_names) < _MOST_KNOWN:
        known_names.add(name)


def context_of(kind: type[Any], fields: dict[str, Any]) -> CollectionContext:
    """Return the values that `find`, `find_one` and `insert_one` need, for a collection with these fields."""
    return (
        fields["_port"],
        fields["_database_name"],
        fields["_name"],
        fields["_codec"],
        fields["_read_preference"]._MODE == PRIMARY_MODE and fields["_read_concern"]._level is None,
        fields["_write_concern"],
        kind._cursor_class,
    )


def template_of(owner: Any, kind: type[Any]) -> ChildTemplate:
    """Return the fields that the collections of a database, or of a client's databases, share."""
    fields = {
        "_codec_options": owner._codec_options,
        "_codec": owner._codec,
        "_read_preference": owner._read_preference,
        "_write_concern": owner._write_concern,
        "_read_concern": owner._read_concern,
        "_port": owner._port,
        "_database": None,
        "_client": None,
        "_database_name": "",
        "_name": "",
        "_reply_codec": None,
    }
    fields["_context"] = context_of(kind, fields)
    return ChildTemplate(kind, _Collection.__init__, fields, known_names)


# The fields that `template_of` sets.
_FIELDS = (
    "_codec_options",
    "_codec",
    "_read_preference",
    "_write_concern",
    "_read_concern",
    "_port",
    "_database",
    "_client",
    "_database_name",
    "_name",
    "_reply_codec",
    "_context",
)


@told_by_public_name
class _Collection(
    CollectionReads[_DocumentType],
    CollectionWrites[_DocumentType],
    CollectionAggregation[_DocumentType],
    CollectionInference[_DocumentType],
    CollectionIndexes[_DocumentType],
    CollectionAdministration[_DocumentType],
    CollectionPartitions[_DocumentType],
    Watched["_CollectionChangeStream[_DocumentType]"],
    Generic[_DocumentType],
):
    """A collection of a database. Creating the object sends nothing; the server creates it at the first write.

    Example:
        >>> orders = client.shop.orders
        >>> orders.insert_one({"_id": 1, "total": 9.5}).inserted_id
        1
    """

    _instead = "pass its name, and take it from a client there; parts of a query, made by partitions(), can be pickled"
    # The face's own class, for `with_options` and dotted access: a subclass's constructor may have other arguments.
    _plain_class: type[Any]

    def __init__(
        self,
        database: _Database[_DocumentType],
        name: str,
        create: bool | None = False,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        session: _ClientSession | None = None,
        **kwargs: Any,
    ) -> None:
        # Programs use the same names again and again, so each is checked once.
        if type(name) is not str or name not in known_names:
            check_collection_name(name)
        # Read first, so that an object that is not a database gets an error that says so.
        port = database._port if isinstance(database, Settings) else port_of(database, "Database")
        self._derive_settings(database, codec_options, read_preference, write_concern, read_concern)
        if isinstance(database, Settings):
            self._belong_to(database, port, database._client, database._database_name, name)
        else:
            self._belong_to(database, port, database.client, database.name, name)
        if create or kwargs:
            self._create(kwargs, session)

    def _watched(self) -> tuple[Any, str, Any]:
        return self, self._name, self

    def _belong_to(self, database: Any, port: Port, client: Any, database_name: str, name: str) -> None:
        self._database, self._client, self._port = database, client, port
        self._database_name, self._name = database_name, name
        self._reply_codec = None
        self._context = context_of(type(self), self.__dict__)

    @property
    def name(self) -> str:
        """The collection's name, without the database's."""
        return self._name

    @property
    def full_name(self) -> str:
        """The namespace: `database.collection`."""
        return f"{self._database_name}.{self._name}"

    @property
    def database(self) -> _Database[_DocumentType]:
        """The database of the collection."""
        return self._database

    def with_options(
        self,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> _Collection[_DocumentType]:
        """Return the same collection with other settings; None keeps the current one.

        Args:
            codec_options: how to decode and encode documents.
            read_preference: which servers may serve reads.
            write_concern: how many members confirm a write.
            read_concern: which data a read may return.
            timeout_ms: milliseconds for each operation, retries included; 0: no limit. It replaces the client's
                `timeoutMS`. A cursor has one limit for all of its batches; a cursor that waits for new data has one
                for each batch. A `timeout()` block takes precedence, and `timeout_ms` of a call can only shorten the
                block's limit.

        Raises:
            TypeError, ValueError: a setting has another type; `timeout_ms` is negative.

        Example:
            >>> client.shop.orders.with_options(write_concern=WriteConcern(w=0))
        """
        fields = self.__dict__
        if len(fields) != len(_FIELDS):
            # Fields of a subclass, and functions with which a test replaced methods, are not copied.
            fields = {name: fields[name] for name in _FIELDS}
        made: _Collection[_DocumentType] | None = made_like(self._plain_class, fields)
        if made is None:
            made = object.__new__(self._plain_class)
            made.__dict__ = dict(fields)
        is_changed = False
        if codec_options or read_preference or read_concern or write_concern is not fields["_write_concern"]:
            is_changed = made._change_settings(codec_options, read_preference, write_concern, read_concern)
            if codec_options:
                made._reply_codec = None
        if timeout_ms is not None:
            from mangonel._faces.limited import limited

            made._port = limited(self._port, timeout_ms)
            is_changed = True
        if is_changed:
            made._context = context_of(type(made), made.__dict__)
        return made

    def _on(self, port: Any) -> Self:
        made = super()._on(port)
        made._context = (port, *self._context[1:])
        return made

    def __getitem__(self, name: str) -> _Collection[_DocumentType]:
        made: _Collection[_DocumentType] = self._plain_class(
            self._database,
            f"{self._name}.{name}",
            False,
            self.codec_options,
            self.read_preference,
            self.write_concern,
            self.read_concern,
        )
        if self._port.limit is not None:
            made._belong_to(self._database, self._port, self._client, self._database_name, made._name)
        return made

    def __getattr__(self, name: str) -> _Collection[_DocumentType]:
        if name.startswith("_"):
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}. "
                f"To access the {self._name}.{name} collection, use database['{self._name}.{name}']"
            )
        return self[name]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Collection):
            return self._database == other._database and self._name == other._name
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self._database, self._name))

    def __bool__(self) -> bool:
        raise NotImplementedError(
            f"{type(self).__name__} objects do not implement truth value testing or bool(). "
            "Please compare with None instead: collection is not None"
        )

    def __call__(self, *args: object, **kwargs: object) -> None:
        if "." not in self._name:
            raise TypeError(
                f"'{type(self).__name__}' object is not callable. If you meant to call the {self._name!r} method "
                "on a 'Database' object it is failing because no such method exists."
            )
        raise TypeError(
            f"'{type(self).__name__}' object is not callable. If you meant to call the "
            f"{self._name.split('.')[-1]!r} method on a 'Collection' object it is failing because no such method "
            "exists."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._database!r}, {self._name!r})"
