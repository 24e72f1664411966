"""The figures this driver is held to, each made from cells of one run: asked, reached, met or not.

A mark compares two cells of the same run, paired by round; it holds when the median does. Where the interval
reaches across the limit that is said, since another run may fall on the other side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mangonel.lab.results import Key, Results
from mangonel.lab.statistics import Estimate

TO_MS = 1000.0


@dataclass(frozen=True)
class Mark:
    """One figure asked for. `above` over `below`, both cells; without `below`, the figure of `above` itself.

    Of several cells in `best` the one with the best ratio stands for this driver. A `total` adds all samples
    up: one bad exit among many must not vanish in a median. `surely` asks that the whole interval holds: the
    difference can be measured, however small.
    """

    experiment: str
    text: str
    above: tuple[str, str]
    below: tuple[str, str] | None
    sign: str
    limit: float
    figure: str = "wall"
    unit: str = "x"
    best: tuple[tuple[str, str], ...] = ()
    total: bool = False
    surely: bool = False


@dataclass(frozen=True)
class Verdict:
    """A mark against a run."""

    mark: Mark
    reached: Estimate | None
    met: bool
    word: str


PYMONGO, ASYNC, UVLOOP = "pymongo", "pymongo-async", "pymongo-uvloop"
OURS, OURS_ASYNC, OURS_UVLOOP = "mangonel", "mangonel-asyncio", "mangonel-uvloop"
GATED, PORTABLE = "mangonel-bson", "mangonel-portable"


def _codec() -> Iterator[Mark]:
    for part, portable, gated in (
        ("decode-flat", 2.5, 4.5),
        ("decode-deep", 2.5, 3.0),
        ("decode-full", 4.0, 7.0),
        ("decode-batch-200", 2.8, 4.0),
    ):
        name = part.replace("-", " ")
        peer = (part, PYMONGO)
        yield Mark("bson", f"{name}, documented C API", peer, (part, PORTABLE), "≥", portable, "client")
        yield Mark("bson", f"{name}, version-gated path", peer, (part, GATED), "≥", gated, "client")
    for part, limit in (
        ("encode-flat", 4.5),
        ("encode-deep", 3.5),
        ("encode-full", 5.0),
        ("encode-small", 7.0),
    ):
        yield Mark("bson", part.replace("-", " "), (part, PYMONGO), (part, GATED), "≥", limit, "client")


def _faster(experiment: str, text: str, part: str, peer: str, ours: str, limit: float) -> Mark:
    return Mark(experiment, text, (part, peer), (part, ours), "≥", limit)


def _floor(experiment: str, text: str, part: str, ours: str, floor: str, limit: float) -> Mark:
    return Mark(experiment, text, (part, ours), (part, floor), "≤", limit)


def _cpu(experiment: str, text: str, part: str, ours: str, peer: str, limit: float) -> Mark:
    return Mark(experiment, text, (part, ours), (part, peer), "≤", limit, figure="client")


def _websessions() -> Iterator[Mark]:
    part, ours = "new-visitor", (("new-visitor", "web-mongodb"))
    yield Mark(
        "websessions",
        "new visitor writes, requests per second against no sessions",
        (part, "web-none"),
        ours,
        "≥",
        0.65,
    )
    yield Mark(
        "websessions",
        "new visitor writes, requests per second against Redis",
        (part, "web-redis"),
        ours,
        "≥",
        1.0,
    )
    yield Mark(
        "websessions",
        "anonymous readers, Tornado's instructions against no sessions",
        ("anonymous-counted", "web-memory"),
        ("anonymous-counted", "web-none"),
        "≤",
        1.02,
        figure="instructions",
    )
    for kind, limit in (("read", 5.0), ("write", 9.0)):
        yield Mark(
            "websessions",
            f"the layer on memory, a {kind}",
            (f"layer-{kind}", "web-memory"),
            None,
            "≤",
            limit,
            figure="client",
            unit="µs",
        )


def _web() -> Iterator[Mark]:
    part, far, ours, as_json = "new-connections", "delayed", "page-mangonel", "page-mangonel-json"
    for peer, name in (("page-pymongo-async", "PyMongo Async"), ("page-motor", "Motor")):
        yield _faster("web", f"dicts, requests per second against {name}", part, peer, ours, 1.6)
        yield _faster("web", f"to_json, requests per second against {name}", part, peer, as_json, 2.2)
    for name, what in (("nothing", "the same page"), ("ready", "ready bytes")):
        text = f"to_json, requests per second against no database, {what}"
        yield _faster("web", text, part, f"page-{name}", as_json, 0.75)
    # The best peer is whichever is best on this machine, so each of them is asked for.
    for form, cell in (("dicts", ours), ("to_json", as_json)):
        for name in ("pymongo-async", "pymongo-threads", "motor", "mongojet"):
            text = f"{form}, the database 5 ms away, requests per second against {name}"
            yield _faster("web", text, far, f"page-{name}", cell, 1.6)
    for name in ("mongoengine", "beanie"):
        text = f"{name} on this driver, requests per second against its own"
        cells = (part, f"page-{name}"), (part, f"page-{name}-mangonel")
        yield Mark("web", text, *cells, "≥", 1.0, surely=True)


def _mapper() -> Iterator[Mark]:
    read, save = "read-documents", "save-one-field"
    yield _cpu(
        read, "five keys, from the server, against PyMongo's dicts", "users", "odm", "objects-pymongo", 0.45
    )
    for peer, limit in (("beanie", 12.0), ("mongoengine", 15.0)):
        text = f"five keys, from the server, against {peer}"
        yield Mark(read, text, ("users", peer), ("users", "odm"), "≥", limit, "client")
    for part, ours, limit in (
        ("decode-users", "odm", 0.3),
        ("decode-posts", "odm", 0.3),
        ("decode-posts", "odm-lazy", 0.1),
    ):
        text = f"{part} alone, {ours}, against PyMongo's dicts"
        yield _cpu(read, text, part, ours, "objects-pymongo", limit)
    text = "one changed scalar, up to the wire"
    yield Mark(save, text, ("prepare", "odm"), None, "≤", 2.0, "client", "µs")
    for peer in ("mongoengine", "beanie"):
        text = f"one changed scalar, up to the wire, against {peer}"
        yield Mark(save, text, ("prepare", peer), ("prepare", "odm"), "≥", 40.0, "client")


def _spec() -> Iterator[Mark]:
    for shape in ("flat", "deep", "full"):
        part = f"{shape}-decoding"
        yield Mark("spec", f"decode {shape}", (part, PYMONGO), (part, GATED), "≥", 1.5, "client")


def _live() -> Iterator[Mark]:
    watched, alone = "live-200", "live-alone"
    text = "a request beside 1000 inserts a second, 200 browsers against none, median"
    yield Mark("live", text, ("requests", watched), ("requests", alone), "≤", 1.1, figure="p50")
    text = "the same against 200 browsers at another process of this machine, median"
    yield Mark("live", text, ("requests", watched), ("requests", "live-beside"), "≤", 1.1, figure="p50")
    for figure, name in (("p50", "median"), ("p99", "99th percentile")):
        text = f"acknowledged insert to 200 browsers, {name}"
        yield Mark("live", text, ("delivery", watched), None, "≤", 200.0, figure, "ms")


BATCHED = (("batch", OURS), ("prefetch", OURS), ("exhaust", OURS))

MARKS: tuple[Mark, ...] = (
    *_codec(),
    *_spec(),
    _floor("find-one", "blocking, against the raw socket", "blocking", OURS, "raw-socket", 1.25),
    _faster("find-one", "blocking, speed against PyMongo", "blocking", PYMONGO, OURS, 2.4),
    _cpu("find-one", "blocking, client CPU against PyMongo", "blocking", OURS, PYMONGO, 0.2),
    _floor(
        "find-one", "asyncio, 100 tasks, against raw asyncio", "tasks-100", OURS_ASYNC, "raw-asyncio", 1.3
    ),
    _faster("find-one", "asyncio, 100 tasks, against PyMongo Async", "tasks-100", ASYNC, OURS_ASYNC, 3.3),
    _faster("find-one", "uvloop, 100 tasks, against PyMongo Async", "tasks-100", UVLOOP, OURS_UVLOOP, 3.0),
    _faster("find-30", "asyncio, 50 tasks, against PyMongo Async", "tasks-50", ASYNC, OURS_ASYNC, 3.5),
    _faster("find-many", "iterate 100 000, speed against PyMongo", "default", PYMONGO, OURS, 3.3),
    Mark(
        "find-many",
        "iterate 100 000, best of prefetch and exhaust",
        ("default", PYMONGO),
        ("prefetch", OURS),
        "≥",
        4.5,
        best=(("prefetch", OURS), ("exhaust", OURS)),
    ),
    Mark(
        "find-many",
        "to_list of 100 000, memory growth against PyMongo",
        ("to-list", OURS),
        ("to-list", PYMONGO),
        "≤",
        0.7,
        figure="growth",
    ),
    _faster("insert-many", "50 000 documents, w:1, speed against PyMongo", "blocking", PYMONGO, OURS, 1.5),
    _cpu("insert-many", "50 000 documents, w:1, client CPU against PyMongo", "blocking", OURS, PYMONGO, 0.1),
    _cpu("insert", "one at a time, w:1, client CPU against PyMongo", "blocking", OURS, PYMONGO, 0.2),
    _faster("insert", "one at a time, w:1, speed against PyMongo", "blocking", PYMONGO, OURS, 1.8),
    _floor("insert", "one at a time, w:1, against the raw socket", "blocking", OURS, "raw-socket", 1.25),
    _cpu(
        "insert", "100 in flight, w:1, client CPU against PyMongo Async", "tasks-100", OURS_ASYNC, ASYNC, 0.2
    ),
    _faster("insert", "100 in flight, w:1, speed against PyMongo Async", "tasks-100", ASYNC, OURS_ASYNC, 2.2),
    _floor("insert", "100 in flight, w:1, against raw asyncio", "tasks-100", OURS_ASYNC, "raw-asyncio", 1.25),
    Mark(
        "busy-loop",
        "heartbeats in time, loop blocked 200 ms at a time, against PyMongo Async",
        ("blocked", OURS_ASYNC),
        ("blocked", ASYNC),
        "≥",
        1.0,
        figure="heartbeats",
    ),
    _faster("tls", "find_one over TLS, blocking, speed against PyMongo", "blocking", PYMONGO, OURS, 1.8),
    _faster(
        "tls", "find_one over TLS, 100 tasks, against PyMongo Async", "tasks-100", ASYNC, OURS_ASYNC, 1.8
    ),
    Mark(
        "process",
        "start, connect, one insert (w:1), exit; on a machine whose bare interpreter takes 14 ms",
        ("insert-1", OURS),
        None,
        "≤",
        90.0,
        unit="ms",
    ),
    Mark(
        "process",
        "unclean exits, client closed and left open",
        ("exits", OURS),
        None,
        "≤",
        0.0,
        "unclean",
        "",
        total=True,
    ),
    *_websessions(),
    *_mapper(),
    *_web(),
    *_live(),
    _faster("gridfs", "read 50 MiB, speed against PyMongo", "download", PYMONGO, OURS, 2.2),
    _faster("gridfs", "read 50 MiB, against the raw socket", "download", "raw-socket", OURS, 0.75),
    _faster("gridfs", "read 50 MiB at 5.4 ms, against PyMongo", "download-delayed", PYMONGO, OURS, 2.0),
    _faster(
        "gridfs", "read 50 MiB at 5.4 ms, against chunk by chunk", "download-delayed", "by-chunk", OURS, 12.0
    ),
    Mark(
        "gridfs",
        "read 50 MiB over several connections, against PyMongo",
        ("download", PYMONGO),
        ("download-shared", OURS),
        "≥",
        3.5,
    ),
    _floor("gridfs", "read 50 MiB on asyncio, against blocking", "download", OURS_ASYNC, OURS, 1.15),
    _faster("gridfs", "store 50 MiB, speed against PyMongo", "upload", PYMONGO, OURS, 1.5),
    _faster("gridfs", "store 50 MiB at 5.4 ms, against PyMongo", "upload-delayed", PYMONGO, OURS, 2.0),
    _floor("import-time", "import, against import pymongo", "import", OURS, PYMONGO, 0.8),
)


def verdicts(results: Results) -> list[Verdict]:
    """Return a verdict for every mark whose experiment was part of the run."""
    played = set(results.content["plan"]["experiments"])
    return [_judge(mark, results) for mark in MARKS if mark.experiment in played]


def _judge(mark: Mark, results: Results) -> Verdict:
    reached = _reached(mark, results)
    if reached is None:
        return Verdict(mark, None, False, f"not measured: {_why(mark, results)}")
    met = _holds(mark, reached.value)
    if mark.surely:
        met = _holds(mark, reached.low) and _holds(mark, reached.high)
    sure = _holds(mark, reached.low) == _holds(mark, reached.high)
    word = ("met" if met else "not met") + ("" if sure else ", within the interval")
    return Verdict(mark, reached, met, word)


def _reached(mark: Mark, results: Results) -> Estimate | None:
    above: Key = (mark.experiment, *mark.above)
    if mark.below is None:
        row = results.rows.get(above)
        if mark.total:
            samples = [] if row is None or row.failures else list(row.per_round(mark.figure).values())
            count = sum(map(sum, samples))
            return Estimate(count, count, count) if samples else None
        found = row.estimate(mark.figure) if row else None
        if found is not None and mark.unit == "ms":
            return Estimate(found.value / TO_MS, found.low / TO_MS, found.high / TO_MS)
        return found
    candidates = [
        results.ratio(above, (mark.experiment, *cell), mark.figure) for cell in mark.best or (mark.below,)
    ]
    known = [candidate for candidate in candidates if candidate is not None]
    return max(known, key=lambda candidate: candidate.value) if known else None


def _holds(mark: Mark, value: float) -> bool:
    return value >= mark.limit if mark.sign == "≥" else value <= mark.limit


def _why(mark: Mark, results: Results) -> str:
    for part, contender in (mark.above, *((mark.below,) if mark.below else ())):
        row = results.rows.get((mark.experiment, part, contender))
        if row is not None and row.failures:
            return f"{contender} failed: {row.failures[0][:120]}"
        if row is None:
            for entry in results.content["missing"]:
                if entry["contender"] == contender and entry["experiment"] == mark.experiment:
                    return f"{contender}: {entry['reason'][:120]}"
            if any(key[0] == mark.experiment and key[2] == contender for key in results.rows):
                zeros = [
                    f"{name}=0"
                    for name, value in results.content["plan"].get("parameters", {}).items()
                    if not value
                ]
                return ", ".join((f"{part} was off in this form", *zeros))
            return f"{contender} was not chosen"
    return "the contenders have no round in common"
