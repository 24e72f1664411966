"""Changes or deletes one document and returns it: the findAndModify command. Spec: crud (find and modify)."""

from __future__ import annotations

from mangonel import _core
from mangonel._core import KIND_RETRYABLE_WRITE, READ_VALUE, REPLIES_NONE, REPLIES_ONE
from mangonel._light import Generic, Mapping, Sequence, Set
from mangonel._options.index_keys import hint_document, index_document
from mangonel._shared.base import CommandSource
from mangonel._shared.collection.write_support import LARGEST_COMMAND, refuse_size
from mangonel._shared.face_result import FaceResult
from mangonel._shared.settings import BOUND, concern_in, session_handle, session_of
from mangonel.collation import validate_collation_or_none
from mangonel.common import (
    validate_boolean,
    validate_is_mapping,
    validate_list_or_none,
    validate_ok_for_replace,
    validate_ok_for_update,
)
from mangonel.errors import ConfigurationError
from mangonel.typings import _DocumentType
from mangonel.write_concern import WriteConcern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypedDict, Unpack

    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.typings import _IndexKeyHint, _IndexList, _Pipeline

    class Options(TypedDict):
        """Options of all methods."""

        projection: Mapping[str, Any] | Iterable[str] | None
        sort: _IndexList | None
        hint: _IndexKeyHint | None
        session: _ClientSession | None
        let: Mapping[str, Any] | None
        comment: Any

    class FindAndModifyOptions(Options, total=False):
        """Options of only some methods."""

        upsert: bool
        return_document: bool
        array_filters: Sequence[Mapping[str, Any]] | None


