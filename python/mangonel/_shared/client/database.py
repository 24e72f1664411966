"""A database: a name, settings, and commands on it."""

from __future__ import annotations

from mangonel._arguments import told_by_public_name
from mangonel._core import (
    KIND_COMMAND,
    READ_DOCUMENT,
    READ_UNCHECKED,
    SECRET_COMMANDS,
    ChildTemplate,
    Codec,
)
from mangonel._light import Generic
from mangonel._shared.client.admin_commands import PLAIN
from mangonel._shared.client.database_admin import DatabaseAdministration
from mangonel._shared.client.database_too import method_of
from mangonel._shared.collection import collection
from mangonel._shared.cursors.watch import Watched
from mangonel._shared.face_result import FaceResult
from mangonel._shared.operation import command_document
from mangonel._shared.settings import Settings, check_reply, port_of, preference_in, session_of
from mangonel.errors import InvalidName, write_concern_error
from mangonel.read_preferences import Primary
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from typing import Any

    from mangonel._shared.client.client import _MongoClient
    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.cursors.change_stream import _DatabaseChangeStream  # noqa: F401  # in a base
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.bson.codec_options import CodecOptions
    from mangonel.read_concern import ReadConcern
    from mangonel.read_preferences import _ServerMode
    from mangonel.write_concern import WriteConcern

_PRIMARY = Primary()
_FORBIDDEN = ' .$/\\\x00"'


# Names that passed the check.
known_names: set[str] = set()
_MOST_KNOWN = 1000


