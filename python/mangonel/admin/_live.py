"""The changes of a model's documents, as an event stream that a list listens to."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mangonel.admin._list import row_flow
from mangonel.admin._request import Request, Response
from mangonel.bson import Timestamp
from mangonel.errors import OperationFailure

if TYPE_CHECKING:
    from mangonel.admin._port import Port
    from mangonel.admin._shown import ShownModel
    from mangonel.admin._site import Admin

# How long one read of the change stream waits. After a wait without a change, a comment tests the connection.
WAIT_MS = 2000
# Seconds for which a browser may have been away without missing a change.
AWAY_S = 600
# The beginning of a resume token: a time. The rest may tell the id of a document that the user may not see.
_TIME = re.compile(r"82([0-9A-F]{16})")


async def live_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Response:
    """Return the stream of a model's changes that the user may view."""
    headers = (
        ("Content-Type", "text/event-stream"),
        ("Cache-Control", "no-store"),
        ("X-Accel-Buffering", "no"),
    )
    stream = None if request.method == "HEAD" else Live(admin, request, shown)
    return Response(headers=headers, stream=stream)


class Live:
    """An event stream of one browser. Each part is one event or a comment; a mount sends one after the other.

    A comment is sent first, and after every wait without a change that is shown. Both carry as their id the time up to
    which the browser knows all changes, where the stream goes on when the browser reconnects.

    The event `change` is JSON with the `operation`, the `mark` of the row and, unless it is a deletion, the `id`, the
    `texts` and the `link` of the document. It is unknown whether the user could see a deleted document, so a deletion
    carries only the mark, which means nothing to a browser that never had the row.
    """

    is_endless = True

    def __init__(self, admin: Admin, request: Request, shown: ShownModel) -> None:
        self._admin = admin
        self._request = request
        self._shown = shown
        self._changes: Any = None

    async def part_flow(self, port: Port) -> bytes:
        """Return the next part; waits for some seconds at most."""
        if self._changes is None:
            # Opened before the browser gets the first part, so that it misses no change.
            await self._open_flow(port)
            return self._quiet()
        event = await port.call(self._changes.try_next)
        return self._quiet() if event is None else await self._written_flow(port, event)

    async def _open_flow(self, port: Port) -> None:
        since = _time_of(self._request.header("Last-Event-ID"))
        if since is not None:
            # The server's history may be shorter.
            with suppress(OperationFailure):
                await self._start_flow(port, start_at_operation_time=since)
                return
        await self._start_flow(port)

    async def _start_flow(self, port: Port, **options: Any) -> None:
        changes: Any = self._shown.model.watch(max_await_time_ms=WAIT_MS, **options)
        await port.finish(changes.__aenter__() if port.is_async else changes.__enter__())
        self._changes = changes

    def _id(self) -> str:
        found = _TIME.match(str((self._changes.token or {}).get("_data")))
        return f"id: {found[1]}\n" if found is not None else ""

    def _quiet(self) -> bytes:
        return f": \n{self._id()}\n".encode()

    async def _written_flow(self, port: Port, event: Any) -> bytes:
        shown = self._shown
        if event.id is None:
            return self._quiet()
        said: dict[str, Any] = {"operation": event.operation, "mark": shown.mark_of(event.id)}
        if event.operation != "delete":
            # As it is now: the user may see it now, but not what it was. A query finds what a list would, while change
            # streams ignore the default scope.
            texts = await row_flow(self._admin, port, self._request, shown, event.id)
            if texts is None:
                return self._quiet()
            said["id"] = shown.id_text(event.id)
            said["texts"] = texts
            said["link"] = self._request.link(shown.title, "document", id=said["id"])
        return f"event: change\n{self._id()}data: {json.dumps(said)}\n\n".encode()

    async def close_flow(self, port: Port) -> None:
        """Close the change stream."""
        if self._changes is not None:
            await port.call(self._changes.close)


def _time_of(id: str | None) -> Timestamp | None:
    """Return the time in an event's id; None if there is none, or if it is too far from now."""
    if id is None or not re.fullmatch("[0-9A-F]{16}", id):
        return None
    found = Timestamp(int(id[:8], 16), int(id[8:], 16))
    return found if abs(found.time - time.time()) < AWAY_S else None
