"""The public classes of GridFS: each joins a definition with a face. No logic lives here.

`api.pyi` is written by `tools/stubs.py`; run `make stubs` after changing a signature.
"""

from __future__ import annotations

from mangonel import _api
from mangonel._core import AsyncCursorBase, BlockingCursor
from mangonel._shared.coroutine_functions import coroutine_functions
from mangonel.gridfs._bucket import _GridFSBucket
from mangonel.gridfs._cursor import _GridOutCursor
from mangonel.gridfs._grid_fs import _GridFS
from mangonel.gridfs._grid_in import _GridIn
from mangonel.gridfs._grid_out import _GridOut
from mangonel.gridfs._iteration import (
    AsyncFiles,
    AsyncReading,
    AsyncWriting,
    BlockingFiles,
    BlockingReading,
    BlockingWriting,
)


class GridIn(BlockingWriting, _GridIn): ...


@coroutine_functions
class AsyncGridIn(AsyncWriting, _GridIn):
    _is_async = True


class GridOut(_GridOut, BlockingReading): ...


@coroutine_functions
class AsyncGridOut(AsyncReading, _GridOut):
    _is_async = True


class GridOutCursor(BlockingFiles, _GridOutCursor, BlockingCursor):
    _file_class = GridOut


@coroutine_functions
class AsyncGridOutCursor(AsyncFiles, _GridOutCursor, AsyncCursorBase):
    _is_async = True
    _file_class = AsyncGridOut


class GridFS(_GridFS):
    _in_class = GridIn
    _out_class = GridOut
    _cursor_class = GridOutCursor


@coroutine_functions
class AsyncGridFS(_GridFS):
    _is_async = True
    _in_class = AsyncGridIn
    _out_class = AsyncGridOut
    _cursor_class = AsyncGridOutCursor


class GridFSBucket(_GridFSBucket):
    _in_class = GridIn
    _out_class = GridOut
    _cursor_class = GridOutCursor


@coroutine_functions
class AsyncGridFSBucket(_GridFSBucket):
    _is_async = True
    _in_class = AsyncGridIn
    _out_class = AsyncGridOut
    _cursor_class = AsyncGridOutCursor


_api.publish(vars(), "mangonel.gridfs.api")
