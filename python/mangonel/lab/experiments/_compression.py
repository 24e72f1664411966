"""Another experiment's task over a compressed wire, with a check that the wire was compressed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from mangonel.lab.contender import BATCH_SIZE, COMPRESSES
from mangonel.lab.experiment import Bench, Part, Size, Task
from mangonel.lab.experiments._parts import FACES, Figure, rows

COMPRESSORS = ("none", "snappy", "zlib", "zstd")
# Less than this of either direction would mean that most of the work went over the wire as it was.
LEAST_BYTES = 50_000


def parts(size: Size, title: str, operations: Figure, **more: Any) -> list[Part]:
    """Return a part for each compressor and for none, blocking; for zstd on the event loop too."""
    table = [
        (
            compressor if name == "blocking" else f"{compressor}-asyncio",
            f"{title}, {compressor}, {words}",
            (face, COMPRESSES, BATCH_SIZE),
            operations,
            (1, 4),
        )
        for compressor in COMPRESSORS
        for name, words, face in FACES[: 2 if compressor == "zstd" else 1]
    ]
    return rows(size, table, unit="document", **more)


def task(part: Part, bench: Bench, counter: str, make: Callable[[], Task]) -> Task:
    """Return a task of another experiment, on a client with the part's compressor.

    Its check asks the server too whether the bytes came and went compressed: `counter` is what it counts for the task,
    as `compressor.bytesIn` for replies.
    """
    compressor = part.id.split("-")[0]
    uri = re.sub(r"[?&]compressors=[a-z]+", "", bench.target.uri)
    if compressor != "none":
        query = "&" if "?" in uri else "?" if uri.count("/") > 2 else "/?"
        uri = f"{uri}{query}compressors={compressor}"
    bench.target = dataclasses.replace(bench.target, uri=uri)
    made = make()
    if compressor != "none":
        check, adapter, (half, field) = made.verify, bench.adapter, counter.split(".")

        def counted() -> int:
            status = bench.run(adapter.command("serverStatus"))
            return int(status["network"]["compression"][compressor][half][field])

        def verify() -> str:
            before = counted()
            seen = check()
            if (moved := counted() - before) < LEAST_BYTES:
                raise AssertionError(
                    f"expected at least {LEAST_BYTES} bytes compressed with {compressor}, the server counted {moved}"
                )
            return seen

        made.verify = verify  # type: ignore[method-assign]
    return made
