"""JSON lines on asyncio: threads read, parse and write files; the loop sends and receives documents.

The threads run the blocking face's code, on a collection and a cursor that run each wait in the loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Self, TypeVar

from mangonel.jsonl.reading import Imported, import_jsonl
from mangonel.jsonl.writing import Exported, export_jsonl

__all__ = ["aexport_jsonl", "aimport_jsonl"]

T = TypeVar("T")


class _Loop:
    """Gives threads access to the event loop until the task that waits for them is cancelled."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_over = False

    def wait_for(self, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a coroutine in the loop and return its result to the thread."""

        async def called() -> Any:
            if self._is_over:
                raise asyncio.CancelledError
            return await call()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()

    def within(self, function: Callable[..., None] | None) -> Callable[..., None] | None:
        """Return a function that calls `function` in the loop."""
        if function is None:
            return None

        async def call(*arguments: Any) -> None:
            function(*arguments)

        def called(*arguments: Any) -> None:
            # An exception in it ends the transfer.
            self.wait_for(lambda: call(*arguments))

        return called

    async def run(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Run a function in a thread; on cancellation, end it before returning."""
        work = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **options))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._is_over = True
            # Wait, so that the file is not left in use.
            await asyncio.wait([work])
            if not work.cancelled():
                work.exception()
            raise


class _Collection:
    """The part of a collection that import and export use."""

    def __init__(self, loop: _Loop, collection: Any) -> None:
        self._loop = loop
        self._collection = collection

    def insert_many(self, documents: list[Any], ordered: bool) -> None:
        self._loop.wait_for(lambda: self._collection.insert_many(documents, ordered=ordered))

    def find(self, *arguments: Any, **options: Any) -> _Cursor:
        return _Cursor(self._loop, self._collection.find(*arguments, **options))


class _Cursor:
    """The part of a cursor that export uses."""

    def __init__(self, loop: _Loop, cursor: Any) -> None:
        self._loop = loop
        self._cursor = cursor

    def sort(self, *arguments: Any) -> Self:
        self._cursor.sort(*arguments)
        return self

    def hint(self, hint: Any) -> Self:
        self._cursor.hint(hint)
        return self

    def min(self, bound: Any) -> Self:
        self._cursor.min(bound)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._cursor.alive:
            asyncio.run_coroutine_threadsafe(self._cursor.close(), self._loop._loop).result()

    def _json_batches(self, mode: int, separator: int) -> Iterator[tuple[int, bytes]]:
        batches = self._cursor._json_batches_with(self._fetch, mode, separator)
        found: Iterator[tuple[int, bytes]] = batches
        return found

    def _fetch(self) -> bool:
        cursor = self._cursor
        has_more: bool = self._loop.wait_for(lambda: cursor._port.flow(cursor._fetch_flow()))
        return has_more


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
    loop = _Loop()
    return await loop.run(
        import_jsonl,
        _Collection(loop, collection),
        source,
        threads=threads,
        skip_errors=skip_errors,
        resume=resume,
        progress=loop.within(progress),
    )


async def aexport_jsonl(
    collection: Any,
    target: str | os.PathLike[str],
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
        target: the file.
        filter, projection, mode, resume: as for `export_jsonl`.
        progress: called in the loop with the bytes and documents done so far.

    Raises:
        ValueError, JSONLinesError, OSError, OperationFailure, AutoReconnect: as for `export_jsonl`.
    """
    loop = _Loop()
    return await loop.run(
        export_jsonl,
        _Collection(loop, collection),
        target,
        filter=filter,
        projection=projection,
        mode=mode,
        resume=resume,
        progress=loop.within(progress),
    )
