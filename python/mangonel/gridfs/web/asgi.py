"""An ASGI application that serves the files of a bucket. Needs nothing except an ASGI server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from mangonel.gridfs.errors import NoFile
from mangonel.gridfs.web.answers import PIECE, answer, bucket_for

if TYPE_CHECKING:
    from mangonel.gridfs import AsyncGridFSBucket, AsyncGridOut

Message = MutableMapping[str, Any]


class GridFSApp:
    """Serves the newest revision of each file at `/NAME`; mount it under any path.

    Args:
        bucket: the bucket that holds the files.
        find: function of bucket and name that opens a file in another way; it raises NoFile if there is none.

    Example:
        >>> app = Starlette(routes=[Mount("/files", GridFSApp(AsyncGridFSBucket(client.shop)))])
    """

    def __init__(
        self,
        bucket: AsyncGridFSBucket,
        find: Callable[[AsyncGridFSBucket, str], Awaitable[AsyncGridOut]] | None = None,
    ) -> None:
        self._bucket = bucket
        self._find = find or _by_name

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer one request. A disconnect of the client ends the read."""
        if scope["type"] != "http":
            raise ValueError(f"expected an HTTP request, got {scope['type']!r}")
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        source: AsyncGridOut | None
        try:
            bucket = bucket_for(self._bucket, scope["method"], headers)
            source = await self._find(bucket, path.lstrip("/"))
        except NoFile:
            source = None
        file = None if source is None else source._file
        told = answer(scope["method"], headers, file)
        started = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in told.headers.items()
        ]
        try:
            await send({"type": "http.response.start", "status": told.status, "headers": started})
            if source is not None and told.stop > told.start:
                await source.seek(told.start)
                while (left := told.stop - source.tell()) > 0:
                    # The server's `send` waits until the client has read enough.
                    body = await source.read(min(PIECE, left))
                    await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except OSError:
            # The client has disconnected.
            return
        finally:
            if source is not None:
                await source.close()


async def _by_name(bucket: AsyncGridFSBucket, name: str) -> AsyncGridOut:
    return await bucket.open_download_stream_by_name(name)
