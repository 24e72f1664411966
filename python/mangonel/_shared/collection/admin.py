"""A collection as part of its database: creating, describing, renaming, dropping. Spec: enumerate-collections."""

from __future__ import annotations

from mangonel._arguments import expect_instance
from mangonel._light import Generic
from mangonel._shared.client.admin_commands import (
    PLAIN,
    AdministeredSource,
)
from mangonel._shared.collection.encrypted import (
    STATE_OPTIONS,
    TAGS,
    check_server_flow,
    drop_flow,
    known_fields,
    state_names,
)
from mangonel._shared.face_result import FaceResult
from mangonel._shared.replies import ReplyTo, cursor_of
from mangonel.collation import validate_collation_or_none
from mangonel.errors import InvalidName
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mangonel._shared.sessions.session import _ClientSession


class CollectionAdministration(AdministeredSource, Generic[_DocumentType]):
    """Operations on a collection as a whole."""

    _name: str

    def _create(self, options: dict[str, Any], session: _ClientSession | None) -> None:
        """Create the collection for its constructor; only the blocking face can wait there.

        Raises:
            ValueError: on the asyncio face.
        """
        if self._port.is_async:
            raise ValueError(
                f"{type(self).__name__} does not support the `create` or `kwargs` arguments; "
                "await create_collection() of the database"
            )
        import warnings

        warnings.warn(
            "The `create` and `kwargs` arguments to Collection are deprecated; use Database.create_collection",
            DeprecationWarning,
            stacklevel=3,
        )
        self._port.flow(self._create_flow(options, session))

    async def _create_flow(self, options: dict[str, Any], session: _ClientSession | None) -> None:
        fields = known_fields(self, self._name, options.pop("encryptedFields", None))
        if fields:
            await check_server_flow(self._client)
            for name in state_names(fields, self._name):
                await self._administer_flow({"create": name, **STATE_OPTIONS}, session=session)
            options["encryptedFields"] = fields
        await self._create_plain_flow(options, session)
        if fields:
            indexes = [{"name": f"{TAGS}_1", "key": {TAGS: 1}}]
            await self._administer_flow({"createIndexes": self._name, "indexes": indexes}, session=session)

    async def _create_plain_flow(self, options: dict[str, Any], session: _ClientSession | None) -> None:
        command: dict[str, Any] = {"create": self._name, **options}
        if "size" in command:
            command["size"] = float(command["size"])
        collation = validate_collation_or_none(command.pop("collation", None))
        if collation is not None:
            command["collation"] = collation
        await self._administer_flow(command, session=session)

    def drop(
        self,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        encrypted_fields: Mapping[str, Any] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[None]:
        """Drop the collection with its documents and indexes. Does nothing if it does not exist.

        Args:
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            encrypted_fields: for Queryable Encryption: also drop the state collections of these fields. None: the
                fields in the client's `encrypted_fields_map` or, with `auto_encryption_opts`, on the server.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            OperationFailure: the server refused; see `code` and `details`.
            WriteConcernError: dropped, but the write concern was not satisfied.
            AutoReconnect: the connection broke. Whether the collection is gone is not known.

        Example:
            >>> client.shop.orders.drop()
        """
        self = self._limited(timeout_ms)
        return self._port.flow(self._drop_flow(session, comment, encrypted_fields))

    async def _drop_flow(self, session: _ClientSession | None, comment: Any, given: Any) -> None:
        await drop_flow(self, self._name, given, session, comment)

    def rename(
        self,
        new_name: str,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[dict[str, Any]]:
        """Rename the collection within its database; return the server's reply.

        This object keeps the old name.

        Args:
            new_name: the new name, without the database's.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: more fields of the command: `dropTarget=True` replaces an existing collection of that name.

        Raises:
            TypeError, InvalidName: the server would refuse the name. Nothing was sent.
            OperationFailure: the collection does not exist, or one with the new name does.
            AutoReconnect: the connection broke. Whether it was renamed is not known.

        Example:
            >>> client.shop.orders.rename("orders_2025")["ok"]
            1.0
        """
        self = self._limited(timeout_ms)
        _check_new_name(new_name)
        command = {
            "renameCollection": f"{self._database_name}.{self._name}",
            "to": f"{self._database_name}.{new_name}",
            **kwargs,
        }
        return self._port.flow(
            self._administer_flow(command, session=session, comment=comment, database="admin", codec=PLAIN)
        )

    def options(
        self,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[dict[str, Any]]:
        """Return the options that the collection was created with; `{}` without options or without the collection.

        Args:
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            AutoReconnect: the connection broke twice. A read is safe to repeat.
            OperationFailure: the server refused; see `code` and `details`.

        Example:
            >>> client.shop.create_collection("log", capped=True, size=4096).options()
            {'capped': True, 'size': 4096}
        """
        self = self._limited(timeout_ms)
        return self._port.flow(self._options_flow(session, comment))

    async def _options_flow(self, session: _ClientSession | None, comment: Any) -> dict[str, Any]:
        command = {"listCollections": 1, "cursor": {}, "filter": {"name": self._name}}
        batch = await self._port.arun(self._listing(command, session=session, comment=comment))
        for description in cursor_of(batch):
            with ReplyTo("listCollections"):
                options: dict[str, Any] = description.get("options", {})
                options.pop("create", None)
            return options
        return {}


def _check_new_name(name: Any) -> None:
    expect_instance("new_name", name, str)
    if not name or ".." in name:
        raise InvalidName("collection names cannot be empty")
    if name[0] == "." or name[-1] == ".":
        raise InvalidName(f"collection names must not start or end with '.': {name!r}")
    if "$" in name and not name.startswith("oplog.$main"):
        raise InvalidName(f"collection names must not contain '$': {name!r}")
