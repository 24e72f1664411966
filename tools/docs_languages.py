"""Write the page and the charts of the comparison between languages from a result file of the lab.

    python tools/docs_languages.py FILE [PLANTED]

FILE is the result of `mangonel lab run languages languages-one-core languages-idle crowd`; PLANTED, if given, that of a
run with `--plant`, and the page says whether the slowdown was found. FILE is kept as
`docs/benchmarks/languages.jsonl.gz`. The text above the marker of `docs/benchmarks/languages.md` is written by hand,
the figures below it here.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from mangonel.lab import costs, noise, results  # noqa: E402  # of this tree, built or not
from mangonel.lab.comparisons import is_ours  # noqa: E402
from mangonel.lab.fingerprint import machine  # noqa: E402
from mangonel.lab.report import charts  # noqa: E402
from mangonel.lab.results import Results, Row  # noqa: E402
from mangonel.lab.statistics import Estimate  # noqa: E402

PAGES = ROOT / "docs/benchmarks"
PAGE, DATA = PAGES / "languages.md", PAGES / "languages.jsonl.gz"
MARKER = "<!-- written by tools/docs_languages.py -->\n"
MAIN, CORE, CROWD, IDLE = "languages", "languages-one-core", "crowd", "languages-idle"
OURS, FLOOR = "mangonel-program", "c-program"
# Columns of the first table; of several names, the first that played a part is used.
COLUMNS = {
    "Mangonel": (OURS,),
    "C, in place": (FLOOR,),
    "C, structs": ("c-program-typed",),
    "Rust": ("rust-program",),
    "Go": ("go-program",),
    "Node.js": ("node-program",),
    "Java": ("java-program",),
    "PyMongo": ("pymongo-program",),
}
TYPED = {
    "Mangonel, dataclasses": ("mangonel-program-typed",),
    "C, structs": ("c-program-typed",),
    "Rust, structs": ("rust-program-typed",),
    "Go, structs": ("go-program-typed",),
    "Java, records": ("java-program-typed",),
}
AT_ONCE = "find-one-100"
# Parts whose results are documents, so reading fields in place is not the same work.
READS = ("find-one", AT_ONCE, "find-30", "find-1000", "iterate", "aggregate", "change-stream")
APART = (AT_ONCE, "process", "page")  # parts with their own tables
# Why another language is ahead. Each time is the minimum of 300 runs (of starts: 30) on a busy machine, 2026-11-28.
MAKES = (
    "CPython takes 1.1 µs to make one of these documents, before the driver sees it,"
    " and this driver 0.12 µs to encode it"
)
WHY = {
    "insert-many-10": MAKES,
    "insert-many-1000": MAKES,
    "process": "CPython takes 11 ms to start and end without any import",
}
# The chart's rows in the part that it shows.
CHART = ("find-one", "find-30")


def cell(row: Row | None, figure: str = "client") -> Estimate | None:
    return row.estimate(figure) if row is not None else None


def found(told: Results, experiment: str, part: str, names: Sequence[str]) -> Row | None:
    rows = (told.rows.get((experiment, part, name)) for name in names)
    return next((row for row in rows if row is not None and not row.failures and row.rounds), None)


def parts(told: Results, experiment: str) -> dict[str, list[Row]]:
    """Return the rows of each part of an experiment, without null controls, the cheapest first."""
    groups: dict[str, list[Row]] = {}
    for (name, part, contender), row in told.rows.items():
        if name == experiment and not contender.endswith("#2") and row.estimate("client"):
            groups.setdefault(part, []).append(row)
    for rows in groups.values():
        rows.sort(key=lambda row: value(row))
    return groups


def value(row: Row, figure: str = "client") -> float:
    told = row.estimate(figure)
    assert told is not None
    return told.value


def matrix(told: Results, names: Sequence[str], columns: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield a table of client CPU: a row for each part, a column for each language; the lowest is bold."""
    titles = {part: row.title for (_, part, _), row in told.rows.items()}
    yield "| client CPU of one | " + " | ".join(columns) + " |"
    yield "|---|" + "---:|" * len(columns)
    for part in names:
        cells = {name: cell(found(told, MAIN, part, ids)) for name, ids in columns.items()}
        made = {
            name: each.value
            for name, each in cells.items()
            if each is not None and not (part in READS and columns[name] == (FLOOR,))
        }
        least = min(made, key=lambda name: made[name], default="")
        texts = [
            ""
            if each is None
            else f"**{charts.duration(each.value)}**"
            if name == least
            else charts.duration(each.value)
            for name, each in cells.items()
        ]
        if any(texts):
            yield f"| {titles.get(part, part)} | " + " | ".join(texts) + " |"


