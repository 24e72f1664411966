"""Revisions of a file, in the order of their uploads. Spec: gridfs (revisions)."""

from __future__ import annotations

from mangonel._arguments import expect
from mangonel._light import Any
from mangonel.gridfs.errors import NoFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.sessions.session import _ClientSession


async def version_flow(
    files: _Collection[Any],
    filename: str | None,
    query: Mapping[str, Any],
    version: int,
    session: _ClientSession | None,
) -> Any:
    """Return the file document of one revision: 0 is the first upload, -1 the last.

    Raises:
        NoFile: the file has too few revisions.
    """
    expect("version", version, int, "an int")
    cursor = files.find(query, session=session)
    if version < 0:
        cursor.limit(-1).skip(-version - 1).sort("uploadDate", -1)
    else:
        cursor.limit(-1).skip(version).sort("uploadDate", 1)
    found = await cursor._next_or_none_flow()
    if found is None:
        raise NoFile(f"no version {version} for filename {filename!r}")
    return found