def check_database_name(name: Any) -> None:
    """Raise unless `name` is a valid database name.

    Raises:
        TypeError: `name` is not a string.
        InvalidName: `name` is empty, or contains a forbidden character.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be an instance of str, not {type(name)}")
    if name == "$external":
        return
    if not name:
        raise InvalidName("database name cannot be the empty string")
    for character in _FORBIDDEN:
        if character in name:
            raise InvalidName(f"database names cannot contain the character {character!r}")
    if len(known_names) < _MOST_KNOWN:
        known_names.add(name)


def template_of(client: Any) -> ChildTemplate:
    """Return the fields that the databases of this client share."""
    fields = {
        "_port": client._port,
        "_codec_options": client._codec_options,
        "_codec": client._codec,
        "_read_preference": client._read_preference,
        "_write_concern": client._write_concern,
        "_read_concern": client._read_concern,
        # Not set here: the client holds this template, so a reference back would be a cycle.
        "_client": None,
        "_database_name": "",
        "_collections": collection.template_of(client, client._database_class._collection_class),
    }
    return ChildTemplate(client._database_class, _Database.__init__, fields, known_names)


@told_by_public_name
class _Database(
    DatabaseAdministration[_DocumentType],
    Watched["_DatabaseChangeStream[_DocumentType]"],
    Generic[_DocumentType],
):
    """A database of a client. Creating the object sends nothing; the server creates the database at the first write.

    Example:
        >>> client.shop.command("ping")["ok"]
        1.0
    """

    _instead = "pass its name, and take it from a client there"
    # The face's own class, which `with_options` returns: the constructor of a subclass may have other arguments.
    _plain_class: type[Any]
    _collection_class: type[Any]
    _command_cursor_class: type[Any]

    def __init__(
        self,
        client: _MongoClient[_DocumentType],
        name: str,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> None:
        # Programs use the same names again and again, so each is checked once.
        if type(name) is not str or name not in known_names:
            check_database_name(name)
        self._port = client._port if isinstance(client, Settings) else port_of(client, "MongoClient")
        self._derive_settings(client, codec_options, read_preference, write_concern, read_concern)
        self._client = client
        self._database_name = name
        # The common fields of its collections, made for the first one.
        self._collections: ChildTemplate | None = None

    @property
    def client(self) -> _MongoClient[_DocumentType]:
        """The client of the database."""
        return self._client

    @property
    def name(self) -> str:
        """The database's name."""
        return self._database_name

    def _watched(self) -> tuple[Any, int, Any]:
        return self, 1, self._collection_class(self, "$cmd.aggregate")

    def with_options(
        self,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> _Database[_DocumentType]:
        """Return the same database with other settings; None keeps the current one.

        Args:
            codec_options: how to decode and encode documents.
            read_preference: which servers may serve reads.
            write_concern: how many members confirm a write.
            read_concern: which data a read may return.
            timeout_ms: milliseconds for each operation on the database and its collections; see
                `Collection.with_options`.

        Example:
            >>> client.shop.with_options(write_concern=WriteConcern(w="majority"))
        """
        made: _Database[_DocumentType] = self._plain_class(
            self._client,
            self._database_name,
            codec_options or self.codec_options,
            read_preference or self.read_preference,
            write_concern or self.write_concern,
            read_concern or self.read_concern,
        )
        made._port = self._port
        if timeout_ms is not None:
            from mangonel._faces.limited import limited

            made._port = limited(self._port, timeout_ms)
        return made

    def get_collection(
        self,
        name: str,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> _Collection[_DocumentType]:
        """Return a collection, optionally with other settings than the database's. Sends nothing.

        Args:
            name: its name.
            codec_options, read_preference, write_concern, read_concern: override the database's.
            timeout_ms: milliseconds for each operation; see `Collection.with_options`.

        Raises:
            InvalidName: the server would refuse the name.

        Example:
            >>> client.shop.get_collection("orders", read_preference=ReadPreference.SECONDARY)
        """
        made: _Collection[_DocumentType] = self._collection_class(
            self, name, False, codec_options, read_preference, write_concern, read_concern
        )
        return made if timeout_ms is None else made.with_options(timeout_ms=timeout_ms)

    def __getitem__(self, name: str) -> _Collection[_DocumentType]:
        template = self._collections
        made: _Collection[_DocumentType] | None = (
            None if template is None else template.collection(self, name)
        )
        return self._new_collection(name) if made is None else made

    def _new_collection(self, name: str) -> _Collection[_DocumentType]:
        template = self._collections
        if template is None or template.port is not self._port:
            self._collections = collection.template_of(self, self._collection_class)
        return self._collection_class(self, name)

    def __getattr__(self, name: str) -> _Collection[_DocumentType]:
        if name.startswith("_"):
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}. "
                f"To access the {name} collection, use database[{name!r}]"
            )
        return self[name]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Database):
            return self._client == other._client and self._database_name == other._database_name
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self._client, self._database_name))

    def __bool__(self) -> bool:
        raise NotImplementedError(
            f"{type(self).__name__} objects do not implement truth value testing or bool(). "
            "Please compare with None instead: database is not None"
        )

    def __call__(self, *args: object, **kwargs: object) -> Any:
        method = method_of(self._client, self._database_name)
        if method is not None:
            return method(self._client, *args, **kwargs)
        raise TypeError(
            f"'{type(self).__name__}' object is not callable. If you meant to call a method of the client, "
            f"it has none named {self._database_name!r}"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._client!r}, {self._database_name!r})"

    def command(
        self,
        command: str | Mapping[str, Any],
        value: Any = 1,
        check: bool = True,
        allowable_errors: Container[str | int] | None = None,
        read_preference: _ServerMode | None = None,
        codec_options: CodecOptions[Any] | None = None,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[dict[str, Any]]:
        """Run a command exactly as given and return the server's whole reply. Never retried.

        The database's read and write concerns are not added: put them into the command if needed.

        Args:
            command: a document whose first key is the command's name, or that name.
            value: the value of the first key if `command` is a name.
            check: raise if the server refuses. False: return its reply instead.
            allowable_errors: codes or messages that do not raise, even with `check`.
            read_preference: where to run it. None: on the primary.
            codec_options: how to decode the reply. None: to plain dicts.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: more fields of the command. `write_concern` becomes its field; `parse_write_concern_error=True`
                raises if it is not satisfied.

        Raises:
            OperationFailure: the server refused; see `code` and `details`.
            WriteConcernError: done, but the write concern was not satisfied; with `parse_write_concern_error`.
            AutoReconnect: the connection broke. Whether the command ran is not known.

        Example:
            >>> client.shop.command("collStats", "orders")["count"]
            2
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        asked: Any = command_document(command, value)
        concern, raises_concern = None, False
        if kwargs:
            concern = kwargs.pop("write_concern", None)
            raises_concern = kwargs.pop("parse_write_concern_error", False)
        asked.update(kwargs)
        if concern is not None and not concern.is_server_default:
            asked["writeConcern"] = concern.document
        if comment is not None:
            asked["comment"] = comment
        is_secret = next(iter(asked), "").lower() in SECRET_COMMANDS
        is_plain = check and not allowable_errors and not raises_concern
        refused: Exception | None = None
        try:
            explicit = session_of(self._port, session)
            operation = self._operation(
                asked,
                kind=KIND_COMMAND,
                reading=READ_DOCUMENT if is_plain else READ_UNCHECKED,
                session=explicit,
                read_preference=preference_in(explicit, _PRIMARY, read_preference),
                codec=Codec(codec_options) if codec_options else PLAIN,
            )
        except Exception as error:
            if not is_secret:
                raise
            from mangonel.auth import without_values

            refused = without_values(error)
        if is_secret:
            # Some tools show the locals in a traceback, and these hold a password.
            command, value, asked, kwargs = "", None, None, {}
        if refused is not None:
            # Raised outside the handler, so that it has no other error as its context.
            raise refused
        if is_plain or not (check or raises_concern):
            return self._port.run(operation)
        return self._port.flow(
            self._command_flow(operation, explicit, check, allowable_errors or (), raises_concern)
        )

    async def _command_flow(
        self,
        operation: Any,
        session: _ClientSession | None,
        check: bool,
        allowable_errors: Container[str | int],
        raises_concern: bool,
    ) -> dict[str, Any]:
        reply: dict[str, Any] = await self._port.arun(operation)
        error = write_concern_error(reply) if raises_concern else None
        if error is not None:
            raise error
        if check:
            check_reply(reply, session, allowable_errors)
        return reply
