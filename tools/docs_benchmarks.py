"""Write the charts and tables of the benchmark page from a stored result file of the lab.

    python tools/docs_benchmarks.py [FILE]        without FILE: docs/benchmarks/report.jsonl.gz
    python tools/docs_benchmarks.py --cost FILE   only the front pages' chart of client CPU, of a run of `languages`

Charts go to `docs/images/languages-*.svg` (client CPU), `first-*.svg` (all comparisons) and to
`docs/benchmarks/NAME-*.svg` (one each), light and dark. README.md and docs/index.md take the figures that the first
ones show. Figures go below the marker of `docs/benchmarks/index.md`; the text above it is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from mangonel.lab import comparisons, costs, marks, noise, registry, results  # noqa: E402  # of this tree, built or not
from mangonel.lab.comparisons import Finding  # noqa: E402
from mangonel.lab.fingerprint import machine  # noqa: E402
from mangonel.lab.report import charts, page  # noqa: E402

PEERS = ("pymongo", "motor", "mongojet", "mongoengine", "beanie", "redis", "tornado", "uvloop")
# Pages with all tables, made by `mangonel lab show --markdown`.
REPORTS = {"figures": "this run", "web": "a web page in full", "websessions": "web sessions in full"}
IMAGES, PAGES = ROOT / "docs/images", ROOT / "docs/benchmarks"
# The front pages that show the chart of the client's processor time, each with the folder of its pictures from there.
FRONTS = {ROOT / "README.md": "docs/images", ROOT / "docs/index.md": "images"}
MARKER = "<!-- written by tools/docs_benchmarks.py -->\n"


def bars(found: Finding) -> str:
    """Return the chart of one comparison without a style; a dashed line marks the lower bound."""
    limits = [(bar.name, bar.figure.value) for bar in found.bars if bar.kind == "floor" and bar.figure]
    rows = [
        charts.Bar(bar.name, bar.figure, bar.kind) for bar in found.bars if bar.kind != "floor" and bar.figure
    ]
    return str(charts.bars(found.comparison.title, rows, limits))


def write_charts(content: dict[str, Any], found: list[Finding]) -> None:
    """Write the charts of all comparisons and of each."""
    for name, svg in page.pictures(content).items():
        (IMAGES / f"first-{name}.svg").write_text(svg, encoding="utf-8")
    for each in found:
        svg = bars(each).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" width="560" ', 1)
        for name in charts.COLOURS:
            coloured = svg.replace("</desc>", f"</desc><style>{charts.style(name)}</style>", 1)
            (PAGES / f"{each.comparison.experiment}-{name}.svg").write_text(f"{coloured}\n", encoding="utf-8")


def picture(stem: str, words: str) -> str:
    """Return a picture for light and dark pages, in the form that GitHub and the site read."""
    return (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="{stem}-dark.svg">\n'
        f'  <img alt="{words}" src="{stem}-light.svg">\n</picture>\n'
    )


def sections(content: dict[str, Any], found: list[Finding]) -> Iterator[str]:
    """Yield the text below the marker."""
    told = content["fingerprint"]
    server = told["server"].get("version")
    yield f"Taken on {told['date'][:10]}: {machine(told)}.\nMongoDB {server}, a replica set of one; {peers(told)}.\n"
    share = noise.floor(results.Results(content))
    if share is not None:
        yield f"In this run, {noise.floor_words(share)}.\n"
    reports = [f"[{title}]({name}.md)" for name, title in REPORTS.items() if (PAGES / f"{name}.md").exists()]
    data = [f"[{path.name}]({path.name})" for path in sorted(PAGES.glob("*.jsonl.gz"))]
    if reports:
        yield (
            f"Every figure: {', '.join(reports)}. The data: {', '.join(data)};\n"
            "`mangonel lab report FILE` makes a page of one, with all charts and the method.\n"
        )
    for each in found:
        lead = words(each)
        yield f"## {each.comparison.title}\n"
        yield picture(each.comparison.experiment, f"{each.comparison.title}: {lead}")
        now = "" if each.now.startswith("not all") else f" {each.now[0].upper()}{each.now[1:]}"
        yield f"{lead}.{now}\n"
    yield from targets(content)


def peers(told: dict[str, Any]) -> str:
    """Return the versions of the compared drivers."""
    versions = told.get("versions", {})
    return ", ".join(f"{name} {versions[name]}" for name in PEERS if name in versions)


def words(found: Finding) -> str:
    """Return this project's result in a sentence."""
    best = found.best
    if best is None or best.times is None:
        return "No peer was there"
    times = comparisons.interval(best.times)
    if not best.times.excludes(1.0):
        return f"Mangonel and {best.name} are level: {times}"
    return f"Mangonel is {times} as fast as {best.name}"


