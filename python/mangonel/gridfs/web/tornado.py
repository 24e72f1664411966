"""A Tornado handler that serves the files of a bucket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from mangonel.gridfs.errors import NoFile
from mangonel.gridfs.web.answers import PIECE, answer, bucket_for

if TYPE_CHECKING:
    from mangonel.gridfs import AsyncGridFSBucket, AsyncGridOut


class GridFSHandler(RequestHandler):
    """Serves the newest revision of a file; the route's only group matches its name.

    Example:
        >>> Application([(r"/files/(.+)", GridFSHandler, {"bucket": AsyncGridFSBucket(client.shop)})])
    """

    def initialize(
        self,
        bucket: AsyncGridFSBucket,
        find: Callable[[AsyncGridFSBucket, str], Awaitable[AsyncGridOut]] | None = None,
    ) -> None:
        """Store the route's settings.

        Args:
            bucket: the bucket that holds the files.
            find: function of bucket and name that opens a file in another way; it raises NoFile if there is none.

        Example:
            >>> from tornado.web import Application
            >>> application = Application([(r"/files/(.+)", GridFSHandler, {"bucket": bucket})])
        """
        self._bucket = bucket
        self._find = find
        self._has_gone = False

    async def get(self, name: str) -> None:
        """Answer with the file `name`, or the requested range of it.

        Args:
            name: the text that the route's group matched.

        Raises:
            HTTPError: 404 for no such file, 416 for no such range.

        Example:
            >>> class Private(GridFSHandler):
            ...     async def get(self, name):
            ...         if self.get_cookie("user") is None:
            ...             self.send_error(403)
            ...         else:
            ...             await super().get(name)
        """
        await self._serve("GET", name)

    async def head(self, name: str) -> None:
        """Answer as `get` does for `name`, without the bytes."""
        await self._serve("HEAD", name)

    def compute_etag(self) -> None:
        """Return None: the file's ETag is set already."""
        return

    def on_connection_close(self) -> None:
        """Record that the client has disconnected."""
        self._has_gone = True

    async def _serve(self, method: str, name: str) -> None:
        source: Any
        headers = {key.lower(): value for key, value in self.request.headers.items()}
        bucket = bucket_for(self._bucket, method, headers)
        try:
            if self._find is not None:
                source = await self._find(bucket, name)
            else:
                source = await bucket.open_download_stream_by_name(name)
        except NoFile:
            source = None
        told = answer(method, headers, None if source is None else source._file)
        self.set_status(told.status)
        self.clear_header("Content-Type")
        for key, value in told.headers.items():
            self.set_header(key, value)
        try:
            if source is not None and told.stop > told.start:
                await source.seek(told.start)
                while (left := told.stop - source.tell()) > 0 and not self._has_gone:
                    self.write(await source.read(min(PIECE, left)))
                    # Returns when the socket has accepted the bytes, so reading keeps the client's pace.
                    await self.flush()
            if not self._has_gone:
                await self.finish()
        except StreamClosedError:
            # The client has disconnected.
            return
        finally:
            if source is not None:
                await source.close()
