"""`mangonel advise`: finds missing and unused indexes from a server's profiler and `$indexStats`."""

from __future__ import annotations

from mangonel.advice.report import Advice, Report, examine

__all__ = ["Advice", "Report", "examine"]
