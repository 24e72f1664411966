"""Change streams of a whole deployment, and the opening of every kind of stream. Spec: change-streams."""

from __future__ import annotations

from mangonel._light import Generic
from mangonel._shared.base import CommandSource
from mangonel._shared.face_result import FaceResult
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Unpack

    from mangonel._shared.cursors.change_stream import WatchOptions, _ClusterChangeStream
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.bson.timestamp import Timestamp
    from mangonel.typings import _CollationIn, _Pipeline


async def open_flow(
    stream_class: type[Any],
    source: CommandSource,
    target: str | int,
    collection: Any,
    **options: Unpack[WatchOptions],
) -> Any:
    """Make a stream of any kind and open its cursor; it includes every later change."""
    stream = stream_class(source, target, collection, **options)
    await stream._open_flow()
    return stream


class WatchedClient(CommandSource, Generic[_DocumentType]):
    """Change streams of a deployment."""

    _database_class: type[Any]
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
    ) -> FaceResult[_ClusterChangeStream[_DocumentType]]:
        """Follow the changes in all collections of the deployment except those of `admin`, `local` and `config`.

        Arguments and errors as for `Collection.watch`.

        Example:
            >>> with client.watch() as stream:
            ...     print(stream.next()["ns"])
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        return self._port.flow(
            open_flow(
                self._change_stream_class,
                self._database_class(self, "admin"),
                1,
                self._database_class(self, "admin")["$cmd.aggregate"],
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
