"""The list of cases that do not pass, `tests/spec/SKIPPED.md`: its gaps are read, its part on cases that cannot run is
written.

Both parts are lists of cases below a heading with their reason. `python -m spec.unified.skipped` in `tests` writes the
second part again.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from spec.unified.suites import Case, find_cases, suites, where_it_runs

__all__ = ["LIST", "Gap", "cannot_run_list", "find_gap", "read_gaps"]

LIST = Path(__file__).parent.parent / "SKIPPED.md"
CANNOT_RUN = "## Cannot run here"
# The environment for which the second part was written.
VERSION = (6, 0, 99)
_GAP = re.compile(r"- (?P<key>.*?)(?: \[(?P<face>blocking|asyncio|both), (?P<deployment>[a-z ]+)\])?")


@dataclass(frozen=True)
class Gap:
    """A case of the first part, which is expected to fail on one face or deployment, or on all."""

    key: str
    face: str
    deployment: str
    reason: str

    @property
    def is_chance(self) -> bool:
        """Return whether timing decides if the case passes, so that it is not played."""
        return self.reason.startswith("by chance")

    def is_about(self, case: Case, face: str, deployment: str) -> bool:
        """Return whether the row applies to this run of the case."""
        return self.key == case.key and self.face in ("both", face) and self.deployment in ("all", deployment)


def read_gaps() -> list[Gap]:
    """Return the cases of the first part."""
    gaps: list[Gap] = []
    reason = ""
    for line in LIST.read_text().split(CANNOT_RUN)[0].splitlines():
        if line.startswith("### "):
            reason = line.removeprefix("### ")
        elif reason and (case := _GAP.fullmatch(line)):
            gaps.append(Gap(case["key"], case["face"] or "both", case["deployment"] or "all", reason))
    return gaps


def find_gap(gaps: list[Gap], case: Case, face: str, deployment: str) -> Gap | None:
    """Return the gap that covers this run of a case."""
    return next((gap for gap in gaps if gap.is_about(case, face, deployment)), None)


def cannot_run_list() -> str:
    """Return the second part for the specifications' folder: the most common reason first."""
    counts: Counter[str] = Counter()
    lists: dict[str, list[str]] = {}
    for suite in suites():
        by_file: dict[str, list[tuple[Case, str]]] = {}
        for case in find_cases(suite):
            names, reason = where_it_runs(case, VERSION)
            by_file.setdefault(case.file, []).append((case, "" if names else reason))
        in_suite = Counter(reason for found in by_file.values() for _, reason in found)
        counts.update(in_suite)
        # A suite of which nothing runs needs no list of its files.
        main = "" if "" in in_suite else in_suite.most_common(1)[0][0]
        if main:
            lists.setdefault(main, []).append(
                f"- {suite}: all {in_suite[main]} that stand below no other reason"
            )
        for file, found in by_file.items():
            for reason, count in Counter(reason for _, reason in found).items():
                if reason in ("", main):
                    continue
                lines = lists.setdefault(reason, [])
                if count == len(found):
                    lines.append(f"- {suite}/{file}: all {count}")
                    continue
                lines.append(f"- {suite}/{file}:")
                lines += [f"    - {_name(case)}" for case, why in found if why == reason]
    del counts[""]
    parts = (
        f"### {reason}: {count}\n\n" + "\n".join(lists[reason]) + "\n"
        for reason, count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    )
    return "\n".join(parts)


def _name(case: Case) -> str:
    return case.key.partition(": ")[2]


def _write() -> None:
    head = LIST.read_text().split(CANNOT_RUN)[0]
    body = LIST.read_text().split(CANNOT_RUN)[1].split("### ")[0]
    LIST.write_text(f"{head}{CANNOT_RUN}{body}{cannot_run_list()}")


if __name__ == "__main__":
    _write()
