"""The report of a check-up: findings by step, with severity and presentation. Does no I/O and holds no secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

OK, NOTE, WARNING, FAILURE, SKIPPED = "ok", "note", "warning", "failure", "skipped"

# In the order of the check-up: step -> its title, and the exit status if it is the first to fail.
STEPS: dict[str, tuple[str, int]] = {
    "uri": ("URI", 3),
    "dns": ("DNS", 4),
    "tcp": ("TCP", 5),
    "tls": ("TLS", 6),
    "hello": ("Hello", 7),
    "auth": ("Login", 8),
    "topology": ("Topology", 9),
    "versions": ("Versions", 11),
    "latency": ("Latency", 12),
    "concerns": ("Concerns", 13),
    "pool": ("Pool", 14),
    "clock": ("Clock", 15),
    "limits": ("Limits", 16),
    "driver": ("Driver", 17),
}
EXIT_STRICT = 10  # a warning, with `strict`

_RANKS = {OK: 0, SKIPPED: 0, NOTE: 0, WARNING: 1, FAILURE: 2}
_MARKS = {OK: "✓", NOTE: "·", WARNING: "!", FAILURE: "✗", SKIPPED: "-"}
_COLOURS = {OK: "32", NOTE: "36", WARNING: "33", FAILURE: "31", SKIPPED: "90"}
_INDENT = " " * 13


class Finding(NamedTuple):
    """One result of the check-up.

    Args:
        step: a key of STEPS.
        status: OK, NOTE, WARNING, FAILURE or SKIPPED.
        code: identifies the kind of finding to programs, such as `tcp-refused`; it stays the same between versions.
        text: the finding, for people.
        about: the server, as `host:port`; empty for the whole deployment or this machine.
        remedy: what to do; empty if nothing needs to be done.
        facts: the values in `text`, for programs.
    """

    step: str
    status: str
    code: str
    text: str
    about: str = ""
    remedy: str = ""
    facts: Mapping[str, Any] = {}

    def lines(self, *, colour: bool = False) -> str:
        """Return the finding as text, without a final newline.

        Args:
            colour: add the escape codes of a terminal.

        Example:
            >>> Finding("tcp", "ok", "tcp-reached", "connected in 0.2 ms", "db:27017").lines()
            ' ✓ TCP       db:27017: connected in 0.2 ms'
        """
        title = STEPS[self.step][0]
        mark = _MARKS[self.status]
        if colour:
            mark = f"\033[{_COLOURS[self.status]}m{mark}\033[0m"
        about = f"{self.about}: " if self.about else ""
        shown = f" {mark} {title:<9} {about}{self.text}"
        return f"{shown}\n{_INDENT}→ {self.remedy}" if self.remedy else shown


class Report:
    """All findings of a check-up, in order.

    Args:
        uri: the connection string, without its secrets.
        listener: called with each finding as it is made.
    """

    def __init__(self, uri: str, listener: Callable[[Finding], None] | None = None) -> None:
        self.uri = uri
        self.findings: list[Finding] = []
        self._listener = listener

    def add(self, status: str, code: str, text: str, about: str = "", remedy: str = "", **facts: Any) -> None:
        """Add a finding, and tell the listener.

        Args:
            status: OK, NOTE, WARNING, FAILURE or SKIPPED.
            code: identifies the kind of finding to programs; begins with a key of STEPS.
            text: the finding, for people.
            about: the server, as `host:port`.
            remedy: what to do.
            facts: the values in `text`, for programs.

        Example:
            >>> report = Report("mongodb://db")
            >>> report.add("failure", "dns-unknown", "no such host", remedy="check the name", host="db")
            >>> report.has_failed()
            True
        """
        finding = Finding(code.partition("-")[0], status, code, text, about, remedy, facts)
        self.findings.append(finding)
        if self._listener is not None:
            self._listener(finding)

    def has_failed(self) -> bool:
        """Whether a finding so far makes the deployment unusable."""
        return any(finding.status == FAILURE for finding in self.findings)

    @property
    def status(self) -> str:
        """The worst status of all findings: OK, WARNING or FAILURE."""
        worst = max((_RANKS[finding.status] for finding in self.findings), default=0)
        return (OK, WARNING, FAILURE)[worst]

    def exit_status(self, *, strict: bool = False) -> int:
        """Return 0 if the deployment is usable, otherwise the status of the first step that failed (see STEPS).

        Args:
            strict: return EXIT_STRICT for warnings as well.

        Example:
            >>> Report("mongodb://db").exit_status()
            0
        """
        for finding in self.findings:
            if finding.status == FAILURE:
                return STEPS[finding.step][1]
        return EXIT_STRICT if strict and self.status == WARNING else 0

    def verdict(self) -> str:
        """Return the last line: whether the deployment is usable, and which steps need a look."""
        failed = [finding for finding in self.findings if finding.status == FAILURE]
        warned = sum(finding.status == WARNING for finding in self.findings)
        if failed:
            more = f", and {len(failed) - 1} more below it" if len(failed) > 1 else ""
            return f"Cannot be used as it is: {STEPS[failed[0].step][0]} failed{more}."
        if warned:
            return f"Can be used; {warned} warning{'s' if warned > 1 else ''}."
        return "All is well."

    def as_dict(self) -> dict[str, Any]:
        """Return the report as values that JSON can represent."""
        return {
            "uri": self.uri,
            "status": self.status,
            "exit_status": self.exit_status(),
            "findings": [finding._asdict() for finding in self.findings],
        }
