"""Changing and deleting documents of a collection, one command each. Spec: crud (write), retryable-writes."""

from __future__ import annotations

from mangonel import _core
from mangonel._core import KIND_RETRYABLE_WRITE, KIND_WRITE, READ_APPLY, REPLIES_NONE, REPLIES_ONE
from mangonel._light import Generic
from mangonel._options.index_keys import hint_document
from mangonel._shared.base import CommandSource
from mangonel._shared.collection.write_support import (
    check_command_size,
    check_unanswered_size,
    server_facts_flow,
    write_codec,
)
from mangonel._shared.operation import build_operation
from mangonel._shared.replies import ReplyTo
from mangonel._shared.returns import Returns
from mangonel._shared.settings import BOUND, concern_in, session_handle, session_of
from mangonel.collation import validate_collation_or_none
from mangonel.common import (
    validate_boolean,
    validate_is_document_type,
    validate_is_mapping,
    validate_list_or_none,
    validate_ok_for_replace,
    validate_ok_for_update,
)
from mangonel.errors import ConfigurationError, write_error
from mangonel.results import DeleteResult, UpdateResult
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mangonel._shared.client.client import _MongoClient
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.typings import _CollationIn, _IndexKeyHint, _Pipeline

_SORT_WIRE_VERSION = 25


