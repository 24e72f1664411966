"""Another experiment's task over a compressed wire, with a check that the wire was compressed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from mangonel.lab.contender import ASYNCIO, BATCH_SIZE, BLOCKING, COMPRESSES
from mangonel.lab.experiment import Bench, Part, Task

COMPRESSORS = ("none", "snappy", "zlib", "zstd")
# Less than this of either direction would mean that most of the work went over the wire as it was.
LEAST_BYTES = 50_000


class CountedTask(Task):
    """Another task, whose check asks the server whether the bytes came and went compressed."""

    def __init__(self, inner: Task, bench: Bench, compressor: str, counter: str) -> None:
        self._inner = inner
        self._bench = bench
        self._adapter: Any = bench.adapter
        self._compressor = compressor
        self._counter = counter

    def verify(self) -> str:
        """Check the answer, then what the server counted meanwhile."""
        before = self._counted()
        seen = self._inner.verify()
        moved = self._counted() - before
        if self._compressor != "none" and moved < LEAST_BYTES:
            raise AssertionError(
                f"expected at least {LEAST_BYTES} bytes compressed with {self._compressor}, "
                f"the server counted {moved}"
            )
        return seen

    def warm_up(self) -> None:
        """As the other task."""
        self._inner.warm_up()

    def arrange(self) -> None:
        """As the other task."""
        self._inner.arrange()

    def act(self) -> int:
        """As the other task."""
        return self._inner.act()

    def written(self) -> int | None:
        """As the other task."""
        return self._inner.written()

    def _counted(self) -> int:
        if self._compressor == "none":
            return 0
        status = self._bench.run(self._adapter.command("serverStatus"))
        half, field = self._counter.split(".")
        return int(status["network"]["compression"][self._compressor][half][field])


def parts(title: str, operations: int, samples: int, write_concern: str = "") -> list[Part]:
    """Return a part for each compressor and for none, blocking; for zstd on the event loop too."""
    made = []
    for compressor in COMPRESSORS:
        for face in (BLOCKING, ASYNCIO) if compressor == "zstd" else (BLOCKING,):
            words = "blocking" if face == BLOCKING else "event loop"
            made.append(
                Part(
                    compressor if face == BLOCKING else f"{compressor}-asyncio",
                    f"{title}, {compressor}, {words}",
                    frozenset({face, COMPRESSES, BATCH_SIZE}),
                    operations,
                    samples,
                    unit="document",
                    write_concern=write_concern,
                )
            )
    return made


def task(part: Part, bench: Bench, counter: str, make: Callable[[], Task]) -> Task:
    """Return a task of another experiment, on a client with the part's compressor.

    `counter`: what the server counts for it, as `compressor.bytesIn` for replies.
    """
    compressor = part.id.split("-")[0]
    uri = re.sub(r"[?&]compressors=[a-z]+", "", bench.target.uri)
    if compressor != "none":
        query = "&" if "?" in uri else "?" if uri.count("/") > 2 else "/?"
        uri = f"{uri}{query}compressors={compressor}"
    bench.target = dataclasses.replace(bench.target, uri=uri)
    return CountedTask(make(), bench, compressor, counter)
