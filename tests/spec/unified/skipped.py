"""The list of cases that do not pass: `tests/spec/SKIPPED.md`, read for the gaps and written for what cannot run.

`python -m spec.unified.skipped` in `tests` writes the second table anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spec.unified.suites import Case, find_cases, suites, where_it_runs

__all__ = ["LIST", "Gap", "cannot_run_table", "find_gap", "read_gaps"]

LIST = Path(__file__).parent.parent / "SKIPPED.md"
CANNOT_RUN = "## Cannot run here"
# What the second table was written for.
VERSION = (6, 0, 99)


@dataclass(frozen=True)
class Gap:
    """A row of the first table: a case that is expected to fail, on one face or deployment or on all."""

    key: str
    face: str
    deployment: str
    reason: str

    @property
    def is_chance(self) -> bool:
        """Whether the case passes or fails as its timing falls out, so that passing is no error."""
        return self.reason.startswith("by chance")

    def is_about(self, case: Case, face: str, deployment: str) -> bool:
        """Whether the row means this run of the case."""
        return self.key == case.key and self.face in ("both", face) and self.deployment in ("all", deployment)


def read_gaps() -> list[Gap]:
    """Return the rows of the first table."""
    text = LIST.read_text().split(CANNOT_RUN)[0]
    rows = [_cells(line) for line in text.splitlines() if line.startswith("|")]
    return [Gap(*row) for row in rows[2:]]


def find_gap(gaps: list[Gap], case: Case, face: str, deployment: str) -> Gap | None:
    """Return the row about this run of a case."""
    return next((gap for gap in gaps if gap.is_about(case, face, deployment)), None)


def cannot_run_table() -> str:
    """Return the second table as the specifications' folder makes it."""
    lines = ["| cases | reason |", "|---|---|"]
    for suite in suites():
        by_file: dict[str, list[tuple[Case, str]]] = {}
        for case in find_cases(suite):
            names, reason = where_it_runs(case, VERSION)
            by_file.setdefault(case.file, []).append((case, "" if names else reason))
        for file, found in by_file.items():
            reasons = {reason for _, reason in found}
            if len(reasons) == 1:
                if reason := reasons.pop():
                    lines.append(f"| {suite}/{file}: all {len(found)} | {reason} |")
                continue
            for case, reason in found:
                if reason:
                    lines.append(f"| {case.key.replace('|', '/')} | {reason} |")
    return "\n".join(lines) + "\n"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _write() -> None:
    head = LIST.read_text().split(CANNOT_RUN)[0]
    body = LIST.read_text().split(CANNOT_RUN)[1].split("| cases |")[0]
    LIST.write_text(f"{head}{CANNOT_RUN}{body}{cannot_run_table()}")


if __name__ == "__main__":
    _write()
