"""`mangonel advise`: which indexes are missing and which are never used, by a server's profiler and `$indexStats`."""

from __future__ import annotations

from mangonel.advice.report import Advice, Report, examine

__all__ = ["Advice", "Report", "examine"]