def targets(content: dict[str, Any]) -> Iterator[str]:
    """Yield a table for each experiment with the project's goals and results."""
    judged = [each for each in marks.verdicts(results.Results(content)) if each.reached is not None]
    states = Counter(each.state for each in judged)
    yield "## All targets\n"
    yield (
        "The project set itself these targets before it was built. *Within the interval*: the limit lies inside of\n"
        f"the interval, so the run cannot tell. Of {len(judged)} targets, "
        f"{', '.join(f'{count} are {state}' for state, count in states.items())}.\n"
    )
    experiments = registry.experiments()
    for name in dict.fromkeys(each.mark.experiment for each in judged):
        known = experiments.get(name)
        title = known.title if known else name
        # A title that begins with a name in code does not change.
        is_code = re.match(r"[a-z]+[_(]", title)
        yield f"### {title if is_code else title[0].upper() + title[1:]}\n"
        rows = [
            f"| {each.mark.text} | {_times(each.asked)} | {_times(each.words)} | {each.state} |"
            for each in judged
            if each.mark.experiment == name
        ]
        yield "\n".join(["| what | target | reached [95 %] | state |", "|---|---|---|---|", *rows]) + "\n"


def _times(words: str) -> str:
    """Move the sign of a ratio to its figure: `2.6x [2.4, 2.8]` for `2.6 [2.4, 2.8] x`."""
    return re.sub(r"([\d.]+)( \[.*\])? x$", r"\1x\2", words)


def write_front(content: dict[str, Any]) -> int:
    """Write the chart of the client's processor time, and put it on the front pages; return an exit status."""
    found = costs.costs(results.Results(content))
    if not found or len(found[0].peers) < 2:
        print("docs_benchmarks: expected a run of `languages` with client CPU, got none", file=sys.stderr)
        return 1
    for name, svg in page.cost_pictures(content).items():
        (IMAGES / f"languages-{name}.svg").write_text(svg, encoding="utf-8")
    alt = f"Processor time of the client for {len(found)} operations, Mangonel beside its peers"
    is_unfit = noise.unfit(results.Results(content), is_brief_whole=True)
    noisy = "; a noisy run, not to be quoted" if is_unfit else ""
    told = content["fingerprint"]
    where = (
        "user and system time of a process that reads documents of ten fields with its language's official driver; "
        f"MongoDB {told['server'].get('version')}, CPython {told['python']}, {told['cores']} cores, {told['date'][:10]}"
    )
    for front, images in FRONTS.items():
        all_figures = (
            f"[method, versions and all figures]({images.removesuffix('images')}benchmarks/languages.md)"
        )
        chart = wide_and_narrow(f"{images}/languages", alt)
        block = f"**{costs.quote(found[0])}**\n({where}{noisy}: {all_figures}).\n\n{chart}"
        before, start, rest = front.read_text(encoding="utf-8").partition("<!-- languages -->\n")
        _, end, after = rest.partition("<!-- /languages -->\n")
        assert end, f"expected <!-- languages --> and <!-- /languages --> in {front}, got none"
        front.write_text(f"{before}{start}{block}{end}{after}", encoding="utf-8")
    return 0


def wide_and_narrow(stem: str, words: str) -> str:
    """Return a picture for desks and phones, light and dark."""
    narrow = "(max-width: 40em)"
    return (
        f'<picture>\n  <source media="{narrow} and (prefers-color-scheme: dark)" srcset="{stem}-narrow-dark.svg">\n'
        f'  <source media="{narrow}" srcset="{stem}-narrow-light.svg">\n'
        f'  <source media="(prefers-color-scheme: dark)" srcset="{stem}-dark.svg">\n'
        f'  <img alt="{words}" src="{stem}-light.svg">\n</picture>\n'
    )


def count_on_fronts(found: list[Finding]) -> None:
    """Write the number of bars into the alternative text of the chart of comparisons."""
    shown = [each for each in found if each.best and each.best.times and each.best.times.excludes(1.0)]
    words = f"How many times as fast as the best peer, for {len(shown)} comparisons of wall-clock time"
    for front in FRONTS:
        text = front.read_text(encoding="utf-8")
        text = re.sub(r'alt="[^"]*"( src="[^"]*first-light\.svg")', rf'alt="{words}"\1', text)
        front.write_text(text, encoding="utf-8")


def main() -> int:
    """Write charts and page; return an exit status."""
    if sys.argv[1:2] == ["--cost"]:
        return write_front(results.load(Path(sys.argv[2])))
    path = Path(sys.argv[1]) if sys.argv[1:] else PAGES / "report.jsonl.gz"
    content = results.load(path)
    found = list(comparisons.findings(results.Results(content)))
    write_charts(content, found)
    count_on_fronts(found)
    index = PAGES / "index.md"
    written = index.read_text(encoding="utf-8").partition(MARKER)[0]
    index.write_text(written + MARKER + "\n" + "\n".join(sections(content, found)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
