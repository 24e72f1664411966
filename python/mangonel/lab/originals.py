"""The field's five old comparisons: what they printed, how they measured, and what was wrong with it.

Data only, in our own words. Each figure names the part of an experiment that repeats it in its original form, so that a
table can put today's beside it; the corrected form is the experiment's other parts. Two figures of different years and
machines do not compare: what compares is their ratio within a column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mangonel.lab.results import Results
from mangonel.lab.statistics import Estimate

__all__ = ["ORIGINALS", "Figure", "Line", "Original", "beside", "of_experiment"]

# What one unit of a printed figure is in µs per operation, or how it comes from them.
SECONDS, PER_SECOND, MICROSECONDS, MEGABYTES = "s", "req/s", "µs/doc", "MB/s"


@dataclass(frozen=True)
class Figure:
    """One printed figure.

    Attributes:
        stack: as the article called it.
        what: the column or program.
        value: as printed, in `unit`.
        part: of the experiment that repeats it in its original form, "" where nothing can.
        contender: that stands for the stack today, "" where none does.
        operations: that one printed figure covers; for times of whole programs or runs.
        more: further printed columns by name.
    """

    stack: str
    what: str
    value: float
    unit: str
    part: str = ""
    contender: str = ""
    operations: int = 1
    more: dict[str, float] = field(default_factory=dict)

    def today(self, microseconds: float, size: int = 0) -> float:
        """Return a figure of today in the printed unit.

        Args:
            microseconds: per operation of the part.
            size: bytes of one operation, for MB/s.
        """
        if self.unit == SECONDS:
            return microseconds * self.operations / 1e6
        if self.unit == PER_SECOND:
            return 1e6 / microseconds
        if self.unit == MEGABYTES:
            return size / microseconds
        return microseconds


@dataclass(frozen=True)
class Original:
    """One comparison as it was published.

    Attributes:
        experiment: of this lab that repeats it.
        setting: versions and machines.
        tool: how it was measured.
        claim: what its readers took away.
        flaws: each with what it does to the figures.
        corrected: what the corrected form does instead.
    """

    experiment: str
    title: str
    setting: str
    tool: str
    claim: str
    figures: tuple[Figure, ...]
    flaws: tuple[str, ...]
    corrected: str


@dataclass(frozen=True)
class Line:
    """A printed figure and what stands for it today, in the same unit; None where it was not measured.

    Attributes:
        more: today's figures by the names of the printed columns, and `inside s`, without what an exit waits for.
    """

    figure: Figure
    today: Estimate | None
    more: dict[str, float] = field(default_factory=dict)


# How results call what the articles had further columns for, and what one is in the printed unit.
COLUMNS = {
    "user s": ("user_s", 1.0),
    "sys s": ("sys_s", 1.0),
    "inside s": ("inside_s", 1.0),
    "p50 ms": ("p50", 0.001),
    "p90 ms": ("p90", 0.001),
    "p95 ms": ("p95", 0.001),
    "p99 ms": ("p99", 0.001),
    "max ms": ("p100", 0.001),
}


def beside(results: Results, experiment: str, size: int = 50 * 1024 * 1024) -> list[Line]:
    """Return the printed figures of a comparison, each with today's from the part that repeats it.

    Args:
        size: bytes of one operation, for figures in MB/s.
    """
    original = of_experiment(experiment)
    lines = []
    for figure in original.figures if original else ():
        row = results.rows.get((experiment, figure.part, figure.contender)) if figure.part else None
        found = row.estimate("wall") if row else None
        today, more = None, {}
        if row is not None and found is not None and figure.more:
            told = {name: row.estimate(column) for name, (column, _) in COLUMNS.items()}
            more = {name: each.value * COLUMNS[name][1] for name, each in told.items() if each is not None}
        if found is not None:
            value, *ends = (figure.today(each, size) for each in (found.value, found.low, found.high))
            today = Estimate(value, min(ends), max(ends))
        lines.append(Line(figure, today, more))
    return lines


def of_experiment(name: str) -> Original | None:
    """Return the comparison that an experiment repeats, if there is one."""
    return next((original for original in ORIGINALS if original.experiment == name), None)


def _inserts() -> Iterator[Figure]:
    rows = (
        ("A: one insert, three prints", "original-a", (0.115, 0.093, 0.022), (0.185, 0.155, 0.029)),
        ("B: 1000 inserts", "original-b", (0.415, 0.285, 0.033), (0.993, 0.849, 0.142)),
        ("C: 100 inserts, a million prints", "original-c", (53.153, 5.960, 3.772), (54.175, 6.116, 4.183)),
        ("C without prints", "original-c-silent", (0.653, 0.176, 0.022), (0.723, 0.263, 0.032)),
    )
    for what, part, *times in rows:
        for (stack, contender), (real, user, system) in zip(
            (("PyMongo", "pymongo"), ("Motor", "motor")), times, strict=True
        ):
            yield Figure(stack, what, real, SECONDS, part, contender, more={"user s": user, "sys s": system})


def _pages() -> Iterator[Figure]:
    rows: tuple[tuple[str, str, str, float, float, tuple[float, ...]], ...] = (
        ("Motor (PyMongo 2.8)", "original-100", "page-motor", 255.77, 39.098, (376, 484, 508, 549, 616)),
        ("PyMongo 3.0", "original-100", "page-pymongo", 150.97, 66.236, (722, 765, 774, 790, 806)),
        (
            "PyMongo 3.0, gevent",
            "original-100",
            "page-pymongo-gevent",
            139.63,
            71.616,
            (769, 813, 822, 857, 886),
        ),
        (
            "MongoEngine, PyMongo 3.0",
            "original-100",
            "page-mongoengine",
            112.09,
            89.214,
            (951, 1034, 1063, 1101, 1331),
        ),
        ("PyMongo 2.8", "original-10", "page-pymongo", 4.94, 20.231, (2041, 2052, 2055, 2061, 2061)),
        (
            "PyMongo 2.8, gevent",
            "original-10",
            "page-pymongo-gevent",
            4.94,
            20.237,
            (2042, 2054, 2058, 2060, 2060),
        ),
        (
            "MongoEngine, PyMongo 2.8",
            "original-10",
            "page-mongoengine",
            4.95,
            20.221,
            (2040, 2051, 2054, 2056, 2056),
        ),
    )
    for stack, part, contender, rate, total, line in rows:
        what = "ab -n 10000 -c 100" if part == "original-100" else "ab -n 100 -c 10"
        names = ("p50 ms", "p90 ms", "p95 ms", "p99 ms", "max ms")
        more = {"total s": total, **dict(zip(names, line, strict=True))}
        yield Figure(stack, what, rate, PER_SECOND, part, contender, more=more)


def _sessions() -> Iterator[Figure]:
    rows = (
        ("no sessions", "web-none", 1626.0, 100.0),
        ("MongoDB 1.2, unacknowledged", "web-mongodb", 1577.0, 97.4),
        ("Memcached 1.4.4", "web-memcached", 1202.0, 90.6),
        ("Redis 1.2.1", "web-redis", 1418.0, 87.2),
        ("MySQL 5.1.37", "web-mysql", 1216.0, 83.0),
        ("directory of files", "web-directory", 869.0, 53.4),
        ("one file (-n 1000 -c 10)", "", 160.0, 9.8),
    )
    for stack, contender, rate, share in rows:
        yield Figure(
            stack,
            "ab -n 10000 -c 300, nginx, four processes",
            rate,
            PER_SECOND,
            "seed" if contender else "",
            contender,
            more={"% of none": share},
        )


def _mappers() -> Iterator[Figure]:
    rows = (
        ("MongoMapper, before", "", 1730.0),
        ("keys written in two steps", "", 872.0),
        ("no second pass over the batch", "", 443.0),
        ("no cast on load", "", 284.0),
        ("keys asked for by name", "", 266.0),
        ("keys taken out of the loop", "", 234.0),
        ("MongoMapper, released", "mongoengine", 192.0),
        ("Mongoid, another run", "beanie", 43.0),
    )
    for stack, contender, each in rows:
        part = "users" if contender else ""
        yield Figure(stack, "150 x 200 documents of 5 keys", each, MICROSECONDS, part, contender)


def _files() -> Iterator[Figure]:
    rows = (
        ("local, Python 3.7", "download", 179.8, 208.2),
        ("Atlas at 5 ms, Python 3.7", "download-delayed", 12.20, 16.41),
        ("local, Python 2.7", "", 160.8, 162.5),
        ("Atlas at 5 ms, Python 2.7", "", 11.83, 15.62),
    )
    for what, part, before, after in rows:
        for stack, contender, speed in (
            ("one find_one per chunk", "by-chunk", before),
            ("one cursor", "pymongo", after),
        ):
            yield Figure(stack, what, speed, MEGABYTES, part, contender if part else "")


ORIGINALS: tuple[Original, ...] = (
    Original(
        "insert",
        "Motor against PyMongo, processor time of a process",
        "Ubuntu 14.04, Core i3 at 3.07 GHz, 2 GB; PyMongo 2.7, Motor 0.x on Tornado's loop; mongod on the same machine",
        "one run of `time python script.py`, output on the terminal",
        "the asynchronous driver costs 4.3 times the synchronous one",
        tuple(_inserts()),
        (
            "One run each: no spread, no interval.",
            "4.3 is the ratio of the system times alone (0.142 / 0.033 s); real time gives 2.4, user and system 3.1.",
            "A is the start of an interpreter and imports; the insert hardly counts.",
            "C prints over a million lines inside what is timed, so it times the terminal; Motor's prints 1 % more.",
            "B inserts one and the same dict: its second insert has the `_id` of the first and must fail in PyMongo; "
            "in Motor the error reached a callback that did not look.",
            "Motor's B starts 1000 inserts and stops its loop at the first answer: the work is not equal.",
            "One insert at a time: what an asynchronous driver is for, many in flight, is not tried.",
            "The server's processor time and the write concern are not told. From MongoDB 5.0 on the default is "
            "w:majority, which waits for the journal.",
            "Whole-process times hold half a second of PyMongo waiting for a sleeping monitor thread at exit.",
        ),
        "steady state in one process after a warm-up, one in flight and 100, w:1 stated, processor time of client and "
        "server told apart; whole processes with the time inside the program beside the time to its exit",
    ),
    Original(
        "web",
        "Tornado with PyMongo, Motor, MongoEngine and gevent",
        "Tornado 4.2.1 on an Ubuntu 14.04 machine of 2 cores; MongoDB 3.0.6 on a Windows machine of its own",
        "ab without keep-alive, -n 10000 -c 100; the group with PyMongo 2.8 -n 100 -c 10",
        "Motor answers 1.7 times as many requests as PyMongo, and gevent does not help",
        tuple(_pages()),
        (
            "A blocking driver in a loop of one thread answers 1 / (round trip + work) requests a second: this ranks "
            "the distance to the database, which was not told. On one machine the order is another.",
            "Motor was asked something else: no limit, so the server sends 101 posts for a page of 30.",
            "204 ms for each request with PyMongo 2.8 are a timer in the network (delayed acknowledgements), not "
            "Python; it was left out of the ranking and drawn all the same.",
            "debug=True and a line of log to a terminal for each request.",
            "gevent below Tornado's loop cannot help: the loop waits for nobody's greenlets.",
            "A closed loop of 100: its median is 100 / (requests per second), Little's law, and no latency a user "
            "would see.",
            "One run each, no warm-up, two groups of different -n and -c in one chart, ab on the site's machine.",
            "The million posts do not matter: the first 30 in natural order are read; MongoEngine alone made an index.",
        ),
        "the same page from every stack, bytes compared; the database here and 5 ms away; capacity by a closed loop, "
        "latency at constant rates from the intended start; the site's and the server's processor time; the same "
        "handler without a database as the ceiling; gevent on a server that knows it",
    ),
    Original(
        "read-documents",
        "MongoMapper reading documents, optimised by call graphs",
        "Ruby 1.9, 2012; 30 000 documents of five keys as 150 batches of 200",
        "Ruby's Benchmark around 150 reads, under its profiler",
        "nine times faster by counting calls",
        tuple(_mappers()),
        (
            "Timed under the profiler, which slows code with many calls most.",
            "One run for each step.",
            "An identity map in one of the two mappers, and the same 200 documents read 150 times.",
            "Two different drivers below the two mappers.",
            "The cost of one Date field is mixed in; query, decoding and building of objects are one figure.",
            "No field is read: a mapper that does nothing until asked would win.",
        ),
        "all fields read, warm-up, rounds in new processes, client and server apart, dicts and plain classes as "
        "floors, and the calls counted: five conversions for each document, no more",
    ),
    Original(
        "websessions",
        "Tornado sessions on six stores",
        "2010: two rented servers, quad Opteron at 2.2 GHz; nginx before four processes of a Tornado fork",
        "ab -c 300 -n 10000 from the other server, three runs, the best one quoted",
        "MongoDB is the best store for sessions, at 97 % of the speed without",
        tuple(_sessions()),
        (
            "The order is that of the round trips waited for: Redis 5, MySQL 5, MongoDB 1 and two writes that nobody "
            "waited for, Memcached about none.",
            "MongoDB's writes were unacknowledged and MySQL's engine never synced: durability differed, untold.",
            "ab sends no cookie, so every request makes a new session and saves it twice; none is ever read back.",
            "Every call to a store blocks the loop; pickle and base64 in all.",
            "10 000 requests are seven seconds; no latencies, no processor times, no intervals.",
            "nginx and four processes hide what the application pays.",
        ),
        "one save for each request, known visitors who come back, both durability classes in tables of their own, "
        "store calls counted and a wrong count voids the run, the site's processor time",
    ),
    Original(
        "gridfs",
        "A cursor instead of one find_one per chunk (PYTHON-1721)",
        "2019, Python 2.7 and 3.7; a mongod on the same machine, and a shared Atlas M10 at about 5 ms",
        "the median of up to 100 downloads of 50 MiB in 201 chunks",
        "a cursor is a third faster at 5 ms",
        tuple(_files()),
        (
            "One variant after the other, never interleaved, no intervals, on a cluster shared with others.",
            "The file compresses 229 to 1: with compression on the wire the figures mean nothing.",
            "One round trip per chunk is saved, 1.08 of 4.3 s; the other 3.2 s are the line's bandwidth.",
            "The client's processor time is not told; the file is joined in memory and dropped.",
        ),
        "a file that does not compress, variants interleaved, processor time and memory told, raw sockets as floors, "
        "one connection and several",
    ),
)
