"""GridFS with the older, dictionary-like interface: put, get, versions. One definition for both faces."""

from __future__ import annotations

from collections.abc import Mapping

from mangonel._arguments import told_by_public_name
from mangonel._light import Any
from mangonel._shared.face_result import FaceResult
from mangonel._shared.of_this_process import OfThisProcess
from mangonel.gridfs._names import root_of_bucket
from mangonel.gridfs._versions import version_flow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mangonel._shared.client.database import _Database
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.gridfs._cursor import _GridOutCursor
    from mangonel.gridfs._grid_in import _GridIn
    from mangonel.gridfs._grid_out import _GridOut


@told_by_public_name
class _GridFS(OfThisProcess):
    """Files of any size in a database, each cut into chunks. The older interface; see also `GridFSBucket`.

    Args:
        database: the database that holds the files; its write concern must be acknowledged.
        collection: name of the bucket, the prefix of its two collections.

    Raises:
        TypeError: `database` is not a database.
        ConfigurationError: its write concern is 0.

    Example:
        >>> fs = GridFS(client.shop)
        >>> fs.get(fs.put(b"hello", filename="greeting")).read()
        b'hello'
    """

    _instead = "make it there, of a database of that process"
    _is_async = False
    _in_class: type[_GridIn]
    _out_class: type[_GridOut]
    _cursor_class: type[_GridOutCursor]

    def __init__(self, database: _Database[Any], collection: str = "fs") -> None:
        self._collection = root_of_bucket(database, collection, self._is_async)
        self._port = self._collection._port
        self._files = self._collection["files"]
        self._chunks = self._collection["chunks"]

    def new_file(self, **kwargs: Any) -> _GridIn:
        """Open a new file for writing. Sends nothing yet.

        Args:
            **kwargs: as for `GridIn`: `_id`, `filename`, `chunk_size`, `metadata`, `session` and any other field.

        Example:
            >>> with fs.new_file(filename="greeting") as target:
            ...     target.write(b"hello")
        """
        return self._in_class(self._collection, **kwargs)

    def put(self, data: Any, **kwargs: Any) -> FaceResult[Any]:
        """Store `data` as a new file and return its `_id`.

        Args:
            data: bytes, a file object, or, with an `encoding`, a str.
            **kwargs: as for `new_file`.

        Raises:
            FileExists: the given `_id` belongs to another file.
            PyMongoError: the upload failed; nothing of the file remains.

        Example:
            >>> fs.put(b"hello", filename="greeting")
            ObjectId('...')
        """
        return self._port.flow(self._put_flow(data, kwargs))

    async def _put_flow(self, data: Any, fields: dict[str, Any]) -> Any:
        return await self._in_class(self._collection, **fields)._whole_flow(data)

    def get(self, file_id: Any, session: _ClientSession | None = None) -> FaceResult[_GridOut]:
        """Return the file with this `_id`, open for reading.

        Args:
            file_id: its `_id`.
            session: run inside this session, reads of the file included.

        Raises:
            NoFile: no such file.

        Example:
            >>> fs.get(file_id).read()
            b'hello'
        """
        return self._port.flow(self._out_class(self._collection, file_id, session=session)._opened_flow())

    def get_version(
        self,
        filename: str | None = None,
        version: int | None = -1,
        session: _ClientSession | None = None,
        **kwargs: Any,
    ) -> FaceResult[_GridOut]:
        """Return one revision of the file with this name or these fields, open for reading.

        Args:
            filename: its name; None for any.
            version: 0 is the first upload, 1 the second; -1 (or None) is the last, -2 the one before.
            session: run inside this session.
            **kwargs: further fields that the file's document must have.

        Raises:
            NoFile: the file has too few revisions.

        Example:
            >>> fs.get_version("greeting", -2)
        """
        query = kwargs
        if filename is not None:
            query["filename"] = filename
        return self._port.flow(self._get_version_flow(filename, query, version, session))

    async def _get_version_flow(
        self, filename: str | None, query: dict[str, Any], version: int | None, session: _ClientSession | None
    ) -> _GridOut:
        version = -1 if version is None else version
        file, first = await version_flow(self, filename, query, version, session)
        return self._out_class(self._collection, file_document=file, session=session)._starting_with(first)

    def get_last_version(
        self, filename: str | None = None, session: _ClientSession | None = None, **kwargs: Any
    ) -> FaceResult[_GridOut]:
        """Return the newest file with this name or these fields, open for reading.

        Args:
            filename, session, **kwargs: as for `get_version`.

        Raises:
            NoFile: no such file.

        Example:
            >>> fs.get_last_version("greeting").read()
            b'hello'
        """
        return self.get_version(filename, -1, session, **kwargs)

    def delete(self, file_id: Any, session: _ClientSession | None = None) -> FaceResult[None]:
        """Remove a file and its chunks. Does nothing if the file does not exist.

        Args:
            file_id: its `_id`.
            session: run inside this session.

        Raises:
            OperationFailure: the server refused.
            AutoReconnect: the connection broke. The chunks may still exist; calling `delete` again removes them.

        Example:
            >>> fs.delete(file_id)
        """
        return self._port.flow(self._delete_flow(file_id, session))

    async def _delete_flow(self, file_id: Any, session: _ClientSession | None) -> None:
        # The file's document is removed first, so that a concurrent reader notices that the file is gone.
        await self._port.call(lambda: self._files.delete_one({"_id": {"$eq": file_id}}, session=session))
        await self._port.call(
            lambda: self._chunks.delete_many({"files_id": {"$eq": file_id}}, session=session)
        )

    def list(self, session: _ClientSession | None = None) -> FaceResult[list[str]]:
        """Return the names of all files, each once.

        Args:
            session: run inside this session.

        Raises:
            OperationFailure: the server refused.

        Example:
            >>> fs.list()
            ['greeting']
        """
        return self._port.flow(self._list_flow(session))

    async def _list_flow(self, session: _ClientSession | None) -> Any:
        names = await self._port.call(lambda: self._files.distinct("filename", session=session))
        # `distinct` also returns None, for files without a name.
        return [name for name in names if name is not None]

    def find_one(
        self, filter: Any = None, session: _ClientSession | None = None, *args: Any, **kwargs: Any
    ) -> FaceResult[_GridOut | None]:
        """Return the first file that matches, open for reading, or None.

        Args:
            filter: query document over the files' documents; anything that is not a mapping is taken as `_id`.
            session: run inside this session.
            *args, **kwargs: as for `find`, after its filter.

        Raises:
            OperationFailure: the server refused.

        Example:
            >>> fs.find_one({"filename": "greeting"}).read()
            b'hello'
        """
        if filter is not None and not isinstance(filter, Mapping):
            filter = {"_id": {"$eq": filter}}
        return self.find(filter, *args, session=session, **kwargs)._find_one()

    def find(self, *args: Any, **kwargs: Any) -> _GridOutCursor:
        """Return a cursor over the matching files, each open for reading. Sends nothing yet.

        Args:
            *args, **kwargs: as for `GridOutCursor`, without the collection: `filter`, `skip`, `limit`,
                `no_cursor_timeout`, `sort`, `batch_size`, `session`.

        Example:
            >>> [file.filename for file in fs.find({"length": {"$gt": 1024}}).sort("uploadDate", -1)]
            ['photo']
        """
        return self._cursor_class(self._collection, *args, **kwargs)

    def exists(
        self, document_or_id: Any = None, session: _ClientSession | None = None, **kwargs: Any
    ) -> FaceResult[bool]:
        """Return whether a file matches.

        Args:
            document_or_id: query document over the files' documents, or an `_id`.
            session: run inside this session.
            **kwargs: fields of the file's document, instead of `document_or_id`.

        Raises:
            OperationFailure: the server refused.

        Example:
            >>> fs.exists(filename="greeting")
            True
        """
        query: Any = kwargs or document_or_id
        if query is not None and not isinstance(query, Mapping):
            query = {"_id": {"$eq": query}}
        return self._port.flow(self._exists_flow(query, session))

    async def _exists_flow(self, query: Any, session: _ClientSession | None) -> bool:
        found = await self._port.call(lambda: self._files.find_one(query, ["_id"], session=session))
        return found is not None
