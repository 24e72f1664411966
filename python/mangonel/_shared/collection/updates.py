"""Changes and deletes documents of a collection, one command each. Spec: crud (write), retryable-writes."""

from __future__ import annotations

from mangonel import _core
from mangonel._core import KIND_RETRYABLE_WRITE, KIND_WRITE, READ_APPLY, REPLIES_NONE, REPLIES_ONE
from mangonel._light import Generic
from mangonel._options.index_keys import hint_document
from mangonel._shared.collection.write_support import (
    LARGEST_COMMAND,
    WritingSource,
    check_unanswered_size,
    refuse_size,
    server_limits_flow,
    write_codec,
)
from mangonel._shared.face_result import FaceResult
from mangonel._shared.replies import ReplyTo
from mangonel._shared.settings import BOUND, write_in
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
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.typings import _CollationIn, _IndexKeyHint, _Pipeline
    from mangonel.write_concern import WriteConcern

_SORT_WIRE_VERSION = 25


class CollectionUpdates(WritingSource, Generic[_DocumentType]):
    """The methods that change or delete documents."""

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
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[UpdateResult]:
        """Change the first document that matches.

        Args:
            filter: query document.
            update: update operators such as `$set`, or an aggregation pipeline.
            upsert: insert a document made from filter and update when nothing matches.
            bypass_document_validation: store the document even if it violates the collection's validator.
            collation: language rules for comparing strings.
            array_filters: conditions that select the elements for `$[name]`.
            hint: the index to use, by name or keys.
            session: run in this session; it must come from the same client.
            let: variables for expressions, as `$$name`.
            sort: the order that decides which document is the first; needs MongoDB 8.0.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            DuplicateKeyError: the change collides with a unique index. Nothing was changed.
            WriteError: the server refused the change. Nothing was changed.
            WriteConcernError: changed, but the write concern was not satisfied.
            ConfigurationError: an option that an unacknowledged write cannot have. Nothing was sent.
            AutoReconnect: the connection broke, twice with `retryWrites`. Whether a document was changed is not known.

        Example:
            >>> client.shop.orders.update_one({"_id": 1}, {"$inc": {"total": 2}}).modified_count
            1
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        if type(filter) is not dict:
            validate_is_mapping("filter", filter)
        validate_ok_for_update(update)
        if array_filters is not None:
            validate_list_or_none("array_filters", array_filters)
        return self._update(
            {"q": filter, "u": update, "multi": False, "upsert": upsert},
            KIND_RETRYABLE_WRITE,
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
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[UpdateResult]:
        """Change all documents that match. Never retried, since a retry could change them twice.

        Args:
            filter, update, upsert, array_filters, bypass_document_validation, collation, hint, session, let, comment:
                as for `update_one`, but with another order of positional arguments.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            WriteError: the server refused the change of a document; earlier documents may have been changed.
            AutoReconnect: the connection broke. Which documents were changed is not known.
            WriteConcernError, ConfigurationError: as for `update_one`.

        Example:
            >>> client.shop.orders.update_many({"total": {"$lt": 5}}, {"$set": {"late": True}}).matched_count
            1
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        if type(filter) is not dict:
            validate_is_mapping("filter", filter)
        validate_ok_for_update(update)
        if array_filters is not None:
            validate_list_or_none("array_filters", array_filters)
        return self._update(
            {"q": filter, "u": update, "multi": True, "upsert": upsert},
            KIND_WRITE,
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
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[UpdateResult]:
        """Replace the first document that matches; its `_id` does not change.

        Args:
            replacement: the whole new document, without update operators.
            upsert: insert `replacement` when nothing matches.
            filter, bypass_document_validation, collation, hint, session, let, sort, comment: as for `update_one`.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            DuplicateKeyError, WriteError, WriteConcernError, ConfigurationError, AutoReconnect: as for `update_one`.

        Example:
            >>> client.shop.orders.replace_one({"_id": 1}, {"total": 3}, upsert=True).upserted_id
            1
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        if type(filter) is not dict:
            validate_is_mapping("filter", filter)
        validate_ok_for_replace(replacement)
        return self._update(
            {"q": filter, "u": replacement, "multi": False, "upsert": upsert},
            KIND_RETRYABLE_WRITE,
            bypass_document_validation,
            collation,
            None,
            hint,
            session,
            let,
            sort,
            comment,
        )

    def _replace_checked(
        self, filter: Mapping[str, Any], replacement: Mapping[str, Any]
    ) -> FaceResult[dict[str, Any] | None]:
        """Replace one document. Checks neither filter nor replacement, since the caller built them itself.

        Returns:
            The server's reply, in which `n` counts the matching documents; None for an unacknowledged write.

        Raises:
            WriteError, WriteConcernError, AutoReconnect: as for `replace_one`.
        """
        statement = {"q": filter, "u": replacement}
        command: dict[str, Any] = {"update": self._name, "ordered": True, "updates": [statement]}
        return self._port.run(self._single_write(command, KIND_RETRYABLE_WRITE, None))

    def delete_one(
        self,
        filter: Mapping[str, Any],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: _ClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[DeleteResult]:
        """Delete the first document that matches.

        Args:
            filter: query document.
            collation: language rules for comparing strings.
            hint: the index to use, by name or keys.
            session: run in this session; it must come from the same client.
            let: variables for expressions, as `$$name`.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            WriteError: the server refused. Nothing was deleted.
            WriteConcernError: deleted, but the write concern was not satisfied.
            ConfigurationError: an option that an unacknowledged write cannot have. Nothing was sent.
            AutoReconnect: the connection broke, twice with `retryWrites`. Whether a document was deleted is not known.

        Example:
            >>> client.shop.orders.delete_one({"_id": 1}).deleted_count
            1
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        return self._delete(filter, 1, KIND_RETRYABLE_WRITE, collation, hint, session, let, comment)

    def delete_many(
        self,
        filter: Mapping[str, Any],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: _ClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[DeleteResult]:
        """Delete all documents that match; an empty filter matches all. Never retried.

        Args:
            filter, collation, hint, session, let, comment: as for `delete_one`.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            AutoReconnect: the connection broke. Which documents were deleted is not known.
            WriteError, WriteConcernError, ConfigurationError: as for `delete_one`.

        Example:
            >>> client.shop.orders.delete_many({"total": {"$lt": 5}}).deleted_count
            1
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        return self._delete(filter, 0, KIND_WRITE, collation, hint, session, let, comment)

    def _update(
        self,
        statement: dict[str, Any],
        kind: int,
        bypass_document_validation: bool | None,
        collation: _CollationIn | None,
        array_filters: Sequence[Mapping[str, Any]] | None,
        hint: _IndexKeyHint | None,
        session: _ClientSession | None,
        let: Mapping[str, Any] | None,
        sort: Mapping[str, Any] | None,
        comment: Any,
    ) -> Any:
        port, _, name, _, _, concern, _ = self._context
        upsert = statement["upsert"]
        if upsert is not True and upsert is not False:
            validate_boolean("upsert", upsert)
        if collation is not None:
            statement["collation"] = _acknowledged_only(
                "Collation", validate_collation_or_none(collation), concern
            )
        if array_filters is not None:
            statement["arrayFilters"] = _acknowledged_only("arrayFilters", array_filters, concern)
        if hint is not None:
            statement["hint"] = hint_document(hint)
        if sort is not None:
            validate_is_mapping("sort", sort)
            statement["sort"] = sort
        command: dict[str, Any] = {"update": name, "ordered": True, "updates": [statement]}
        if let is not None:
            validate_is_mapping("let", let)
            command["let"] = let
        if bypass_document_validation is not None:
            command["bypassDocumentValidation"] = bypass_document_validation
        operation = self._single_write(command, kind, _update_result, session, comment)
        if sort is not None and not concern.acknowledged:
            return port.flow(self._unacknowledged_sort_flow(operation))
        return port.run(operation)

    async def _unacknowledged_sort_flow(self, operation: _core.Operation) -> Any:
        # An old server would report an error, but the error of an unacknowledged write is lost.
        limits = await server_limits_flow(self._client, "update")
        if limits.max_wire_version < _SORT_WIRE_VERSION:
            raise ConfigurationError(
                "expected MongoDB 8.0 or newer for sort in an unacknowledged update, got wire version "
                f"{limits.max_wire_version}"
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
        port, _, name, _, _, concern, _ = self._context
        if type(filter) is not dict:
            validate_is_mapping("filter", filter)
        statement: dict[str, Any] = {"q": filter, "limit": limit}
        if collation is not None:
            statement["collation"] = _acknowledged_only(
                "Collation", validate_collation_or_none(collation), concern
            )
        if hint is not None:
            statement["hint"] = hint_document(hint)
        command: dict[str, Any] = {"delete": name, "ordered": True, "deletes": [statement]}
        if let is not None:
            validate_is_document_type("let", let)
            command["let"] = let
        return port.run(self._single_write(command, kind, _delete_result, session, comment))

    def _single_write(
        self,
        command: dict[str, Any],
        kind: int,
        answer: Callable[[dict[str, Any] | None], Any] | None,
        session: _ClientSession | None = None,
        comment: Any = None,
    ) -> _core.Operation:
        if comment is not None:
            command["comment"] = comment
        port, database, _, _, _, concern, _ = self._context
        handle: _core.Session | None = None
        if session is not None or BOUND:
            handle, concern = write_in(port, session, concern)
        if concern._document:
            command["writeConcern"] = concern._document
        is_acknowledged = concern._acknowledged
        codec = self._reply_codec
        if codec is None:
            codec = self._reply_codec = write_codec(self._codec_options)
        operation = _core.Operation(
            database,
            command,
            codec,
            kind,
            READ_APPLY,
            REPLIES_ONE if is_acknowledged else REPLIES_NONE,
            None,
            handle,
            None,
            False,
            answer,
        )
        if operation.size > LARGEST_COMMAND:
            refuse_size(operation.size)
        if not is_acknowledged:
            for statement in command.get("updates") or command["deletes"]:
                check_unanswered_size(statement, operation, self._codec_options)
        return operation


def _acknowledged_only(option: str, value: Any, concern: WriteConcern) -> Any:
    if not concern._acknowledged:
        raise ConfigurationError(f"{option} is unsupported for unacknowledged writes.")
    return value


def _update_result(reply: dict[str, Any] | None) -> UpdateResult:
    if reply is None:
        return UpdateResult(None, False)
    if "writeErrors" in reply or "writeConcernError" in reply:
        _raise_write_error(reply)
    # The reply lists upserted ids by statement; here is one statement, and the result uses the older field names.
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
