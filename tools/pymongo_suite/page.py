"""Writes `docs/dev/pymongo-suite.md`: figures by file, and failures by reason. Reads no results itself."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

# Pattern of a message -> why the test fails on PyMongo itself; the first match counts.
CAUSES = (
    (r"^$", "expected to fail by the suite itself"),
    (
        r"MONGODB_URI_SINGLE|SFP_ATLAS|DB_USER|AZUREKMS|FLE_|_KEY'|_URI",
        "asks for a hosted service by the environment",
    ),
    (r"async def functions are not natively supported", "needs a plugin of pytest that is not installed"),
    (r"DNS query name does not exist|DNS operation timed out|resolution lifetime", "asks the public DNS"),
    (r"MockupDB|mockupdb", "needs the package mockupdb"),
    (r"asyncSetUp|pymongocrypt|[Ee]ncrypt|KMS|kms", "needs the library of client-side encryption"),
    (r"'container'|\\{'dri|'orchestrator'|'name': 'foobar'", "expects a machine that is no container"),
    (
        r"ServerSelectionTimeoutError|No servers? |[Nn]o replica set",
        "expects other servers than those of the run",
    ),
)


def page(
    version: str,
    figures: Mapping[str, Counter[str]],
    total: Counter[str],
    failing: Iterable[tuple[str, str, str]],
    private: Counter[str],
    foreign: Iterable[tuple[str, str]],
) -> str:
    """Return the page.

    Args:
        version: version of PyMongo.
        figures: the counts of each file, by kind.
        total: the counts of all files.
        failing: (id, outcome, reason) of each public test that does not pass.
        private: how many tests touch a private name first.
        foreign: (id, message) of each test that fails on PyMongo itself.
    """
    share = total["passed"] / max(1, total["public"])
    lines = [
        "# PyMongo's own tests on this driver",
        "",
        "Written by `make pymongo-suite`; do not edit. The tests come from PyMongo's source distribution, which is",
        "kept outside of the repository. This page has their ids and the reasons, nothing of the tests. What counts as",
        "public, and how to run a part: [Running PyMongo's programs](../compatibility.md#pymongos-own-tests).",
        "",
        f"PyMongo {version}: **{total['passed']} of {total['public']} public tests pass ({share:.1%})**."
        f" {total['private']} more touch private names,",
        f"{total['skipped']} skip themselves on PyMongo with this server, and {total['fails on PyMongo']} fail on"
        " PyMongo itself here.",
        "",
        "Each figure is of the first try: what fails is not tried again, and a file is run anew only after the",
        "driver was changed. PyMongo's own warning filters were on (`filterwarnings = error`) for both drivers.",
        "The runner starts nothing by private names: a client watches its servers as a user's would.",
        "",
        "## Public tests that do not pass",
        "",
        "By reason. *asyncio* and *blocking*: only that one of the two files has the failure.",
        *_by_reason(failing),
        "## Failing on PyMongo itself",
        "",
        "Against the same server, so they say nothing about this driver.",
        "",
        *_by_cause(foreign),
        "",
        "## By file",
        "",
        "Tests that pass, of the public ones, for each face; the other columns count both faces.",
        "",
        *_by_file(figures),
        "",
        "## What the private tests touch first",
        "",
        "| name | tests |",
        "|---|---|",
        *(f"| `{name}` | {count} |" for name, count in private.most_common(30)),
    ]
    return "\n".join(lines) + "\n"


def _face_of(id: str) -> tuple[str, str]:
    """Return a name that the tests of both faces share, and the face."""
    name = id.removeprefix("test/")
    if name.startswith("asynchronous/"):
        return name.removeprefix("asynchronous/").replace("::Async", "::"), "asyncio"
    return name, "blocking"


def _by_reason(failing: Iterable[tuple[str, str, str]]) -> list[str]:
    reasons: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    counts: Counter[str] = Counter()
    for id, outcome, reason in failing:
        told = reason or f"unexplained ({outcome})"
        name, face = _face_of(id)
        reasons[told][name].add(face)
        counts[told] += 1
    lines: list[str] = []
    for reason, count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])):
        lines += ["", f"### {reason}: {count}", ""]
        classes: defaultdict[str, list[str]] = defaultdict(list)
        for name, faces in sorted(reasons[reason].items()):
            place, _, test = name.rpartition("::")
            only = f" *{next(iter(faces))}*" if len(faces) == 1 else ""
            classes[place].append(f"`{test}`{only}")
        lines += [f"- `{place}`: {', '.join(tests)}" for place, tests in sorted(classes.items())]
    return [*lines, ""]


def _by_cause(foreign: Iterable[tuple[str, str]]) -> list[str]:
    causes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for id, message in foreign:
        known = (cause for pattern, cause in CAUSES if re.search(pattern, message))
        causes[next(known, "other")][_face_of(id)[0].partition("::")[0]] += 1
    lines = ["| why | tests | in |", "|---|---|---|"]
    for cause, files in sorted(causes.items(), key=lambda entry: (entry[0] == "other", -entry[1].total())):
        lines.append(f"| {cause} | {files.total()} | {', '.join(f'`{file}`' for file in sorted(files))} |")
    return lines


def _by_file(figures: Mapping[str, Counter[str]]) -> list[str]:
    files: defaultdict[str, dict[str, Counter[str]]] = defaultdict(dict)
    for file, counted in figures.items():
        name, face = _face_of(file)
        files[name][face] = counted
    lines = [
        "| file | blocking | asyncio | private | skipped | failing on PyMongo |",
        "|---|---|---|---|---|---|",
    ]
    for name, faces in sorted(files.items()):
        both = sum(faces.values(), Counter[str]())
        shares = [
            f"{faces[face]['passed']} of {faces[face]['public']}"
            if face in faces and faces[face]["public"]
            else "none"
            for face in ("blocking", "asyncio")
        ]
        others = [str(both[kind]) for kind in ("private", "skipped", "fails on PyMongo")]
        lines.append(f"| `{name}` | {' | '.join([*shares, *others])} |")
    return lines
