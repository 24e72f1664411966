"""Files in GridFS: stored while they arrive, sent while they are read; never whole in memory."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from tornado.web import HTTPError, stream_request_body

from mangonel.bson import ObjectId
from mangonel.bson.errors import InvalidId
from mangonel.demo.base import POLICY, Base
from mangonel.demo.settings import MAX_UPLOAD
from mangonel.gridfs import AsyncGridFSBucket, NoFile
from mangonel.gridfs.web.tornado import GridFSHandler

if TYPE_CHECKING:
    from mangonel.gridfs import AsyncGridIn, AsyncGridOut

BUCKET = "files"
LISTED = 100
MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9.+-]+", re.IGNORECASE)


class FilesPage(Base):
    """The page of files."""

    async def get(self) -> None:
        """Show the page; the API supplies its list."""
        self.page("files.html", "Files", limit=MAX_UPLOAD >> 20)


class FilesAPI(Base):
    """`GET /api/files`: the newest files."""

    async def get(self) -> None:
        """Answer with an array of file documents, as JSON straight from BSON."""
        files: Any = self.demo.database[f"{BUCKET}.files"]
        shown = {"filename": 1, "length": 1, "uploadDate": 1, "metadata": 1}
        self.set_header("Content-Type", "application/json")
        self.finish(await files.find({}, shown).sort("uploadDate", -1).limit(LISTED).to_json("plain"))


@stream_request_body
class FileAPI(Base):
    """`PUT /api/files/NAME` stores the body under a name; `DELETE /api/files/ID` removes a file."""

    _file: AsyncGridIn | None = None
    _is_whole = False

    async def prepare(self) -> None:
        """Open the upload once the user is known; the body is not read earlier."""
        await super().prepare()
        if self.request.method != "PUT" or self._finished:
            return
        connection: Any = self.request.connection
        connection.set_max_body_size(MAX_UPLOAD)
        told = self.request.headers.get("Content-Type", "")
        metadata = {
            "by": self.user,
            "contentType": told if MEDIA_TYPE.fullmatch(told) else "application/octet-stream",
        }
        self._file = self.demo.bucket.open_upload_stream(self.path_args[0], metadata=metadata)

    async def data_received(self, chunk: bytes) -> None:
        """Write a piece; the browser's connection is not read until this returns."""
        if self._file is not None:
            await self._file.write(chunk)

    async def put(self, name: str) -> None:
        """Finish the file."""
        assert self._file is not None
        await self._file.close()
        self._is_whole = True
        self.set_status(201)
        self.write({"id": str(self._file._id), "name": name})

    async def delete(self, id: str) -> None:
        """Remove a file."""
        try:
            await self.demo.bucket.delete(ObjectId(id))
        except (InvalidId, NoFile) as error:
            raise HTTPError(404, "there is no such file") from error
        self.set_status(204)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with the error. If the body was not read, the connection closes, so announce that too."""
        self.set_header("Connection", "close")
        super().write_error(status_code, **kwargs)

    def on_finish(self) -> None:
        """Remove the upload if an error ended it."""
        self._drop()

    def on_connection_close(self) -> None:
        """Remove the upload if the browser disconnected."""
        super().on_connection_close()
        self._drop()

    def _drop(self) -> None:
        file, self._file = self._file, None
        if file is not None and not self._is_whole:
            self.demo.background(asyncio.ensure_future(file.abort()))


class Download(Base, GridFSHandler):
    """`GET /files/ID`: a file or a range of it. Files are untrusted, so browsers must not run them as pages of ours."""

    async def prepare(self) -> None:
        """Set headers for the download before it begins."""
        await super().prepare()
        self.set_header("Content-Disposition", "attachment")
        self.set_header("Content-Security-Policy", f"{POLICY}; sandbox")


async def open_by_id(bucket: AsyncGridFSBucket, id: str) -> AsyncGridOut:
    """Open the file with an id.

    Raises:
        NoFile: there is no such file.
    """
    try:
        return await bucket.open_download_stream(ObjectId(id))
    except InvalidId as error:
        raise NoFile(f"no file has the id {id!r}") from error
