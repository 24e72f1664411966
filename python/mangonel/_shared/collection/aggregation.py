"""Aggregations, and the counts based on them: builds the command and opens the cursor.

An aggregation that ends in `$out` or `$merge` is a write: it is never retried, and has a write concern.
Spec: crud (aggregate, count), retryable-reads.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._arguments import expect_instance
from mangonel._core import (
    KIND_READ,
    KIND_WRITE,
    READ_APPLY,
    READ_FIRST,
    READ_RAW_BATCH,
    REPLIES_NONE,
    REPLIES_ONE,
)
from mangonel._faces.deadline import check_wait
from mangonel._faces.port import refuse_encryption
from mangonel._light import Generic
from mangonel._options.checks import non_negative_integer
from mangonel._options.index_keys import hint_document
from mangonel._shared.base import CommandSource
from mangonel._shared.client.admin_commands import PLAIN
from mangonel._shared.face_result import FaceResult
from mangonel._shared.operation import PRIMARY_MODE
from mangonel._shared.replies import REPLY_ERRORS, cursor_of, malformed
from mangonel._shared.settings import (
    BOUND,
    concern_in,
    preference_in,
    session_of,
)
from mangonel.collation import validate_collation_or_none
from mangonel.common import validate_is_mapping, validate_list
from mangonel.errors import ConfigurationError
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.cursors.command_cursor import _CommandCursor, _RawBatchCommandCursor
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.typings import _IndexKeyHint, _Pipeline

# Fields of the command that must not be passed as options.
_NO_OPTIONS = ("explain", "aggregate", "pipeline")


class AggregatingSource(CommandSource):
    """Opens cursors for aggregations on a collection or a database."""

    def _aggregate(
        self,
        target: str | int,
        cursor_class: type[Any],
        collection: _Collection[Any],
        pipeline: _Pipeline,
        session: _ClientSession | None,
        options: dict[str, Any],
        let: Mapping[str, Any] | None = None,
        comment: Any | None = None,
    ) -> FaceResult[Any]:
        """Open a cursor; `options` are `batchSize`, `maxAwaitTimeMS` and other fields of the command."""
        explicit: _ClientSession | None = None
        if session is not None or BOUND:
            explicit = session_of(self._port, session)
        if options:
            if not options.keys().isdisjoint(_NO_OPTIONS):
                _refuse(options)
            let, comment = options.pop("let", let), options.pop("comment", comment)
        if type(pipeline) is not list:
            validate_list("pipeline", pipeline)
        is_write = False
        if pipeline:
            last = pipeline[-1]
            try:
                is_write = "$out" in last or "$merge" in last
            except TypeError:
                raise TypeError(
                    f"expected each stage of pipeline as a document, got {type(last).__name__}"
                ) from None
            if is_write and self._port.limit is not None:
                # A port with a limit is always a LimitedPort.
                self._port.refuse_iteration()  # type: ignore[attr-defined]
        command: dict[str, Any] = {"aggregate": target, "pipeline": pipeline, "cursor": {}}
        if let is not None:
            validate_is_mapping("let", let)
            command["let"] = let
        if comment is not None:
            command["comment"] = comment
        size: int | None = None
        max_await_time_ms: int | None = None
        if options:
            size = options.pop("batchSize", None)
            if size is not None:
                size = non_negative_integer("batchSize", size)
            max_await_time_ms = options.pop("maxAwaitTimeMS", None)
            check_wait(max_await_time_ms, self._port.timeout)
            _refine(options)
            command.update(options)
        if cursor_class._reading == READ_RAW_BATCH and not is_write:
            # As in PyMongo, all batches come from `getMore`, and listeners see only these as raw bytes.
            command["cursor"] = {**command["cursor"], "batchSize": 0}
        elif size is not None and not is_write:
            command["cursor"] = {**command["cursor"], "batchSize": size}
        preference, concern = self._read_preference, self._write_concern
        handle: _core.Session | None = None
        has_read_concern = self._read_concern._level is not None and "readConcern" not in command
        if explicit is not None:
            preference = preference_in(explicit, preference)
            handle = explicit._handle
            # A transaction has one read concern for all its operations.
            has_read_concern = has_read_concern and not handle.in_transaction
        if has_read_concern:
            command["readConcern"] = self._read_concern.document
        is_acknowledged = True
        if is_write and "writeConcern" not in command:
            concern = concern_in(explicit, concern)
            if concern._document:
                command["writeConcern"] = concern._document
            is_acknowledged = concern._acknowledged
        codec = self._codec

        # Passed as defaults, since each captured variable would cost one more object.
        def opened(
            batch: _core.Batch | None,
            must_open: bool = is_acknowledged,
            cursor_class: type[Any] = cursor_class,
            collection: _Collection[Any] = collection,
            codec: _core.Codec = codec,
            size: int = size or 0,
            max_await_time_ms: int | None = max_await_time_ms,
            comment: Any | None = comment,
            explicit: _ClientSession | None = explicit,
        ) -> Any:
            if batch is None and must_open:
                batch = cursor_of(batch)
            return cursor_class(collection, batch, codec, size, max_await_time_ms, comment, explicit)

        return self._port.run(
            _core.Operation(
                self._database_name,
                command,
                codec,
                KIND_WRITE if is_write else KIND_READ,
                cursor_class._reading,
                REPLIES_ONE if is_acknowledged else REPLIES_NONE,
                read_preference=None if preference._MODE == PRIMARY_MODE else preference.document,
                session=handle,
                answer=opened,
            )
        )


class CollectionAggregation(AggregatingSource, Generic[_DocumentType]):
    """Aggregations, counts and distinct values of a collection."""

    _name: str
    _command_cursor_class: type[Any]
    _raw_command_cursor_class: type[Any]

    def aggregate(
        self,
        pipeline: _Pipeline,
        session: _ClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
        **kwargs: Any,
    ) -> FaceResult[_CommandCursor[_DocumentType]]:
        """Run an aggregation pipeline and return a cursor over its results.

        Args:
            pipeline: a list of stages. With `$out` or `$merge` as the last stage it is a write: it is never retried,
                and the cursor is empty.
            session: run in this session; it must come from the same client.
            let: variables for expressions, as `$$name`.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the first command and all batches together; 0: no limit. None: the usual limit.
            timeout_mode: `"iteration"`: the limit holds for the first command, and again for each later batch.
                `"cursor_lifetime"` or None: it is for all of them together.
            **kwargs: more fields of the command: `allowDiskUse`, `batchSize`, `bypassDocumentValidation`,
                `collation`, `hint`, `maxTimeMS`, and `maxAwaitTimeMS` for later batches.

        Raises:
            ConfigurationError: `explain` was requested; use `Database.command` for that.
            AutoReconnect: the connection broke (for a read, twice). A `$out` or `$merge` may have run.
            OperationFailure: the server refused; see `code` and `details`.
            WriteConcernError: written, but the write concern was not satisfied.

        Example:
            >>> pipeline = [{"$group": {"_id": "$customer", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
            >>> list(client.shop.orders.aggregate(pipeline))
            [{'_id': 'Ada', 'n': 1}, {'_id': 'Eve', 'n': 1}]
        """
        if timeout_ms is not None or timeout_mode is not None:
            self = self._limited_cursor(timeout_ms, timeout_mode)
        collection = self._as_collection()
        return self._aggregate(
            self._name, self._command_cursor_class, collection, pipeline, session, kwargs, let, comment
        )

    def aggregate_raw_batches(
        self,
        pipeline: _Pipeline,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
        **kwargs: Any,
    ) -> FaceResult[_RawBatchCommandCursor[_DocumentType]]:
        """Run an aggregation pipeline and return a cursor over batches of BSON, one bytes object each.

        Arguments (with `let` in **kwargs) and errors as for `aggregate`.

        Raises:
            InvalidOperation: the client has `auto_encryption_opts`.

        Example:
            >>> for batch in client.shop.orders.aggregate_raw_batches([{"$match": {"total": {"$gt": 5}}}]):
            ...     print(mangonel.bson.decode_all(batch))
        """
        if timeout_ms is not None or timeout_mode is not None:
            self = self._limited_cursor(timeout_ms, timeout_mode)
        refuse_encryption(self._port, "aggregate_raw_batches does")
        collection = self._as_collection()
        return self._aggregate(
            self._name, self._raw_command_cursor_class, collection, pipeline, session, kwargs, None, comment
        )

    def _as_collection(self) -> _Collection[_DocumentType]:
        return self  # type: ignore[return-value]

    def count_documents(
        self,
        filter: Mapping[str, Any],
        session: _ClientSession | None = None,
        comment: Any | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[int]:
        """Return how many documents match, by counting them.

        Args:
            filter: query document; `{}` counts all documents. `$where` and `$near` are not allowed.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: `skip`, `limit`, `hint`, `collation`, `maxTimeMS`, or other fields of the aggregate command.

        Raises:
            AutoReconnect: the connection broke twice. A read is safe to repeat.
            OperationFailure: the server refused; see `code` and `details`.

        Example:
            >>> client.shop.orders.count_documents({"total": {"$gt": 5}})
            1
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        pipeline: list[dict[str, Any]] = [{"$match": filter}]
        command: dict[str, Any] = {"aggregate": self._name, "pipeline": pipeline, "cursor": {}}
        if kwargs:
            if "skip" in kwargs:
                pipeline.append({"$skip": kwargs.pop("skip")})
            if "limit" in kwargs:
                pipeline.append({"$limit": kwargs.pop("limit")})
            _refine(kwargs)
            command.update(kwargs)
        pipeline.append({"$group": {"_id": 1, "n": {"$sum": 1}}})
        return self._port.run(
            self._read_operation(command, READ_FIRST, session=session, comment=comment, answer=_counted)
        )

    def _count_by_command(
        self, filter: Mapping[str, Any], session: _ClientSession | None = None, **kwargs: Any
    ) -> FaceResult[int]:
        """Return how many documents match, with the count command, which accepts filters that aggregations refuse."""
        _refine(kwargs)
        command = {"count": self._name, "query": filter, **kwargs}
        return self._port.run(self._read_operation(command, READ_APPLY, session=session, answer=_counted))

    def estimated_document_count(
        self, comment: Any | None = None, *, timeout_ms: float | None = None, **kwargs: Any
    ) -> FaceResult[int]:
        """Return the number of documents from the collection's metadata: fast, but inaccurate after a crash.

        Args:
            comment: shown in the server's logs and profile.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: `maxTimeMS`, or other fields of the count command.

        Raises:
            ConfigurationError: a session was passed; reading the metadata does not support one.
            AutoReconnect: the connection broke twice. A read is safe to repeat.
            OperationFailure: the server refused; see `code` and `details`.

        Example:
            >>> client.shop.orders.estimated_document_count()
            2
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        if "session" in kwargs:
            raise ConfigurationError("estimated_document_count does not support sessions")
        command = {"count": self._name, **kwargs}
        return self._port.run(
            self._read_operation(command, READ_APPLY, comment=comment, codec=PLAIN, answer=_counted)
        )

    def distinct(
        self,
        key: str,
        filter: Mapping[str, Any] | None = None,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        hint: _IndexKeyHint | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: Any,
    ) -> FaceResult[list[Any]]:
        """Return the distinct values of a field in the matching documents; array elements count separately.

        Args:
            key: the field; use dots for a nested one.
            filter: query document; None matches all.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            hint: the index to use, by name or keys; needs MongoDB 7.1.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            **kwargs: `collation`, `maxTimeMS`, or other fields of the command.

        Raises:
            TypeError: `key` is not a string.
            ConfigurationError: both `filter` and `query` are given.
            AutoReconnect: the connection broke twice. A read is safe to repeat.
            OperationFailure: the server refused, or the values exceed 16 MB.

        Example:
            >>> client.shop.orders.distinct("customer", {"total": {"$gt": 5}})
            ['Ada']
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        expect_instance("key", key, str)
        if filter is not None:
            if "query" in kwargs:
                raise ConfigurationError("can't pass both filter and query")
            kwargs["query"] = filter
        if hint is not None:
            kwargs["hint"] = hint
        _refine(kwargs)
        command = {"distinct": self._name, "key": key, **kwargs}
        return self._port.run(
            self._read_operation(command, READ_APPLY, session=session, comment=comment, answer=_values)
        )


def _refuse(options: dict[str, Any]) -> NoReturn:
    name = next(name for name in _NO_OPTIONS if name in options)
    raise ConfigurationError(
        "expected no explain among the options of an aggregation, got it; use Database.command"
        if name == "explain"
        else f"the {name} option cannot be specified as a keyword argument"
    )


def _counted(found: Any) -> int:
    # Without matching documents `$group` returns nothing.
    if found is None:
        return 0
    try:
        return int(found["n"])
    except REPLY_ERRORS as error:
        raise malformed("count", error) from error


def _values(reply: Any) -> list[Any]:
    try:
        values: list[Any] = reply["values"]
    except REPLY_ERRORS as error:
        raise malformed("distinct", error) from error
    return values


def _refine(options: dict[str, Any]) -> None:
    """Normalise options that users may write in several ways."""
    if "hint" in options:
        hint = hint_document(options.pop("hint"))
        if hint is not None:
            options["hint"] = hint
    if "collation" in options:
        collation = validate_collation_or_none(options.pop("collation"))
        if collation is not None:
            options["collation"] = collation
