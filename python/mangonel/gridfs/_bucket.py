"""GridFS with the specification's interface: a bucket of files. One definition for both faces. Spec: gridfs."""

from __future__ import annotations

from mangonel._arguments import expect_instance, told_by_public_name
from mangonel._light import Any
from mangonel._shared.face_result import FaceResult
from mangonel._shared.of_this_process import OfThisProcess
from mangonel.gridfs._names import DEFAULT_CHUNK_SIZE, root_of_bucket
from mangonel.gridfs._versions import version_flow
from mangonel.gridfs.errors import NoFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from mangonel._shared.client.database import _Database
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.bson.objectid import ObjectId
    from mangonel.gridfs._cursor import _GridOutCursor
    from mangonel.gridfs._grid_in import _GridIn
    from mangonel.gridfs._grid_out import _GridOut
    from mangonel.read_preferences import _ServerMode
    from mangonel.write_concern import WriteConcern


@told_by_public_name
class _GridFSBucket(OfThisProcess):
    """Files of any size in a database, each cut into chunks.

    Args:
        db: the database that holds the files.
        bucket_name: the prefix of the bucket's two collections.
        chunk_size_bytes: bytes per chunk of new files.
        write_concern: for uploads and changes; it must be acknowledged. None: the database's.
        read_preference: selects the servers to read files from. None: the database's.

    Raises:
        TypeError: `db` is not a database.
        ConfigurationError: the write concern is 0.

    Example:
        >>> bucket = GridFSBucket(client.shop)
        >>> file_id = bucket.upload_from_stream("greeting", b"hello")
        >>> bucket.open_download_stream(file_id).read()
        b'hello'
    """

    _instead = "make it there, of a database of that process"
    _is_async = False
    # Whether a file opened by name brings its first chunks from a far server.
    _requests_chunks = True
    _in_class: type[_GridIn]
    _out_class: type[_GridOut]
    _cursor_class: type[_GridOutCursor]

    def __init__(
        self,
        db: _Database[Any],
        bucket_name: str = "fs",
        chunk_size_bytes: int = DEFAULT_CHUNK_SIZE,
        write_concern: WriteConcern | None = None,
        read_preference: _ServerMode | None = None,
    ) -> None:
        self._collection = root_of_bucket(db, bucket_name, self._is_async, write_concern, read_preference)
        self._port = self._collection._port
        self._bucket_name = bucket_name
        self._files = self._collection["files"]
        self._chunks = self._collection["chunks"]
        self._chunk_size_bytes = chunk_size_bytes

    def _without_chunks(self) -> Self:
        """Return a copy of the bucket that requests no chunks with the document of a file opened by name."""
        made: Self = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _requests_chunks=False)
        return made

    def _run(self, timeout_ms: float | None, flow: Callable[..., Any], *arguments: Any) -> FaceResult[Any]:
        """Return the result of a flow of the bucket, within `timeout_ms` if it is set."""
        bucket = self._limited(timeout_ms)
        return bucket._port.flow(flow(bucket, *arguments))

    def _limited(self, timeout_ms: float | None) -> Self:
        """Return a copy of the bucket with this time limit for a single call, or the bucket itself without a limit."""
        if timeout_ms is None:
            return self
        made: Self = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        for name in ("_collection", "_files", "_chunks"):
            setattr(made, name, getattr(self, name)._limited(timeout_ms))
        made._port = made._collection._port
        return made

    # Uploads.

    def open_upload_stream(
        self,
        filename: str,
        chunk_size_bytes: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        session: _ClientSession | None = None,
    ) -> _GridIn:
        """Open a new file for writing. Sends nothing yet.

        Args:
            filename: its name; several files may have the same name.
            chunk_size_bytes: bytes per chunk. None: the bucket's.
            metadata: document to store with the file.
            session: run inside this session.

        Example:
            >>> with bucket.open_upload_stream("greeting", metadata={"language": "en"}) as target:
            ...     target.write(b"hello")
        """
        return self._new_file({}, filename, chunk_size_bytes, metadata, session)

    def open_upload_stream_with_id(
        self,
        file_id: Any,
        filename: str,
        chunk_size_bytes: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        session: _ClientSession | None = None,
    ) -> _GridIn:
        """Open a new file with this `_id` for writing. Sends nothing yet.

        Args:
            file_id: its `_id`; if another file has it, this is detected when the first chunks are sent.
            filename, chunk_size_bytes, metadata, session: as for `open_upload_stream`.

        Example:
            >>> bucket.open_upload_stream_with_id("greeting-1", "greeting")
        """
        return self._new_file({"_id": file_id}, filename, chunk_size_bytes, metadata, session)

    def upload_from_stream(
        self,
        filename: str,
        source: Any,
        chunk_size_bytes: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        session: _ClientSession | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[ObjectId]:
        """Store the content of `source` as a new file and return its `_id`.

        Args:
            filename: its name.
            source: bytes, or a file object to read to its end.
            chunk_size_bytes, metadata, session: as for `open_upload_stream`.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            PyMongoError: the upload failed; nothing of the file remains.

        Example:
            >>> with open("photo.jpg", "rb") as source:
            ...     file_id = bucket.upload_from_stream("photo.jpg", source)
        """
        self = self._limited(timeout_ms)
        target = self._new_file({}, filename, chunk_size_bytes, metadata, session)
        return self._port.flow(target._whole_flow(source))

    def upload_from_stream_with_id(
        self,
        file_id: Any,
        filename: str,
        source: Any,
        chunk_size_bytes: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        session: _ClientSession | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[None]:
        """Store the content of `source` as a new file with this `_id`.

        Args:
            file_id: its `_id`.
            filename, source, chunk_size_bytes, metadata, session, timeout_ms: as for
                `upload_from_stream`.

        Raises:
            FileExists: the `_id` belongs to another file, which is unchanged.
            PyMongoError: the upload failed; nothing of the file remains.

        Example:
            >>> bucket.upload_from_stream_with_id("greeting-1", "greeting", b"hello")
        """
        self = self._limited(timeout_ms)
        target = self._new_file({"_id": file_id}, filename, chunk_size_bytes, metadata, session)
        return self._port.flow(self._upload_with_id_flow(target, source))

    def _new_file(
        self,
        fields: dict[str, Any],
        filename: str,
        chunk_size_bytes: int | None,
        metadata: Mapping[str, Any] | None,
        session: _ClientSession | None,
    ) -> _GridIn:
        expect_instance("filename", filename, str)
        fields["filename"] = filename
        fields["chunk_size"] = self._chunk_size_bytes if chunk_size_bytes is None else chunk_size_bytes
        if metadata is not None:
            fields["metadata"] = metadata
        return self._in_class(self._collection, session=session, **fields)

    async def _upload_with_id_flow(self, target: _GridIn, source: Any) -> None:
        await target._whole_flow(source)

    # Downloads.

    def open_download_stream(
        self, file_id: Any, session: _ClientSession | None = None, *, timeout_ms: float | None = None
    ) -> FaceResult[_GridOut]:
        """Return the file with this `_id`, open for reading.

        Args:
            file_id: its `_id`.
            session: run inside this session, reads of the file included.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            NoFile: no file has this `_id`.

        Example:
            >>> bucket.open_download_stream(file_id).read(5)
            b'hello'
        """
        return self._run(timeout_ms, _GridFSBucket._open_flow, file_id, session)

    async def _open_flow(self, file_id: Any, session: _ClientSession | None) -> _GridOut:
        return await self._out_class(self._collection, file_id, session=session)._opened_flow()

    def open_download_stream_by_name(
        self,
        filename: str,
        revision: int = -1,
        session: _ClientSession | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[_GridOut]:
        """Return one revision of the file with this name, open for reading.

        Args:
            filename: its name.
            revision: 0 is the first upload, 1 the second; -1 is the last, -2 the one before.
            session, timeout_ms: as for `open_download_stream`.

        Raises:
            NoFile: no file has this name, or it has too few revisions.

        Example:
            >>> bucket.open_download_stream_by_name("greeting").read()
            b'hello'
        """
        expect_instance("filename", filename, str)
        return self._run(timeout_ms, _GridFSBucket._open_by_name_flow, filename, revision, session)

    async def _open_by_name_flow(
        self, filename: str, revision: int, session: _ClientSession | None
    ) -> _GridOut:
        file, first = await version_flow(
            self, filename, {"filename": filename}, revision, session, self._requests_chunks
        )
        return self._out_class(self._collection, file_document=file, session=session)._starting_with(first)

    def download(
        self,
        file_id: Any,
        connections: int = 1,
        session: _ClientSession | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[bytes]:
        """Return a whole file, read over several connections at once.

        Args:
            file_id: its `_id`.
            connections: the most connections to use; each reads a part of the file of at least a few megabytes.
            session: run inside this session, over one connection.
            timeout_ms: as for `open_download_stream`.

        Raises:
            NoFile: no file has this `_id`.
            CorruptGridFile: a chunk is damaged, or the file was replaced during the read.

        Example:
            >>> bucket.download(file_id, connections=2)
            b'hello'
        """
        return self._run(timeout_ms, _GridFSBucket._download_all_flow, file_id, connections, session)

    async def _download_all_flow(
        self, file_id: Any, connections: int, session: _ClientSession | None
    ) -> bytes:
        source = await self._open_flow(file_id, session)
        return await source._download_flow(connections, None)

    def download_to_stream(
        self,
        file_id: Any,
        destination: Any,
        session: _ClientSession | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[None]:
        """Write a whole file to `destination`, chunk by chunk.

        Args:
            file_id: its `_id`.
            destination: an object with `write`; on the asyncio face, `write` may be a coroutine function.
            session, timeout_ms: as for `open_download_stream`.

        Raises:
            NoFile: no file has this `_id`.
            CorruptGridFile: a chunk is damaged; earlier chunks were written.

        Example:
            >>> with open("photo.jpg", "wb") as destination:
            ...     bucket.download_to_stream(file_id, destination)
        """
        return self._run(timeout_ms, _GridFSBucket._download_flow, file_id, destination, session)

    async def _download_flow(self, file_id: Any, destination: Any, session: _ClientSession | None) -> None:
        await self._copy_flow(await self._open_flow(file_id, session), destination)

    def download_to_stream_by_name(
        self,
        filename: str,
        destination: Any,
        revision: int = -1,
        session: _ClientSession | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[None]:
        """Write one revision of the file with this name to `destination`, chunk by chunk.

        Args:
            filename, revision: as for `open_download_stream_by_name`.
            destination, session, timeout_ms: as for `download_to_stream`.

        Raises:
            NoFile: no file has this name, or it has too few revisions.
            CorruptGridFile: a chunk is damaged; earlier chunks were written.

        Example:
            >>> bucket.download_to_stream_by_name("photo.jpg", destination)
        """
        expect_instance("filename", filename, str)
        return self._run(
            timeout_ms, _GridFSBucket._download_by_name_flow, filename, destination, revision, session
        )

    async def _download_by_name_flow(
        self, filename: str, destination: Any, revision: int, session: _ClientSession | None
    ) -> None:
        await self._copy_flow(await self._open_by_name_flow(filename, revision, session), destination)

    async def _copy_flow(self, source: _GridOut, destination: Any) -> None:
        try:
            while piece := await source._read_chunk_flow():
                await self._port.call(destination.write, piece)
        finally:
            await source._close_flow()

    # Operations on whole files.

    def find(self, *args: Any, timeout_ms: float | None = None, **kwargs: Any) -> _GridOutCursor:
        """Return a cursor over the matching files, each open for reading. Sends nothing yet.

        Args:
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.
            *args, **kwargs: as for `GridOutCursor`, without the collection: `filter`, `skip`, `limit`,
                `no_cursor_timeout`, `sort`, `batch_size`, `session`.

        Example:
            >>> [file.filename for file in bucket.find({"length": {"$gt": 1024}}, batch_size=100)]
            ['photo.jpg']
        """
        self = self._limited(timeout_ms)
        return self._cursor_class(self._collection, *args, **kwargs)

    def delete(
        self, file_id: Any, session: _ClientSession | None = None, *, timeout_ms: float | None = None
    ) -> FaceResult[None]:
        """Remove a file and its chunks.

        Args:
            file_id: its `_id`.
            session: run inside this session.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            NoFile: no file has this `_id`; orphaned chunks with it are removed nevertheless.

        Example:
            >>> bucket.delete(file_id)
        """
        return self._run(timeout_ms, _GridFSBucket._delete_flow, [file_id], f"_id {file_id!r}", session)

    def delete_by_name(
        self, filename: str, session: _ClientSession | None = None, *, timeout_ms: float | None = None
    ) -> FaceResult[None]:
        """Remove every revision of the file with this name.

        Args:
            filename: the current name.
            session, timeout_ms: as for `delete`.

        Raises:
            NoFile: no file has this name.

        Example:
            >>> bucket.delete_by_name("greeting")
        """
        return self._run(timeout_ms, _GridFSBucket._delete_by_name_flow, filename, session)

    async def _delete_by_name_flow(self, filename: str, session: _ClientSession | None) -> None:
        cursor = self._files.find({"filename": filename}, {"_id": 1}, session=session)
        ids = [file["_id"] for file in await cursor._to_list_flow(None)]
        await self._delete_flow(ids, f"filename {filename!r}", session)

    async def _delete_flow(self, ids: list[Any], which: str, session: _ClientSession | None) -> None:
        # File documents are removed first, so that a concurrent reader notices that the file is gone.
        wanted = {"$eq": ids[0]} if len(ids) == 1 else {"$in": ids}
        # Deleting one document is a retryable command.
        delete = self._files.delete_one if len(ids) == 1 else self._files.delete_many
        result = await self._port.call(lambda: delete({"_id": wanted}, session=session))
        await self._port.call(lambda: self._chunks.delete_many({"files_id": wanted}, session=session))
        if not result.deleted_count:
            raise NoFile(f"no file could be deleted because none matched {which}")

    def rename(
        self,
        file_id: Any,
        new_filename: str,
        session: _ClientSession | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[None]:
        """Rename a file.

        Args:
            file_id: its `_id`.
            new_filename: the new name; other files may have it too.
            session, timeout_ms: as for `delete`.

        Raises:
            NoFile: no file has this `_id`.

        Example:
            >>> bucket.rename(file_id, "farewell")
        """
        filter, which = {"_id": {"$eq": file_id}}, f"file_id {file_id!r}"
        return self._run(timeout_ms, _GridFSBucket._rename_flow, filter, new_filename, which, session)

    def rename_by_name(
        self,
        filename: str,
        new_filename: str,
        session: _ClientSession | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[None]:
        """Rename every revision of the file with this name.

        Args:
            filename: the current name.
            new_filename: the new name.
            session, timeout_ms: as for `delete`.

        Raises:
            NoFile: no file has this name.

        Example:
            >>> bucket.rename_by_name("greeting", "farewell")
        """
        filter, which = {"filename": filename}, f"filename {filename!r}"
        return self._run(timeout_ms, _GridFSBucket._rename_flow, filter, new_filename, which, session)

    async def _rename_flow(
        self, filter: dict[str, Any], new_filename: str, which: str, session: _ClientSession | None
    ) -> None:
        renamed = {"$set": {"filename": new_filename}}
        # Updating one document is retryable too.
        update = self._files.update_one if "_id" in filter else self._files.update_many
        result = await self._port.call(lambda: update(filter, renamed, session=session))
        if not result.matched_count:
            raise NoFile(f"no files could be renamed {new_filename!r} because none matched {which}")