class CollectionUpdates(CommandSource, Generic[_DocumentType]):
    """The methods that change or delete what is stored."""

    _client: _MongoClient[_DocumentType]
    _name: str

    def update_one(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any] | _Pipeline,
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        hint: _IndexKeyHint | None = None,
        session: _ClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        sort: Mapping[str, Any] | None = None,
        comment: Any | None = None,
    ) -> Returns[UpdateResult]:
        """Change the first document that matches.

        Args:
            filter: query document.
            update: update operators such as `$set`, or an aggregation pipeline.
            upsert: insert a document made of filter and update when nothing matches.
            bypass_document_validation: store it even when the collection's rules do not allow it.
            collation: language rules for comparing strings.
            array_filters: which elements `$[name]` stands for.
            hint: the index to use, by name or keys.
            session: run in this session; it must come from the same client.
            let: variables for expressions, as `$$name`.
            sort: which document is the first; needs MongoDB 8.0.
            comment: shown in the server's logs and profile.

        Raises:
            DuplicateKeyError: the change collides with a unique index. Nothing was changed.
            WriteError: the server refused the change. Nothing was changed.
            WriteConcernError: changed, but not confirmed as the write concern asks.
            ConfigurationError: an option that an unacknowledged write cannot have. Nothing was sent.
            AutoReconnect: the connection broke, twice with `retryWrites`. Whether it was changed is not known.

        Example:
            >>> client.shop.orders.update_one({"_id": 1}, {"$inc": {"total": 2}}).modified_count
            1
        """
        if type(filter) is not dict:
            validate_is_mapping("filter", filter)
        validate_ok_for_update(update)
        if array_filters is not None:
            validate_list_or_none("array_filters", array_filters)
        return self._update(
            {"q": filter, "u": update, "multi": False, "upsert": upsert},
            KIND_RETRYABLE_WRITE,
            upsert,
            bypass_document_validation,
            collation,
            array_filters,
            hint,
            session,
            let,
            sort,
            comment,
        )

    def update_many(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any] | _Pipeline,
        upsert: bool = False,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: _ClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any | None = None,
    ) -> Returns[UpdateResult]:
        """Change all documents that match. It is never sent twice, for a repetition would change them again.

        Args:
            filter, update, upsert, array_filters, bypass_document_validation, collation, hint, session, let, comment:
                as for `update_one`; the order of the positional ones differs.

        Raises:
            WriteError: the server refused the change of a document; others before it may be changed.
            AutoReconnect: the connection broke. Which documents were changed is not known.
            WriteConcernError, ConfigurationError: as for `update_one`.

        Example:
            >>> client.shop.orders.update_many({"total": {"$lt": 5}}, {"$set": {"late": True}}).matched_count
            1
        """
        if type(filter) is not dict:
            validate_is_mapping("filter", filter)
        validate_ok_for_update(update)
        if array_filters is not None:
            validate_list_or_none("array_filters", array_filters)
        return self._update(
            {"q": filter, "u": update, "multi": True, "upsert": upsert},
            KIND_WRITE,
            upsert,
            bypass_document_validation,
            collation,
            array_filters,
            hint,
            session,
            let,
            None,
            comment,
        )

    def replace_one(
        self,
        filter: Mapping[str, Any],
        replacement: Mapping[str, Any],
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: _ClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        sort: Mapping[str, Any] | None = None,
        comment: Any | None = None,
    ) -> Returns[UpdateResult]:
        """Replace the first document that matches by another; its `_id` stays.

        Args:
            replacement: the whole new document, without update operators.
            upsert: insert `replacement` when nothing matches.
            filter, bypass_document_validation, collation, hint, session, let, sort, comment: as for `update_one`.

        Raises:
            DuplicateKeyError, WriteError, WriteConcernError, ConfigurationError, AutoReconnect: as for `update_one`.

        Example:
            >>> client.shop.orders.replace_one({"_id": 1}, {"total": 3}, upsert=True).upserted_id
            1
        """
        if type(filter) is not dict:
            validate_is_mapping("filter", filter)
        validate_ok_for_replace(replacement)
        return self._update(
            {"q": filter, "u": replacement, "multi": False, "upsert": upsert},
            KIND_RETRYABLE_WRITE,
            upsert,
            bypass_document_validation,
            collation,
            None,
            hint,
            session,
            let,
            sort,
            comment,
        )

    def delete_one(
        self,
        filter: Mapping[str, Any],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: _ClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any | None = None,
    ) -> Returns[DeleteResult]:
        """Delete the first document that matches.

        Args:
            filter: query document.
            collation: language rules for comparing strings.
            hint: the index to use, by name or keys.
            session: run in this session; it must come from the same client.
            let: variables for expressions, as `$$name`.
            comment: shown in the server's logs and profile.

        Raises:
            WriteError: the server refused. Nothing was deleted.
            WriteConcernError: deleted, but not confirmed as the write concern asks.
            ConfigurationError: an option that an unacknowledged write cannot have. Nothing was sent.
            AutoReconnect: the connection broke, twice with `retryWrites`. Whether it was deleted is not known.

        Example:
            >>> client.shop.orders.delete_one({"_id": 1}).deleted_count
            1
        """
        return self._delete(filter, 1, KIND_RETRYABLE_WRITE, collation, hint, session, let, comment)

    def delete_many(
        self,
        filter: Mapping[str, Any],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: _ClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any | None = None,
    ) -> Returns[DeleteResult]:
        """Delete all documents that match; an empty filter matches all. It is never sent twice.

        Args:
            filter, collation, hint, session, let, comment: as for `delete_one`.

        Raises:
            AutoReconnect: the connection broke. Which documents were deleted is not known.
            WriteError, WriteConcernError, ConfigurationError: as for `delete_one`.

        Example:
            >>> client.shop.orders.delete_many({"total": {"$lt": 5}}).deleted_count
            1
        """
        return self._delete(filter, 0, KIND_WRITE, collation, hint, session, let, comment)

    def _update(
        self,
        statement: dict[str, Any],
        kind: int,
        upsert: bool,
        bypass_document_validation: bool | None,
        collation: _CollationIn | None,
        array_filters: Sequence[Mapping[str, Any]] | None,
        hint: _IndexKeyHint | None,
        session: _ClientSession | None,
        let: Mapping[str, Any] | None,
        sort: Mapping[str, Any] | None,
        comment: Any,
    ) -> Any:
        if upsert is not True and upsert is not False:
            validate_boolean("upsert", upsert)
        is_acknowledged = self._write_concern.acknowledged
        if collation is not None:
            statement["collation"] = _acknowledged_only(
                "Collation", validate_collation_or_none(collation), is_acknowledged
            )
        if array_filters is not None:
            statement["arrayFilters"] = _acknowledged_only("arrayFilters", array_filters, is_acknowledged)
        if hint is not None:
            statement["hint"] = hint_document(hint)
        if sort is not None:
            validate_is_mapping("sort", sort)
            statement["sort"] = sort
        command: dict[str, Any] = {"update": self._name, "ordered": True, "updates": [statement]}
        if let is not None:
            validate_is_mapping("let", let)
            command["let"] = let
        if bypass_document_validation is not None:
            command["bypassDocumentValidation"] = bypass_document_validation
        operation = self._single_write(command, kind, session, comment, _update_result)
        if sort is not None and not is_acknowledged:
            return self._port.flow(self._unacknowledged_sort_flow(operation))
        return self._port.run(operation)

    async def _unacknowledged_sort_flow(self, operation: _core.Operation) -> Any:
        # An old server would ignore nothing and report nothing: the error of an unacknowledged write is lost.
        facts = await server_facts_flow(self._client, "update")
        if facts["max_wire_version"] < _SORT_WIRE_VERSION:
            raise ConfigurationError(
                "expected MongoDB 8.0 or newer for sort in an unacknowledged update, got wire version "
                f"{facts['max_wire_version']}"
            )
        return await self._port.arun(operation)

    def _delete(
        self,
        filter: Mapping[str, Any],
        limit: int,
        kind: int,
        collation: _CollationIn | None,
        hint: _IndexKeyHint | None,
        session: _ClientSession | None,
        let: Mapping[str, Any] | None,
        comment: Any,
    ) -> Any:
        if type(filter) is not dict:
            validate_is_mapping("filter", filter)
        statement: dict[str, Any] = {"q": filter, "limit": limit}
        if collation is not None:
            statement["collation"] = _acknowledged_only(
                "Collation", validate_collation_or_none(collation), self._write_concern.acknowledged
            )
        if hint is not None:
            statement["hint"] = hint_document(hint)
        command: dict[str, Any] = {"delete": self._name, "ordered": True, "deletes": [statement]}
        if let is not None:
            validate_is_document_type("let", let)
            command["let"] = let
        return self._port.run(self._single_write(command, kind, session, comment, _delete_result))

    def _single_write(
        self, command: dict[str, Any], kind: int, session: _ClientSession | None, comment: Any, answer: Any
    ) -> _core.Operation:
        if comment is not None:
            command["comment"] = comment
        concern = self._write_concern
        if session is not None or BOUND:
            session = session_of(self._port, session)
            concern = concern_in(session, concern)
        if not concern.is_server_default:
            command["writeConcern"] = concern.document
        operation = build_operation(
            command,
            database=self._database_name,
            codec=write_codec(self._codec_options),
            kind=kind,
            reading=READ_APPLY,
            replies=REPLIES_ONE if concern.acknowledged else REPLIES_NONE,
            session=session_handle(session),
            answer=answer,
        )
        check_command_size(operation)
        if not concern.acknowledged:
            for statement in command.get("updates") or command["deletes"]:
                check_unanswered_size(statement, operation, self._codec_options)
        return operation


def _acknowledged_only(option: str, value: Any, is_acknowledged: bool) -> Any:
    if not is_acknowledged:
        raise ConfigurationError(f"{option} is unsupported for unacknowledged writes.")
    return value


def _update_result(reply: dict[str, Any] | None) -> UpdateResult:
    if reply is None:
        return UpdateResult(None, False)
    if "writeErrors" in reply or "writeConcernError" in reply:
        _raise_write_error(reply)
    # The reply has the upserted ids of all statements; here is one, and the result is read by the old field names.
    upserted = reply.get("upserted")
    if upserted is None:
        reply["updatedExisting"] = bool(reply.get("n"))
    else:
        reply["updatedExisting"] = False
        with ReplyTo("update"):
            reply["upserted"] = upserted[0]["_id"]
    return UpdateResult(reply, True)


def _delete_result(reply: dict[str, Any] | None) -> DeleteResult:
    if reply is None:
        return DeleteResult({"ok": 1}, False)
    if "writeErrors" in reply or "writeConcernError" in reply:
        _raise_write_error(reply)
    return DeleteResult(reply, True)


def _raise_write_error(reply: dict[str, Any]) -> None:
    error = write_error(reply)
    if error is not None:
        raise error
