"""Revisions of a file, in the order of their uploads. Spec: gridfs (revisions)."""

from __future__ import annotations

from mangonel._arguments import expect
from mangonel._light import Any
from mangonel.gridfs._opening import may_open, opening_version_flow
from mangonel.gridfs.errors import NoFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.gridfs._bucket import _GridFSBucket
    from mangonel.gridfs._grid_fs import _GridFS
    from mangonel.gridfs._opening import FirstBatch


async def version_flow(
    files: _GridFSBucket | _GridFS,
    filename: str | None,
    query: Mapping[str, Any],
    version: int,
    session: _ClientSession | None,
    requests_chunks: bool = True,
) -> tuple[Any, FirstBatch | None]:
    """Return the file document of one revision, and its first chunks if they are requested and the server is far away.

    Revision 0 is the first upload, -1 the last.

    Raises:
        NoFile: the file has too few revisions.
    """
    expect("version", version, int, "an int")
    order, skip = (-1, -version - 1) if version < 0 else (1, version)
    opened = None
    # A database of another package has a port that is not far, and a root without one.
    if requests_chunks and may_open(files._port, session):
        opened = await opening_version_flow(files._collection, query, order, skip, session)
    if opened is None:
        cursor = files._files.find(query, session=session).limit(-1).skip(skip).sort("uploadDate", order)
        opened = await cursor._next_or_none_flow(), None
    if opened[0] is None:
        raise NoFile(f"no version {version} for filename {filename!r}")
    return opened
