"""A new file, open for writing. One definition for both faces. Spec: gridfs (file upload)."""

from __future__ import annotations

from mangonel._arguments import expect, told_by_public_name
from mangonel._light import Any, Iterable
from mangonel._shared.face_result import FaceResult
from mangonel.bson.objectid import ObjectId
from mangonel.errors import ConfigurationError, InvalidOperation, PyMongoError
from mangonel.gridfs._in_use import OneAtATime
from mangonel.gridfs._names import DEFAULT_CHUNK_SIZE, check_root, warn_deprecated, without_custom_types
from mangonel.gridfs._upload import ChunkSender
from mangonel.read_preferences import ReadPreference

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    from typing import NoReturn

    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.sessions.session import _ClientSession


@told_by_public_name
class _GridIn(OneAtATime):
    """A new file, open for writing. Readers see it only after `close`.

    Made by `GridFS.new_file` and `GridFSBucket.open_upload_stream`. Attributes that you set become fields of the file's
    document. An exception inside a `with` block removes the chunks sent so far.

    Args:
        root_collection: the bucket's root collection, such as `database.fs`.
        session: run inside this session. In a transaction the file appears with the commit.
        **kwargs: fields of the file's document: `_id`, `filename`, `metadata`, `chunkSize` (or `chunk_size`),
            `contentType` (or `content_type`), `encoding` for writing str, and any other.

    Example:
        >>> with fs.new_file(filename="greeting") as target:
        ...     target.write(b"hello")
    """

    _instead = "write it here, or pass the bytes"
    _is_async = False

    def __init__(
        self, root_collection: _Collection[Any], session: _ClientSession | None = None, **kwargs: Any
    ) -> None:
        check_root(root_collection, self._is_async)
        if not root_collection.write_concern.acknowledged:
            raise ConfigurationError("root_collection must use acknowledged write_concern")
        for ours, stored in (("content_type", "contentType"), ("chunk_size", "chunkSize")):
            if ours in kwargs:
                kwargs[stored] = kwargs.pop(ours)
        is_own_id = "_id" not in kwargs
        if is_own_id:
            kwargs["_id"] = ObjectId()
        kwargs.setdefault("chunkSize", DEFAULT_CHUNK_SIZE)
        root = without_custom_types(root_collection, ReadPreference.PRIMARY)
        keep = super().__setattr__
        keep("_port", root._port)
        keep("_files", root["files"])
        keep("_file", kwargs)
        keep("_session", session)
        keep("_closed", False)
        keep("_failure", None)
        keep("_is_stored", False)
        # Client state at the start of the upload: a forked child must not end its parent's upload.
        keep("_began_in", root._client._abandoned_cursors)
        size = int(expect("chunk_size", kwargs["chunkSize"], (int, float), "bytes"))
        keep("_sender", ChunkSender(root, kwargs["_id"], size, is_own_id, session))

    if TYPE_CHECKING:
        _port: Any
        _files: Any
        _file: dict[str, Any]
        _session: _ClientSession | None
        _closed: bool
        _failure: PyMongoError | None
        _is_stored: bool
        _began_in: Any
        _sender: ChunkSender

    # The file's document.

    @property
    def closed(self) -> bool:
        """Whether the file was closed or aborted."""
        return self._closed

    @property
    def _id(self) -> Any:
        """The file's `_id`."""
        return self._file["_id"]

    @property
    def filename(self) -> str | None:
        """The file's name."""
        return self._file.get("filename")

    @filename.setter
    def filename(self, value: str | None) -> None:
        self._assign("filename", value)

    @property
    def name(self) -> str | None:
        """The same as `filename`."""
        return self._file.get("filename")

    @name.setter
    def name(self, value: str | None) -> None:
        self._assign("filename", value)

    @property
    def content_type(self) -> str | None:
        """Deprecated: the file's type; new files keep it in `metadata`."""
        warn_deprecated("GridIn", "contentType")
        return self._file.get("contentType")

    @content_type.setter
    def content_type(self, value: str | None) -> None:
        warn_deprecated("GridIn", "contentType")
        self._assign("contentType", value)

    @property
    def chunk_size(self) -> int:
        """How many bytes each chunk has, except the last."""
        return self._file["chunkSize"]

    @property
    def length(self) -> int:
        """How many bytes the file has, once it is closed."""
        self._check_closed("length")
        return self._file.get("length", 0)

    @property
    def upload_date(self) -> datetime.datetime | None:
        """When the upload was complete, once the file is closed."""
        self._check_closed("uploadDate")
        return self._file.get("uploadDate")

    @property
    def md5(self) -> str | None:
        """Deprecated: the digest that the caller passed, if any; the driver computes none."""
        warn_deprecated("GridIn", "md5")
        self._check_closed("md5")
        return self._file.get("md5")

    def _check_closed(self, name: str) -> None:
        if not self._closed:
            raise AttributeError(f"can only get {name!r} on a closed file")

    def __getattr__(self, name: str) -> Any:
        file = self.__dict__.get("_file", {})
        if name in file:
            return file[name]
        if isinstance(getattr(type(self), name, None), property):
            # The property raised AttributeError, so Python calls `__getattr__` for the same name.
            self._check_closed(name)
        raise AttributeError(f"{type(self).__name__} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__ or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            self._assign(name, value)

    def _assign(self, name: str, value: Any) -> None:
        if self._closed and self._is_async:
            raise AttributeError(
                f"cannot set {name!r} of a closed file without waiting; use `await file.set({name!r}, value)`"
            )
        self._port.flow(self._set_flow(name, value)) if self._closed else self._file.__setitem__(name, value)

    def set(self, name: str, value: Any) -> FaceResult[None]:
        """Set a field of the file's document; if the file is closed, on the server too.

        Args:
            name: the field.
            value: the value to store.

        Raises:
            OperationFailure: the file is closed, and the server refused the update.

        Example:
            >>> target.set("status", "checked")
        """
        return self._port.flow(self._set_flow(expect("name", name, str, "the name of a field"), value))

    async def _set_flow(self, name: str, value: Any) -> None:
        self._file[name] = value
        if self._closed:
            update = {"$set": {name: value}}
            await self._port.call(
                lambda: self._files.update_one(
                    {"_id": {"$eq": self._file["_id"]}}, update, session=self._session
                )
            )

    # Writing.

    def _refuse_second(self) -> NoReturn:
        raise InvalidOperation(
            "another task or thread is writing to this file; write it in one, and pass the bytes to that by a queue"
        )

    def write(self, data: Any) -> FaceResult[None]:
        """Write bytes. They are sent in inserts of a few megabytes while you write more.

        Args:
            data: bytes or another buffer; a str if the file has an `encoding`; or a file object, which is read to its
                end. On the asyncio face its `read` may be a coroutine function.

        Raises:
            ValueError: the file is closed.
            TypeError: `data` has another type. Nothing was written.
            FileExists: the id belongs to another file. The upload is aborted.
            PyMongoError: chunks could not be stored. The upload is aborted and its chunks are removed, as by `close`.

        Example:
            >>> target.write(b"hello")
        """
        return self._port.flow(self._alone_flow(self._write_flow, data))

    def _is_parents(self) -> bool:
        """Return whether the upload began in a process of which this one is a forked child."""
        return self._began_in is not self._sender._root._client._abandoned_cursors

    def _check_process(self) -> None:
        if self._is_parents():
            raise InvalidOperation(
                "expected the process that began this upload, got a forked child; write the file in one process, or "
                "begin another upload here"
            )

    async def _whole_flow(self, data: Any) -> Any:
        """Write the whole file and close it; return its `_id`."""
        self._sender.write_at_once()
        await self._write_flow(data)
        await self._close_flow()
        return self._id

    async def _write_flow(self, data: Any) -> None:
        if self._closed:
            raise ValueError("cannot write to a closed file")
        self._check_process()
        read = getattr(data, "read", None)
        if read is None:
            data = self._bytes_of(data)
        try:
            if read is None:
                await self._sender.write_flow(data)
            else:
                while not self._closed and (piece := await self._port.call(read, self._sender.room)):
                    await self._sender.write_flow(piece)
                    # The source may be read over the same client.
                    await self._sender.finish_check_flow()
            if self._closed:
                raise _aborted()
        except GeneratorExit:
            self._lose()
            raise
        except BaseException as error:
            if isinstance(error, PyMongoError):
                # `close` must raise the error too, for callers that check only `close`.
                self._failure = error
            await self._give_up_flow(error)
            raise

    def _bytes_of(self, data: Any) -> Any:
        if isinstance(data, str):
            encoding = self._file.get("encoding")
            if encoding is None:
                raise TypeError("must specify an encoding for file in order to write str")
            return data.encode(encoding)
        if isinstance(data, (bytes, bytearray, memoryview)):
            return data
        try:
            return memoryview(data)
        except TypeError:
            raise TypeError("can only write strings or file-like objects") from None

    def writelines(self, sequence: Iterable[Any]) -> FaceResult[None]:
        """Write each item of `sequence`; no separators are added. Raises as `write` does.

        Example:
            >>> target.writelines([b"one\\n", b"two\\n"])
        """
        lines = expect("sequence", sequence, Iterable, "pieces of the file")
        return self._port.flow(self._alone_flow(self._write_lines_flow, lines))

    async def _write_lines_flow(self, sequence: Iterable[Any]) -> None:
        for line in sequence:
            await self._write_flow(line)

    # The end.

    def close(self) -> FaceResult[None]:
        """Send the rest and store the file's document; then the file exists. Closing twice does nothing.

        Raises:
            FileExists: the id belongs to another file. The upload is aborted.
            PyMongoError: this call or an earlier `write` failed. The upload is aborted and its chunks are removed. A
                note tells if parts may be left or arrive later: a standalone cannot refuse a late insert. Chunks stay
                if the file's document may still arrive.

        Example:
            >>> target.close()
        """
        return self._port.flow(self._alone_flow(self._close_flow))

    async def _close_flow(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if self._closed:
            return
        self._check_process()
        import datetime

        from mangonel.bson.int64 import Int64

        try:
            await self._sender.finish_flow()
            self._file["length"] = Int64(self._sender.length)
            self._file["uploadDate"] = datetime.datetime.now(tz=datetime.UTC)
            await self._sender.store_flow(self._files, self._file)
            if self._closed:
                raise _aborted()
        except GeneratorExit:
            self._lose()
            raise
        except BaseException as error:
            await self._give_up_flow(error)
            raise
        self._is_stored = True
        self._closed = True

    def abort(self) -> FaceResult[None]:
        """Abort the upload and remove its chunks; if the file is closed, remove the file.

        If another task or thread is writing to the file or closing it, that call removes the chunks and raises
        ValueError.

        Raises:
            PyMongoError: the closed file or chunks could not be removed, or may still arrive.

        Example:
            >>> target.abort()
        """
        return self._port.flow(self._abort_flow())

    async def _abort_flow(self) -> None:
        if not self._is_stored:
            await self._leave_flow()
            return
        file_id, session = self._file["_id"], self._session
        await self._port.call(lambda: self._files.delete_one({"_id": {"$eq": file_id}}, session=session))
        await self._port.call(
            lambda: self._sender._chunks.delete_many({"files_id": {"$eq": file_id}}, session=session)
        )

    async def _leave_flow(self, error: BaseException | None = None) -> None:
        if self._is_in_use or self._is_parents():
            # The running call, or the parent, knows what it has sent, and cleans up.
            self._closed = True
        elif not self._closed:
            await self._give_up_flow(error)

    async def _give_up_flow(self, error: BaseException | None = None) -> None:
        self._closed = True
        left = await self._sender.discard_flow()
        if left is not None:
            (error or left).add_note(
                f"the server may keep or still store parts of the GridFS file {self._id!r}; delete() removes them, "
                "unless another file has this _id"
            )
            if error is None:
                raise left

    # Methods of file objects.

    def read(self, size: int = -1) -> NoReturn:
        """Raise UnsupportedOperation: the file is open for writing.

        Raises:
            io.UnsupportedOperation: always.

        Example:
            >>> target.read()
            Traceback (most recent call last):
                ...
            io.UnsupportedOperation: ...
        """
        import io

        raise io.UnsupportedOperation("read")

    def readable(self) -> bool:
        """Return False."""
        return False

    def seekable(self) -> bool:
        """Return False."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def writeable(self) -> bool:
        """Return True; PyMongo's spelling."""
        return True

    def _lose(self) -> None:
        """Close the file after its event loop has ended: waiting is impossible, so the chunks stay."""
        self._warn_of_chunks()
        self._closed = True

    def __del__(self) -> None:
        # I/O is not safe in a finalizer, so the chunks stay.
        if "_sender" in self.__dict__ and not self._closed and not self._is_parents():
            self._warn_of_chunks()

    def _warn_of_chunks(self) -> None:
        if not self._sender.length:
            return
        try:
            import warnings
        except ImportError:
            # The interpreter is shutting down, and its modules are gone.
            return
        warnings.warn(
            f"unclosed upload of the GridFS file {self._id!r}: it was neither closed nor aborted, so the file does not "
            "exist and chunks of it may stay on the server; use `with`, close() or abort()",
            ResourceWarning,
            source=self,
            stacklevel=3,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__dict__.get('_file', {}).get('_id')!r}>"


def _aborted() -> ValueError:
    return ValueError(
        "the upload was aborted by another task or thread while this one wrote to it; nothing of it is stored"
    )
