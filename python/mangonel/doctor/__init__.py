"""`mangonel doctor URI`: resolves, connects, explains what keeps a client from its deployment, and what to do about it.

Stands beside applications, not below them: nothing of the driver imports it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mangonel.doctor.checkup import examine
    from mangonel.doctor.report import Finding, Report

__all__ = ["Finding", "Report", "examine"]


def __getattr__(name: str) -> Any:
    # The command line needs the arguments only, for its help; sockets and the driver come with the check-up.
    if name == "examine":
        from mangonel.doctor.checkup import examine

        return examine
    if name in ("Finding", "Report"):
        from mangonel.doctor import report

        return getattr(report, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
