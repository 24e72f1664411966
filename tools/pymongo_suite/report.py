"""Compares the results of PyMongo's tests on PyMongo and on this driver; `page.py` writes the failures.

A test counts if it passes on PyMongo with the same server and touches only public names. The reasons for failures here
are in `known.toml`: ids and reasons, nothing of the tests themselves.
"""

from __future__ import annotations

import fcntl
import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pymongo_suite import touch
from pymongo_suite.page import page

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs/dev/pymongo-suite.md"
KNOWN = HERE / "known.toml"
# Files that run no driver, or need unavailable software: type checkers, and the encryption library.
LEFT_OUT = frozenset(["test_typing", "test_typing_strict"])
# The share of the public tests that must pass.
MARK = 0.99

Record = dict[str, Any]


def load(path: Path) -> dict[str, Record]:
    """Return the records of a file by test id; a test that started and did not end has crashed."""
    records: dict[str, Record] = {}
    if not path.exists():
        return records
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record.get("begun"):
            record = {"id": record["id"], "outcome": "crashed", "reason": "the process ended", "touches": []}
        records[record["id"]] = record
    return records


def files_of(path: Path) -> set[str]:
    """Return the test files that a file of results covers."""
    return {id.partition("::")[0] for id in load(path)}


def counting(peer: Path) -> set[str]:
    """Return the ids of the tests that count, as far as PyMongo's own run tells."""
    return {id for id, record in load(peer).items() if classify(record, {}) == "public"}


def merge(whole: Path, part: Path, files: Iterable[str], partly: bool) -> None:
    """Replace the results of these files in `whole` with those of `part`; with `partly`, only of the same tests."""
    with whole.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept, new = load(whole), load(part)
        if not partly:
            kept = {id: record for id, record in kept.items() if id.partition("::")[0] not in files}
        kept.update(new)
        whole.write_text("".join(json.dumps(record) + "\n" for record in kept.values()), encoding="utf-8")


def classify(peer: Record, ours: Record) -> str:
    """Return the kind of a test: public, or why it does not count."""
    outcome = peer.get("outcome")
    if outcome == "skipped":
        return "skipped"
    if outcome != "passed":
        return "fails on PyMongo"
    return "private" if _touches(peer) or _touches(ours) else "public"


def _touches(record: Record) -> list[str]:
    return [found for found in record.get("touches", ()) if touch.counts(found)]


def rows(
    peer: Mapping[str, Record], ours: Mapping[str, Record], files: Iterable[str]
) -> Iterator[tuple[str, str, Record, Record]]:
    """Yield (id, kind, PyMongo's record, ours) for each test of `files` that PyMongo's run knows."""
    wanted, ran = set(files), {id.partition("::")[0] for id in ours}
    for id, record in sorted(peer.items()):
        file = id.partition("::")[0]
        counts = classify(record, {}) == "public"
        if file in wanted and (file in ran or not counts) and record.get("outcome") != "uncollected":
            own = ours.get(id) or {
                "outcome": "absent",
                "reason": "its file could not be imported",
                "touches": [],
            }
            yield id, classify(record, own), record, own


def known() -> dict[str, str]:
    """Return the reason of each known failure, by id or start of ids."""
    if not KNOWN.exists():
        return {}
    return {
        id: entry["reason"]
        for entry in tomllib.loads(KNOWN.read_text(encoding="utf-8"))["known"]
        for id in entry["tests"]
    }


def reason_of(id: str, reasons: Mapping[str, str]) -> str:
    """Return the reason why a test is known to fail on either face, or an empty string."""
    blocking = id.removeprefix("test/").removeprefix("asynchronous/")
    for known_id, reason in reasons.items():
        if blocking == known_id or blocking.replace("::Async", "::") == known_id:
            return reason
    return ""


def compare(theirs: Path, own: Path, version: str, files: Iterable[str], *, write: bool) -> int:
    """Print the figures; with `write`, also the page. Return 0 if the goal is reached and each failure is known."""
    peer, ours = load(theirs), load(own)
    reasons = known()
    figures: defaultdict[str, Counter[str]] = defaultdict(Counter)
    failing: list[tuple[str, str, str]] = []
    private: Counter[str] = Counter()
    foreign: list[tuple[str, str]] = []
    for id, kind, record, mine in rows(peer, ours, files):
        file = id.partition("::")[0]
        passed = mine.get("outcome") == "passed"
        figures[file][kind] += 1
        if kind == "public":
            figures[file]["passed"] += passed
            if not passed:
                failing.append((id, str(mine.get("outcome")), reason_of(id, reasons)))
                if not failing[-1][2]:
                    print(f"{id} {mine.get('outcome')}: {' '.join(str(mine.get('reason')).split())[:200]}")
        elif kind == "private":
            touches = _touches(record) or _touches(mine)
            private[touches[0].partition(" in ")[0]] += 1
        elif kind == "fails on PyMongo":
            foreign.append((id, " ".join(str(record.get("reason")).split())))
    total: Counter[str] = Counter()
    for file, counted in sorted(figures.items()):
        total.update(counted)
        print(f"{file:60} {counted['passed']:4} of {counted['public']:4} public")
    share = total["passed"] / total["public"] if total["public"] else 0.0
    print(f"PyMongo {version}: {total['passed']} of {total['public']} public tests pass: {share:.1%}")
    unknown = [id for id, _, reason in failing if not reason]
    print(f"{len(failing)} do not, {len(unknown)} of them without a reason in {KNOWN.name}")
    if write:
        PAGE.write_text(page(version, figures, total, failing, private, foreign), encoding="utf-8")
    return 0 if share >= MARK and not unknown else 1
