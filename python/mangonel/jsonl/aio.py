"""JSON lines on asyncio: threads read, parse and write files; the loop sends and receives documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import IO, Any

from mangonel.jsonl.in_thread import run_in_thread
from mangonel.jsonl.reading import Imported, import_jsonl
from mangonel.jsonl.writing import Exported, export_jsonl

__all__ = ["aexport_jsonl", "aimport_jsonl"]


async def aimport_jsonl(
    collection: Any,
    source: str | os.PathLike[str],
    *,
    threads: int = 2,
    skip_errors: bool = False,
    resume: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Like `import_jsonl`, on the asyncio face. When cancelled, it ends after the inserts in flight.

    Args:
        collection: a collection of the asyncio face.
        source: the file.
        threads: how many threads parse, and how many inserts are in flight.
        skip_errors, resume: as for `import_jsonl`.
        progress: called in the loop with the bytes and lines done so far.

    Raises:
        JSONLinesError, OSError, OperationFailure, AutoReconnect: as for `import_jsonl`.
    """
    return await run_in_thread(
        import_jsonl,
        collection,
        source,
        threads=threads,
        skip_errors=skip_errors,
        resume=resume,
        progress=progress,
    )


async def aexport_jsonl(
    collection: Any,
    target: str | os.PathLike[str] | IO[bytes],
    *,
    filter: Mapping[str, Any] | None = None,
    projection: Any = None,
    mode: str = "canonical",
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Like `export_jsonl`, on the asyncio face. When cancelled, it ends after the current batch.

    Args:
        collection: a collection of the asyncio face.
        target: the file, or an open binary file.
        filter, projection, mode, resume: as for `export_jsonl`.
        progress: called in the loop with the bytes and documents done so far.

    Raises:
        ValueError, JSONLinesError, OSError, OperationFailure, AutoReconnect: as for `export_jsonl`.
    """
    return await run_in_thread(
        export_jsonl,
        collection,
        target,
        filter=filter,
        projection=projection,
        mode=mode,
        resume=resume,
        progress=progress,
    )
