"""`mangonel doctor URI`: finds out why a client cannot connect, and names the remedy.

An application on top of the driver: nothing in the driver imports it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mangonel.doctor.checkup import examine
    from mangonel.doctor.report import Finding, Report

__all__ = ["Finding", "Report", "examine"]


def __getattr__(name: str) -> Any:
    # The command line's help needs only the arguments; sockets and the driver are imported by the check-up.
    if name == "examine":
        from mangonel.doctor.checkup import examine

        return examine
    if name in ("Finding", "Report"):
        from mangonel.doctor import report

        return getattr(report, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
