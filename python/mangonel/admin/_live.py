"""The changes of a model's documents, as an event stream that a list listens to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mangonel.admin._allowed import seen_flow
from mangonel.admin._list import row_texts
from mangonel.admin._request import Request, Response

if TYPE_CHECKING:
    from mangonel.admin._port import Port
    from mangonel.admin._shown import ShownModel
    from mangonel.admin._site import Admin

# How long one read of the change stream waits. After a wait without a change, a comment tests the connection.
WAIT_MS = 2000
# Sent first, and after every wait without a change that is shown.
QUIET = b": \n\n"


async def live_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Response:
    """Return the stream of a model's changes that the user may view."""
    headers = (
        ("Content-Type", "text/event-stream"),
        ("Cache-Control", "no-store"),
        ("X-Accel-Buffering", "no"),
    )
    return Response(headers=headers, stream=Live(admin, request, shown))


class Live:
    """An event stream of one browser. Each part is one event or a comment; a mount sends one after the other.

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
            self._changes = self._shown.model.watch(max_await_time_ms=WAIT_MS)
            # Open the stream before the browser gets the first part, so that it misses no change.
            await port.call(self._changes.try_next)
            return QUIET
        event = await port.call(self._changes.try_next)
        return QUIET if event is None else await self._written_flow(port, event)

    async def _written_flow(self, port: Port, event: Any) -> bytes:
        shown, document = self._shown, event.document
        if event.id is None:
            return QUIET
        said: dict[str, Any] = {"operation": event.operation, "mark": shown.mark_of(event.id)}
        if event.operation != "delete":
            if document is None or not await self._is_shown_flow(port, document):
                return QUIET
            said["id"] = shown.id_text(event.id)
            said["texts"] = row_texts(self._admin, self._request, shown, document)
            said["link"] = self._request.link(shown.title, "document", id=said["id"])
        return f"event: change\ndata: {json.dumps(said)}\n\n".encode()

    async def _is_shown_flow(self, port: Port, document: Any) -> bool:
        # Change streams ignore the default scope, so look for the document with a query, as lists do.
        return bool(await seen_flow(self._admin, port, self._request, self._shown, [document.id]))

    async def close_flow(self, port: Port) -> None:
        """Close the change stream."""
        if self._changes is not None:
            await port.call(self._changes.close)
