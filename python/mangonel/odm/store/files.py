"""Files of documents: a field that stores the id of a file in GridFS. Spec: gridfs."""

from __future__ import annotations

from typing import Any

from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import FileTwins
from mangonel.odm.connections.connection import connection


class File(FileTwins):
    """A file in GridFS. A document stores only its id.

    Args:
        id: id of a stored file.
        bucket: name of its bucket.
        alias: alias of its connection.

    Example:
        >>> class User(Document):
        ...     photo: File | None = None
        >>> user.photo = File.put(b"...", "ada.png")
        >>> user.save().photo.read()
        b'...'
    """

    __slots__ = ("alias", "bucket", "id")

    def __init__(self, id: Any, bucket: str = "fs", alias: str = "default") -> None:
        self.id = id
        self.bucket = bucket
        self.alias = alias

    @classmethod
    def __from_bson__(cls, value: Any) -> File:
        return cls(value)

    def __to_bson__(self) -> Any:
        return self.id

    @classmethod
    @terminal
    def put(
        cls, data: Any, name: str = "", *, metadata: Any = None, bucket: str = "fs", alias: str = "default"
    ) -> File:
        """Store bytes, or the rest of a binary file object, as a file; return it.

        Args:
            data: bytes or a binary file object.
            name: name of the file.
            metadata: a document to store with it.
            bucket: name of its bucket.
            alias: alias of its connection.

        Example:
            >>> File.put(b"hello", "greeting.txt").read()
            b'hello'
        """
        store = bucket_of(bucket, alias, IS_ASYNC)

        async def put_flow() -> File:
            id = await store._port.call(store.upload_from_stream, name, data, metadata=metadata)
            return cls(id, bucket, alias)

        return store._port.flow(put_flow())

    @terminal
    def read(self) -> bytes:
        """Return the whole file.

        Raises:
            NoFile: the file does not exist.
        """
        return bucket_of(self.bucket, self.alias, IS_ASYNC).download(self.id)

    @terminal
    def delete(self) -> None:
        """Delete the file. The field keeps its id."""
        return bucket_of(self.bucket, self.alias, IS_ASYNC).delete(self.id)

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, File) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"File({self.id!r})"


def bucket_of(name: str, alias: str, is_async: bool) -> Any:
    """Return a bucket of a connection's database."""
    from mangonel import gridfs

    kind: Any = gridfs.AsyncGridFSBucket if is_async else gridfs.GridFSBucket
    return kind(connection(alias).database(is_async), bucket_name=name)
