"""The output of a whole run: regular progress lines, and counts at the end.

Both are for `--sample` and `--rest`, in the process that prints; a run of a few files looks as pytest makes it.
"""

from __future__ import annotations

import functools
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from mangonel.lab.fingerprint import build_of_core
from tools import official
from tools.workers import Workers

__all__ = ["ClosingLines", "Progress"]

KINDS = {
    "official": "the specifications' official cases",
    "peers": "beside PyMongo and other peers",
    "unit": "without a server",
    "others": "all others, most on a real server",
}
OUTCOMES = ("passed", "failed", "gap", "skipped")
PEERS = "bson|gridfs|pymongo|motor|beanie|mongoengine|odmantic|pymongoarrow|flask_pymongo|mongojet"
# Reasons with a line of their own; rarer reasons are added up.
REASONS = 12
# Folders whose time is printed.
FOLDERS = 8
# Seconds between two lines of progress.
EVERY = 15.0


class ClosingLines:
    """Counts tests by kind and outcome, and skips by reason, and sums the time of each folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._outcomes: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
        self._reasons: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test once: when it is called, or when it is skipped or fails outside the call."""
        folder = "/".join(Path(report.nodeid.partition("::")[0]).parts[1:2])
        self._seconds[folder] = self._seconds.get(folder, 0.0) + report.duration
        if report.when != "call" and report.passed:
            return
        outcome = "gap" if hasattr(report, "wasxfail") else report.outcome
        self._outcomes[kind_of(self._root, report.nodeid.partition("::")[0])][outcome] += 1
        if outcome == "skipped" and isinstance(report.longrepr, tuple):
            self._reasons[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print counts, reasons for skips, the core's build and the origin of official cases; nothing without tests."""
        if not any(self._outcomes.values()):
            return
        lines = [f"{'tests':<55}" + "".join(f"{name:>9}" for name in OUTCOMES)]
        for kind, counts in self._outcomes.items():
            if not counts:
                continue
            title = f"{kind}: {KINDS[kind]}"
            lines.append(f"{title:<55}" + "".join(f"{counts[name]:>9}" for name in OUTCOMES))
        lines += ["skipped, by reason"] if self._reasons else []
        common = self._reasons.most_common(REASONS)
        lines += [f"{count:>9}  {' '.join(reason.split())[:110]}" for reason, count in common]
        if rare := self._reasons.total() - sum(count for _, count in common):
            lines.append(f"{rare:>9}  {len(self._reasons) - len(common)} other reasons")
        longest = sorted(self._seconds.items(), key=lambda each: -each[1])[:FOLDERS]
        lines.append(
            "workers' time: " + ", ".join(f"{folder} {seconds:.0f} s" for folder, seconds in longest)
        )
        build = build_of_core()
        lines.append(
            f"core: {build} build" + ("; `make build` makes the release" if build == "quick" else "")
        )
        for line in (*lines, official.told()):
            terminalreporter.write_line(line)


@functools.cache
def kind_of(root: Path, file: str) -> str:
    """Return the kind of a file's tests."""
    folder = Path(file).parts[1:2]
    if folder == ("spec",):
        return "official"
    try:
        text = (root / file).read_text(encoding="utf-8")
    except OSError:
        return "others"
    if re.search(rf"^\s*(?:import|from) (?:{PEERS})\b", text, re.MULTILINE):
        return "peers"
    return "unit" if folder in (("unit",), ("tools_tests",)) else "others"


class Progress:
    """Replaces the dots if there are several workers: shows the finished, running and remaining tests."""

    def __init__(self, config: pytest.Config, workers: Workers) -> None:
        self._config = config
        self._workers = workers
        self._begun = self._told = time.monotonic()
        self._done = 0
        self._failed = 0

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Print no letters: each failure gets a line of its own, below."""
        if report.passed and report.when == "call" and not hasattr(report, "wasxfail"):
            return "passed", "", ""
        if report.skipped and not hasattr(report, "wasxfail"):
            return "skipped", "", ""
        if report.failed:
            # The words appear in the summary at the end.
            return ("failed", "", "FAILED") if report.when == "call" else ("error", "", "ERROR")
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report a failure at once."""
        if report.failed:
            self._failed += 1
            self._write(f"failed: {report.nodeid}")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test ended; print the progress, unless that was done a moment ago."""
        self._done += 1
        now = time.monotonic()
        if now - self._told >= EVERY:
            self._told = now
            self._write(self._line(now - self._begun))

    def _line(self, seconds: float) -> str:
        total = self._workers.total
        files = dict.fromkeys(
            Path(name.partition("::")[0]).stem.removeprefix("test_") for name in self._workers.running
        )
        minutes, rest = divmod(int(seconds), 60)
        failed = f", {self._failed} failed" if self._failed else ""
        return (
            f"[{minutes}:{rest:02}] {self._done * 100 // max(total, 1)} %: {self._done} of {total} tests, "
            f"{total - self._done} left{failed}; running {', '.join(files) or 'none'}"
        )

    def _write(self, line: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)