def listing(told: Results, rows: list[Row]) -> Iterator[str]:
    """Yield a table of one part: each contender's figures and its ratio to ours, or to a part's cheapest."""
    named = [row.key[2] for row in rows]
    base = OURS if OURS in named else next(filter(is_ours, named), named[0])
    yield "| program | client CPU [95 %] | of it system | by the clock | server CPU | times Mangonel's [95 %] |"
    yield "|---|---:|---:|---:|---:|---:|"
    for row in rows:
        client, server = row.estimate("client"), row.estimate("server")
        assert client is not None
        ratio = told.ratio(row.key, (*row.key[:2], base), "client")
        system, user = mean(row, "system_us"), mean(row, "user_us")
        share = f"{100 * system / (system + user):.0f} %" if system + user > 0 else ""
        times = ratio.words("{:.2f}".format) if ratio is not None and row.key[2] != base else ""
        yield (
            f"| {bold(row)} | {client.words(charts.duration)} | {share} | {charts.duration(value(row, 'wall'))} | "
            f"{charts.duration(server.value) if server else ''} | {times} |"
        )


def heading(title: str) -> str:
    """Return a title with a capital letter, unless it begins with code."""
    return title if "_" in title.partition(" ")[0] else title[:1].upper() + title[1:]


def mean(row: Row, figure: str) -> float:
    values = [each for samples in row.per_round(figure).values() for each in samples]
    return sum(values) / len(values) if values else 0.0


def bold(row: Row) -> str:
    return f"**{row.name}**" if is_ours(row.key[2]) else row.name


def ahead(told: Results, names: Sequence[str]) -> Iterator[str]:
    """Yield a line with the ratio for each part in which another language makes objects with less CPU time."""
    for part in names:
        rows = parts(told, MAIN).get(part, [])
        made = [row for row in rows if not (part in READS and row.key[2] == FLOOR)]
        if not made or is_ours(made[0].key[2]):
            continue
        first = made[0]
        ours = next((row for row in made if is_ours(row.key[2])), None)
        if ours is None:
            continue
        ratio = told.ratio(ours.key, first.key, "client")
        if ratio is not None:
            sure = "" if ratio.low > 1 else " (the interval holds 1: not decided)"
            times = ratio.words("{:.2f}".format)
            why = f" {WHY[part]}." if part in WHY else ""
            yield f"- {first.title}: {first.name} is ahead; {ours.name} takes {times} times as much{sure}.{why}"


def picture(told: Results, part: str) -> str:
    rows = [
        charts.Bar(row.name, row.estimate("client"), "ours" if is_ours(row.key[2]) else "peer")
        for row in parts(told, MAIN).get(part, [])
    ]
    if not rows:
        return ""
    title = next(iter(parts(told, MAIN)[part])).title
    # Plain text, since the template's markup type would escape everything inserted into it.
    svg = str(charts.bars(f"Client CPU of one {title}", rows, told="Bars, shorter is cheaper"))
    svg = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" width="560" ', 1)
    for name in charts.COLOURS:
        coloured = svg.replace("</desc>", f"</desc><style>{charts.style(name)}</style>", 1)
        (PAGES / f"languages-{part}-{name}.svg").write_text(f"{coloured}\n", encoding="utf-8")
    stem = f"languages-{part}"
    return (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="{stem}-dark.svg">\n'
        f'  <img alt="Client CPU of one {title}, by language" src="{stem}-light.svg">\n</picture>\n'
    )


def crowd(told: Results) -> Iterator[str]:
    """Yield the cost of an operation among many, relative to one alone."""
    yield "| program | client CPU [95 %] | times one alone [95 %] |"
    yield "|---|---:|---:|"
    bases = {"threads-32": "one", "processes-8": "one", "tasks-100": "tasks-1", "tasks-5000": "tasks-1"}
    for (experiment, part, contender), row in told.rows.items():
        client = row.estimate("client")
        if experiment != CROWD or contender.endswith("#2") or client is None:
            continue
        base = bases.get(part)
        ratio = told.ratio(row.key, (CROWD, base, contender), "client") if base else None
        times = ratio.words("{:.2f}".format) if ratio else ""
        yield f"| {bold(row)}: {row.title} | {client.words(charts.duration)} | {times} |"


def memory(told: Results) -> Iterator[str]:
    """Yield the memory that idle connections add to the process."""
    yield "| client | each connection [95 %] | opened within 20 s | whole process |"
    yield "|---|---:|---:|---:|"
    rows = parts(told, IDLE).get("idle", [])
    for row in sorted(rows, key=lambda row: value(row, "each")):
        each = row.estimate("each")
        assert each is not None
        count = charts.number(value(row, "connections"))
        yield f"| {bold(row)} | {each.words(_kb)} | {count} | {_mb(value(row, 'memory'))} |"


def _kb(size: float) -> str:
    return f"{size / 1000:.1f} kB"


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


