"""Change streams of collections and databases: their `watch`. Spec: change-streams."""

from __future__ import annotations

from mangonel._light import Generic
from mangonel._shared.collection.aggregation import AggregatingSource
from mangonel._shared.cursors.watch_client import open_flow
from mangonel._shared.face_result import FaceResult
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mangonel._shared.cursors.change_stream import _CollectionChangeStream, _DatabaseChangeStream
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.bson.timestamp import Timestamp
    from mangonel.typings import _CollationIn, _Pipeline


class WatchedCollection(AggregatingSource, Generic[_DocumentType]):
    """Change streams of a collection."""

    _name: str
    _change_stream_class: type[Any]

    def watch(
        self,
        pipeline: _Pipeline | None = None,
        full_document: str | None = None,
        resume_after: Mapping[str, Any] | None = None,
        max_await_time_ms: int | None = None,
        batch_size: int | None = None,
        collation: _CollationIn | None = None,
        start_at_operation_time: Timestamp | None = None,
        session: _ClientSession | None = None,
        start_after: Mapping[str, Any] | None = None,
        comment: Any | None = None,
        full_document_before_change: str | None = None,
        show_expanded_events: bool | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[_CollectionChangeStream[_DocumentType]]:
        """Follow the changes in this collection, from now on or from a given position.

        Needs a replica set, a sharded cluster, or a load balancer in front of one.

        Args:
            pipeline: stages that filter or reshape the changes; they must keep `_id`.
            full_document: `"updateLookup"`, `"whenAvailable"` or `"required"`: add the document to update events.
            resume_after: a resume token, to continue after that change.
            max_await_time_ms: milliseconds that the server may wait for a change before an empty reply.
            batch_size: changes per reply.
            collation: language rules for comparing strings in the pipeline.
            start_at_operation_time: a Timestamp, to start with the changes from then on.
            session: run inside this session.
            start_after: as `resume_after`, but also after a change that invalidated a stream.
            comment: shown in the server's logs and profile.
            full_document_before_change: `"whenAvailable"` or `"required"`: add the document before the change.
            show_expanded_events: also report changes of structure, such as new indexes.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            OperationFailure: the server refused; on a standalone it always does.
            ServerSelectionTimeoutError: no server answered in time.

        Example:
            >>> with client.shop.orders.watch([{"$match": {"operationType": "insert"}}]) as stream:
            ...     for change in stream:
            ...         print(change["fullDocument"])
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        return self._port.flow(
            open_flow(
                self._change_stream_class,
                self,
                self._name,
                self,
                pipeline=pipeline,
                full_document=full_document,
                resume_after=resume_after,
                max_await_time_ms=max_await_time_ms,
                batch_size=batch_size,
                collation=collation,
                start_at_operation_time=start_at_operation_time,
                session=session,
                start_after=start_after,
                comment=comment,
                full_document_before_change=full_document_before_change,
                show_expanded_events=show_expanded_events,
            )
        )


class WatchedDatabase(AggregatingSource, Generic[_DocumentType]):
    """Change streams of a database."""

    _collection_class: type[Any]
    _change_stream_class: type[Any]

    def watch(
        self,
        pipeline: _Pipeline | None = None,
        full_document: str | None = None,
        resume_after: Mapping[str, Any] | None = None,
        max_await_time_ms: int | None = None,
        batch_size: int | None = None,
        collation: _CollationIn | None = None,
        start_at_operation_time: Timestamp | None = None,
        session: _ClientSession | None = None,
        start_after: Mapping[str, Any] | None = None,
        comment: Any | None = None,
        full_document_before_change: str | None = None,
        show_expanded_events: bool | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[_DatabaseChangeStream[_DocumentType]]:
        """Follow the changes in all collections of this database.

        Arguments and errors as for `Collection.watch`.

        Example:
            >>> with client.shop.watch() as stream:
            ...     print(stream.next()["ns"])
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        return self._port.flow(
            open_flow(
                self._change_stream_class,
                self,
                1,
                self._collection_class(self, "$cmd.aggregate"),
                pipeline=pipeline,
                full_document=full_document,
                resume_after=resume_after,
                max_await_time_ms=max_await_time_ms,
                batch_size=batch_size,
                collation=collation,
                start_at_operation_time=start_at_operation_time,
                session=session,
                start_after=start_after,
                comment=comment,
                full_document_before_change=full_document_before_change,
                show_expanded_events=show_expanded_events,
            )
        )
