"""Change streams of collections, databases and deployments: their `watch`. Spec: change-streams."""

from __future__ import annotations

from mangonel._light import Generic, TypeVar
from mangonel._shared.base import CommandSource
from mangonel._shared.face_result import FaceResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Unpack

    from mangonel._shared.cursors.change_stream import WatchOptions
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.bson.timestamp import Timestamp
    from mangonel.typings import _CollationIn, _Pipeline

_StreamType = TypeVar("_StreamType")


class Watched(CommandSource, Generic[_StreamType]):
    """The change streams of a collection, a database or a deployment."""

    _change_stream_class: type[Any]

    def _watched(self) -> tuple[CommandSource, str | int, Any]:
        """Return the object that runs the aggregation, the target of its command, and the collection of the cursor."""
        raise NotImplementedError

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
    ) -> FaceResult[_StreamType]:
        """Follow the changes in this collection, database or deployment, from now on or from a given position.

        A stream of a deployment leaves out `admin`, `local` and `config`. Needs a replica set, a sharded cluster, or a
        load balancer in front of a cluster.

        Args:
            pipeline: stages that filter or reshape the changes; they must keep `_id`.
            full_document: `"updateLookup"`, `"whenAvailable"` or `"required"`: add the document to update events.
            resume_after: a resume token, to continue after that change.
            max_await_time_ms: milliseconds that the server may wait for a change before an empty reply.
            batch_size: changes per reply.
            collation: language rules for comparing strings in the pipeline.
            start_at_operation_time: a Timestamp, to start with the changes from then on.
            session: run inside this session.
            start_after: like `resume_after`, but also works after a change that invalidated a stream.
            comment: shown in the server's logs and profile.
            full_document_before_change: `"whenAvailable"` or `"required"`: add the document before the change.
            show_expanded_events: also report changes of structure, such as new indexes.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            OperationFailure: the server refused; a standalone server always refuses.
            ServerSelectionTimeoutError: no server answered in time.

        Example:
            >>> with client.shop.orders.watch([{"$match": {"operationType": "insert"}}]) as stream:
            ...     for change in stream:
            ...         print(change["fullDocument"])
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        return self._port.flow(
            self._watch_flow(
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

    async def _watch_flow(self, **options: Unpack[WatchOptions]) -> Any:
        """Make a stream and open its cursor now, so that it includes every later change."""
        stream = self._change_stream_class(*self._watched(), **options)
        await stream._open_flow()
        return stream