class CollectionFindAndModify(CommandSource, Generic[_DocumentType]):
    """The methods that change a document and return it."""

    _name: str

    def find_one_and_delete(
        self,
        filter: Mapping[str, Any],
        projection: Mapping[str, Any] | Iterable[str] | None = None,
        sort: _IndexList | None = None,
        hint: _IndexKeyHint | None = None,
        session: _ClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[_DocumentType | None]:
        """Delete the first document that matches and return it, or None if nothing matches.

        Args:
            filter: query document.
            projection: names of fields to return, or a document of them.
            sort: (key, direction) pairs: the order that decides which document is the first.
            hint: the index to use, by name or keys.
            session: run in this session; it must come from the same client.
            let: variables for expressions, as `$$name`.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: further fields of the command, such as `maxTimeMS=200` or `collation=...`.

        Raises:
            OperationFailure: the server refused. Nothing was deleted.
            WriteConcernError: deleted, but the write concern was not satisfied.
            AutoReconnect: the connection broke, twice with `retryWrites`. Whether it was deleted is not known.

        Example:
            >>> client.shop.orders.find_one_and_delete({"total": {"$gt": 1}}, {"total": 1}, sort=[("_id", 1)])
            {'_id': 1, 'total': 9.5}
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        kwargs["remove"] = True
        return self._find_and_modify(
            filter,
            kwargs,
            projection=projection,
            sort=sort,
            hint=hint,
            session=session,
            let=let,
            comment=comment,
        )

    def find_one_and_replace(
        self,
        filter: Mapping[str, Any],
        replacement: Mapping[str, Any],
        projection: Mapping[str, Any] | Iterable[str] | None = None,
        sort: _IndexList | None = None,
        upsert: bool = False,
        return_document: bool = False,
        hint: _IndexKeyHint | None = None,
        session: _ClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[_DocumentType | None]:
        """Replace the first document that matches and return the old or the new document.

        Args:
            replacement: the whole new document, without update operators.
            upsert: insert `replacement` if nothing matches.
            return_document: ReturnDocument.BEFORE or AFTER.
            filter, projection, sort, hint, session, let, comment, **kwargs: as for `find_one_and_delete`.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            DuplicateKeyError: the new document collides with a unique index. Nothing was changed.
            OperationFailure, WriteConcernError, AutoReconnect: as for `find_one_and_delete`.

        Example:
            >>> orders.find_one_and_replace({"_id": 1}, {"total": 3}, return_document=ReturnDocument.AFTER)
            {'_id': 1, 'total': 3}
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        validate_ok_for_replace(replacement)
        kwargs["update"] = replacement
        return self._find_and_modify(
            filter,
            kwargs,
            projection=projection,
            sort=sort,
            upsert=upsert,
            return_document=return_document,
            hint=hint,
            session=session,
            let=let,
            comment=comment,
        )

    def find_one_and_update(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any] | _Pipeline,
        projection: Mapping[str, Any] | Iterable[str] | None = None,
        sort: _IndexList | None = None,
        upsert: bool = False,
        return_document: bool = False,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        hint: _IndexKeyHint | None = None,
        session: _ClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[_DocumentType | None]:
        """Change the first document that matches and return the old or the new document.

        Args:
            update: update operators such as `$set`, or an aggregation pipeline.
            upsert: insert a document made from filter and update when nothing matches.
            return_document: ReturnDocument.BEFORE or AFTER.
            array_filters: conditions that select the elements for `$[name]`.
            filter, projection, sort, hint, session, let, comment, **kwargs: as for `find_one_and_delete`.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            DuplicateKeyError: the change collides with a unique index. Nothing was changed.
            OperationFailure, WriteConcernError, AutoReconnect: as for `find_one_and_delete`.

        Example:
            >>> counters.find_one_and_update(
            ...     {"_id": "orders"}, {"$inc": {"next": 1}}, upsert=True, return_document=ReturnDocument.AFTER
            ... )["next"]
            1
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        validate_ok_for_update(update)
        if array_filters is not None:
            validate_list_or_none("array_filters", array_filters)
        kwargs["update"] = update
        return self._find_and_modify(
            filter,
            kwargs,
            projection=projection,
            sort=sort,
            upsert=upsert,
            return_document=return_document,
            array_filters=array_filters,
            hint=hint,
            session=session,
            let=let,
            comment=comment,
        )

    def _find_and_modify(
        self,
        filter: Mapping[str, Any],
        fields: dict[str, Any],
        reading: int = READ_VALUE,
        /,
        **options: Unpack[FindAndModifyOptions],
    ) -> Any:
        """Run the command; `fields` are further fields in the server's form, `reading` selects a part of the reply."""
        if type(filter) is not dict:
            validate_is_mapping("filter", filter)
        return_document = options.get("return_document", False)
        if return_document is not True and return_document is not False:
            raise TypeError(
                f"return_document must be ReturnDocument.BEFORE or ReturnDocument.AFTER, not {type(return_document)}"
            )
        concern, session = self._write_concern, options["session"]
        handle: _core.Session | None = None
        if session is not None or BOUND:
            session = session_of(self._port, session)
            handle = session_handle(session)
        command: dict[str, Any] = {"findAndModify": self._name, "query": filter, "new": return_document}
        if (let := options["let"]) is not None:
            validate_is_mapping("let", let)
            command["let"] = let
        if (comment := options["comment"]) is not None:
            command["comment"] = comment
        collation = fields.pop("collation", None)
        if collation is not None:
            collation = validate_collation_or_none(collation)
        command.update(fields)
        if collation is not None:
            command["collation"] = collation
        if (projection := options["projection"]) is not None:
            command["fields"] = _projection_document(projection)
        if (sort := options["sort"]) is not None:
            command["sort"] = index_document(sort)
        if (upsert := options.get("upsert")) is not None:
            if upsert is not True and upsert is not False:
                validate_boolean("upsert", upsert)
            command["upsert"] = upsert
        if session is not None:
            concern = concern_in(session, concern)
        if (asked := fields.get("writeConcern")) is not None:
            concern = WriteConcern(**asked)
        is_acknowledged = concern._acknowledged
        if (array_filters := options.get("array_filters")) is not None:
            if not is_acknowledged:
                raise ConfigurationError("arrayFilters is unsupported for unacknowledged writes.")
            command["arrayFilters"] = array_filters
        if collation is not None and not is_acknowledged:
            raise ConfigurationError("Collation is unsupported for unacknowledged writes.")
        if (hint := options["hint"]) is not None:
            command["hint"] = hint_document(hint)
        if concern._document:
            command["writeConcern"] = concern._document
        operation = _core.Operation(
            self._database_name,
            command,
            self._codec,
            KIND_RETRYABLE_WRITE,
            reading,
            REPLIES_ONE if is_acknowledged else REPLIES_NONE,
            session=handle,
        )
        if operation.size > LARGEST_COMMAND:
            refuse_size(operation.size)
        return self._port.run(operation)


def _projection_document(projection: Any) -> Any:
    if isinstance(projection, Mapping):
        return projection
    if not isinstance(projection, (Sequence, Set)):
        raise TypeError(f"projection must be a mapping or a list of field names, not {type(projection)}")
    if not all(isinstance(name, str) for name in projection):
        raise TypeError(f"projection must be a list of field names, each as str, not {projection!r}")
    return dict.fromkeys(projection, 1)
