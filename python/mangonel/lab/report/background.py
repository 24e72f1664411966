"""What stands above an experiment's charts: what it shows and does not, and the original's own figures beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from mangonel.lab import originals, registry
from mangonel.lab.results import Results
from mangonel.lab.statistics import Estimate

EVERYWHERE = (
    "Client and server share this machine's cores: ratios and processor time carry over to other machines, "
    "times less so, and nothing here tells how a deployment of several machines behaves."
)
# For experiments that do not say it themselves.
SHOWS = {
    "bson": (
        "Documents between bytes and Python objects, judged by processor time since nothing waits. It says "
        "nothing of queries: where the server takes most of the time, a codec ten times faster is not "
        "noticed."
    ),
    "find-one": (
        "What a driver adds to the shortest question there is, on one connection and with 100 in flight. The "
        "raw socket sends the same bytes and decodes nothing. A deployment one millisecond away hides most of "
        "it."
    ),
    "find-30": (
        "A page of 30 documents, as a list in a web application asks for it; no web server is in the way."
    ),
    "find-many": (
        "One long cursor: the cost of each further document, and what asking ahead saves. The whole "
        "collection is in the server's memory; a disk would hide the driver."
    ),
    "insert": (
        "Single inserts with w:1 stated. It shows the driver's share of a write; with w:majority and a real "
        "journal the disk decides. Whole processes contain start, imports and exit of the interpreter."
    ),
    "insert-many": ("Bulk loading: encoding and sending, with the server's work beside it."),
    "process": (
        "From the start of a program to its exit, with one insert between: what a script or a job waits for. "
        "The bare interpreter's own start is the limit."
    ),
    "import-time": ("The import alone, with a warm file cache."),
    "read-documents": (
        "Documents into objects, all fields read. `decode` parts leave the server out. Mappers differ in what "
        "they check on reading; the figures do not weigh that."
    ),
    "save-one-field": ("What a mapper does to find out that one field changed, and what it sends for it."),
    "gridfs": (
        "A file of 50 MiB of random bytes. On loopback it is the driver's copying that is seen, at 5 ms the "
        "number of round trips; a narrow line between would hide both."
    ),
    "websessions": (
        "A session read and written behind Tornado. Stores differ in what they promise: the cache class may "
        "lose the last second, the durable class may not, and only rows of one table compare."
    ),
    "web": (
        "A page of 30 posts over HTTP. One process, server and load generator on the same cores, so the best "
        "row is the one that leaves most of them free. Percentiles at a constant rate tell latency; those of "
        "a closed loop do not."
    ),
    "spec": (
        "The tasks of the driver benchmarking specification in their published shapes. The mean of MB/s is "
        "dominated by large documents; the rows say more than the scores."
    ),
    "tls": ("The same questions over TLS on loopback: encryption, without a network to hide it."),
    "busy-loop": ("Whether a busy event loop delays what the driver owes the server."),
    "failover": (
        "How long callers wait while a primary is killed; it depends on the election as much as on the "
        "driver."
    ),
}


@dataclass(frozen=True)
class Background:
    """A heading and what stands below it."""

    title: str
    html: str


def experiment(results: Results, name: str) -> Background:
    """Return the introduction of one experiment."""
    known = registry.experiments().get(name)
    title = f"{name}: {known.title}" if known else name
    shows = (known.shows if known else "") or SHOWS.get(name, "")
    if shows:
        shows = f"{shows[0].upper()}{shows[1:].rstrip('.')}."
    told = f"<p><strong>What this shows and does not.</strong> {escape(f'{shows} {EVERYWHERE}'.strip())}</p>"
    return Background(title, told + _original(results, name))


def _original(results: Results, name: str) -> str:
    """Return the old comparison that an experiment repeats: its figures beside today's, and its flaws."""
    original = originals.of_experiment(name)
    if original is None:
        return ""
    from mangonel.lab.report.page import table

    rows = []
    for line in originals.beside(results, name):
        figure = line.figure
        printed = f"{figure.value:g} {figure.unit}"
        today = "not measured here" if line.today is None else _words(line.today, figure.unit)
        rows.append(("", [escape(figure.stack), escape(figure.what), escape(printed), escape(today)]))
    flaws = "".join(f"<li>{escape(flaw)}</li>" for flaw in original.flaws)
    return (
        f"<details><summary>The original: {escape(original.title)}</summary>"
        f"<p>{escape(original.setting)} {escape(original.tool)}</p><p>{escape(original.claim)}</p>"
        f"{table(('stack', 'what', 'printed then', 'its form today [95 %]'), rows, numeric=2)}"
        f"<p>What was wrong with it:</p><ul>{flaws}</ul><p>{escape(original.corrected)}</p></details>"
    )


def _words(found: Estimate, unit: str) -> str:
    return f"{found.value:.3g} [{found.low:.3g}, {found.high:.3g}] {unit}"
