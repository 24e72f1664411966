"""The cursor over a bucket's files: it returns open files instead of file documents."""

from __future__ import annotations

from mangonel._arguments import told_by_public_name
from mangonel._light import Any
from mangonel._shared.cursors.find_cursor import _Cursor
from mangonel._shared.face_result import FaceResult
from mangonel.gridfs._names import check_root, without_custom_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.gridfs._grid_out import _GridOut
    from mangonel.typings import _IndexList


@told_by_public_name
class _GridOutCursor(_Cursor[Any]):
    """The files that match a query, each open for reading. Made by `GridFS.find` and `GridFSBucket.find`.

    Args:
        collection: the bucket's root collection, such as `database.fs`.
        filter: query document over the files' documents; None matches all.
        skip, limit, no_cursor_timeout, sort, batch_size: as for `Cursor`.
        session: run inside this session, reads of the files included.

    Example:
        >>> for file in bucket.find({"metadata.kind": "photo"}).sort("uploadDate", -1):
        ...     print(file.filename, file.length)
    """

    _is_async = False
    _file_class: type[_GridOut]

    def __init__(
        self,
        collection: _Collection[Any],
        filter: Mapping[str, Any] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        sort: _IndexList | None = None,
        batch_size: int = 0,
        session: _ClientSession | None = None,
    ) -> None:
        check_root(collection, self._is_async)
        self._root = without_custom_types(collection)
        self._own_session = session
        super().__init__(
            self._root["files"],
            filter,
            skip=skip,
            limit=limit,
            no_cursor_timeout=no_cursor_timeout,
            sort=sort,
            batch_size=batch_size,
            session=session,
        )

    def _file_of(self, document: Any) -> Any:
        return self._file_class(self._root, file_document=document, session=self._own_session)

    async def _next_or_none_flow(self) -> Any:
        document = await super()._next_or_none_flow()
        return None if document is None else self._file_of(document)

    async def _to_list_flow(self, length: int | None) -> list[Any]:
        return [self._file_of(document) for document in await super()._to_list_flow(length)]

    def _clone(self, deep: bool) -> Any:
        copy = type(self)(self._root, session=self._own_session)
        self._copy_query(copy, deep)
        return copy

    def add_option(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise NotImplementedError: a cursor over files takes its options only as arguments.

        Args:
            *args, **kwargs: ignored.

        Raises:
            NotImplementedError: always.

        Example:
            >>> bucket.find().add_option(16)
            Traceback (most recent call last):
                ...
            NotImplementedError: ...
        """
        raise NotImplementedError("Method does not exist for GridOutCursor")

    def remove_option(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise NotImplementedError, as `add_option` does.

        Args:
            *args, **kwargs: ignored.
        """
        raise NotImplementedError("Method does not exist for GridOutCursor")

    def to_list(self, length: int | None = None) -> FaceResult[list[_GridOut]]:
        """Return the remaining files, at most `length`.

        Raises:
            ValueError: `length` is below 1.

        Example:
            >>> bucket.find().to_list(2)
            [<GridOut ObjectId('...')>, <GridOut ObjectId('...')>]
        """
        return super().to_list(length)
