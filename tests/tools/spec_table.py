"""A table of the outcomes of the specification cases.

The process that prints it collects no tests when workers run them, so it reads no conftest of the specifications'
folder.
"""

from __future__ import annotations

from collections import Counter

import pytest

NAMES = ("passed", "failed", "gap", "skipped")


class SpecTable:
    """A plugin for the process that prints the summary."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Counter[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count each unified case once: when it is called, or when it is skipped before that."""
        properties = dict(report.user_properties)
        if "spec" not in properties or (report.when != "call" and not report.skipped):
            return
        outcome = "gap" if hasattr(report, "wasxfail") else report.outcome
        self._outcomes.setdefault(str(properties["spec"]), Counter())[outcome] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the counts by specification and face."""
        if not self._outcomes:
            return
        terminalreporter.write_line(f"{'specification, face':<55}" + "".join(f"{name:>9}" for name in NAMES))
        for spec, counts in sorted(self._outcomes.items()):
            terminalreporter.write_line(f"{spec:<55}" + "".join(f"{counts[name]:>9}" for name in NAMES))