def controls(told: Results) -> Iterator[str]:
    """Yield the A/A controls: the same program twice, and whether the interval of its ratio holds 1."""
    inside, every, worst = 0, 0, ("", None)
    for (experiment, part, contender), row in told.rows.items():
        if not contender.endswith("#2"):
            continue
        ratio = told.ratio(row.key, (experiment, part, contender.removesuffix("#2")), "client")
        if ratio is None:
            continue
        every += 1
        inside += not ratio.excludes(1.0)
        if worst[1] is None or ratio.spread() > worst[1].spread():
            worst = (f"{row.name.removesuffix(' (again)')}, {row.title}", ratio)
    if every and worst[1] is not None:
        yield (
            f"Each program was also compared with itself: in {inside} of {every} such pairs, the interval of the ratio "
            "contains 1. "
            f"The widest: {worst[0]}, {worst[1].words('{:.2f}'.format)}.\n"
        )


def planted(path: Path) -> Iterator[str]:
    """Yield whether the artificial slowdowns of a run were found: each contender against its unplanted self."""
    told = Results(results.load(path))
    plants = told.content["plan"].get("plants", {})
    for (experiment, part, contender), row in told.rows.items():
        share = plants.get(contender)
        ratio = told.ratio(row.key, (experiment, part, f"{contender}#2"), "client") if share else None
        if ratio is None:
            continue
        is_found = ratio.excludes(1.0) and ratio.low <= 1 + share <= ratio.high
        yield (
            f"- {row.name}, {row.title}: {100 * share:.0f} % planted, {ratio.words('{:.3f}'.format)} measured"
            f"{'' if is_found else ': not found'}."
        )


def sections(told: Results, plant: Path | None) -> Iterator[str]:
    """Yield the text below the marker."""
    content = told.content
    about = content["fingerprint"]
    server = about["server"].get("version")
    where = next(row.equipment for rows in parts(told, MAIN).values() for row in rows)
    kept = f"on {where}" if where else "on no core of its own"
    yield f"Taken on {about['date'][:10]}: {machine(about)}. MongoDB {server}, a replica set of one {kept}.\n"
    yield f"Versions: {', '.join(f'{name} {number}' for name, number in sorted(about.get('versions', {}).items()))}.\n"
    if reasons := noise.unfit(told, is_brief_whole=True):
        yield "**Not to be quoted**: " + "; ".join(reasons) + ".\n"
    absent = [f"{each['contender']} ({each['reason']})" for each in content["missing"] if each["contender"]]
    if absent:
        yield f"Missing: {'; '.join(dict.fromkeys(absent))}.\n"
    if found_costs := costs.costs(told):
        yield f"{costs.quote(found_costs[0])}.\n"
    for part in CHART:
        yield picture(told, part)
    names = [part for part in parts(told, MAIN) if part not in APART]
    yield "## Documents as each language has them\n"
    yield "\n".join(matrix(told, names, COLUMNS)) + "\n"
    yield (
        "C in place makes no objects of its replies, so for reads the lowest figure of the other columns is bold. "
        "Mangonel's column is its blocking face with dicts.\n"
    )
    yield "## Documents as typed objects\n"
    yield "\n".join(matrix(told, [*names, AT_ONCE], TYPED)) + "\n"
    if lines := list(ahead(told, [*names, AT_ONCE, "process", "page"])):
        yield "## Where another language is ahead\n"
        yield "\n".join(lines) + "\n"
    yield "## Every figure\n"
    for rows in parts(told, MAIN).values():
        yield f"### {heading(rows[0].title)}\n"
        yield "\n".join(listing(told, rows)) + "\n"
    if parts(told, IDLE):
        yield "## Memory of an idle client\n"
        yield "\n".join(memory(told)) + "\n"
    if found_parts := parts(told, CORE):
        yield "## On one core\n"
        for rows in found_parts.values():
            yield f"### {heading(rows[0].title)}, one core\n"
            yield "\n".join(listing(told, rows)) + "\n"
    if parts(told, CROWD):
        yield "## Threads, processes and tasks\n"
        yield "\n".join(crowd(told)) + "\n"
    yield "## Controls\n"
    yield from controls(told)
    if plant is not None:
        yield "\n".join(planted(plant)) + "\n"


def main() -> int:
    """Write page, charts and data; return an exit status."""
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(sys.argv[1])
    told = Results(results.load(path))
    if not parts(told, MAIN):
        remedy = "if the lab says that its time was used up, raise LANGUAGES_BUDGET"
        print(f"docs_languages: expected a run of {MAIN!r} in {path}, got none: {remedy}", file=sys.stderr)
        return 1
    data = path.read_bytes()
    if path != DATA:
        # Without a time stamp, so that the same data gives the same bytes.
        DATA.write_bytes(data if path.suffix == ".gz" else gzip.compress(data, mtime=0))
    before = PAGE.read_text(encoding="utf-8").partition(MARKER)[0]
    plant = Path(sys.argv[2]) if sys.argv[2:] else None
    PAGE.write_text(before + MARKER + "\n" + "\n".join(sections(told, plant)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
