"""Reads one file over several connections: each receives a range of chunks directly into its part of the result.

All requests are sent before the first reply is received; then the connections take turns, one batch each. So the
server's threads work in parallel while one thread, or one task, receives. Spec: gridfs (file download).
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from mangonel import _core
from mangonel._light import Any
from mangonel._shared.settings import session_of
from mangonel.gridfs._download import ChunkStream
from mangonel.gridfs._names import size_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.gridfs._opening import FirstBatch

# Below this size a further connection costs more than it gains.
LEAST_SHARE = 4 * 1024 * 1024


async def fill_flow(
    root: _Collection[Any],
    file: Mapping[str, Any],
    position: int,
    target: _core.ChunkTarget,
    connections: int,
    session: _ClientSession | None,
    first: FirstBatch | None,
) -> None:
    """Fill `target` with the file's bytes from `position` to its end.

    `first`: the file's first chunks, if they came with its document.

    Raises:
        CorruptGridFile: a chunk is damaged, or the file was replaced during the read.
    """
    chunk_size = size_in(file, "chunkSize")
    ends = _ends(position, position + target.size, chunk_size, connections)
    has_all = first is not None and first.is_whole
    if has_all or len(ends) < 2 or session_of(root._port, session) is not None:
        stream = ChunkStream(root, file, position, None, session, first)
        await stream.fill_flow(target)
        await stream.check_end_flow()
        return
    # The parts need no cursor over the whole file.
    root._client._keeps_opening_cursor = False
    parts = target.split([end - position for end in ends])
    starts = [position, *ends[:-1]]
    lasts = [*ends[:-1], None]
    streams = [ChunkStream(root, file, start, last) for start, last in zip(starts, lasts, strict=True)]
    try:
        for stream, part in zip(streams, parts, strict=True):
            stream.begin(part)
        turns = deque(zip(streams, parts, strict=True))
        while turns:
            stream, part = turns.popleft()
            if await stream.step_flow(part):
                turns.append((stream, part))
            else:
                await stream.end_flow()
        for earlier, later in pairwise(streams):
            await later.compare_flow(earlier)
    except BaseException:
        for stream in streams:
            stream.drop()
        raise
    target.join(parts)


def _ends(start: int, stop: int, chunk_size: int, connections: int) -> list[int]:
    """Return the ends of the parts: all but the last lie on chunk boundaries."""
    shares = min(connections, (stop - start) // LEAST_SHARE)
    if chunk_size < 1 or shares < 2:
        return [stop]
    first, last = start // chunk_size, -(-stop // chunk_size)
    cuts = [first + (last - first) * share // shares for share in range(1, shares)]
    return [*(cut * chunk_size for cut in sorted(set(cuts)) if start < cut * chunk_size < stop), stop]
