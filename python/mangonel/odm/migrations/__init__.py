"""Changing stored documents when models change: versioned, resumable, in both directions, beside running writers."""

from __future__ import annotations

from mangonel.odm.migrations.files import Migration, load
from mangonel.odm.migrations.runner import MigrationError, Progress, Runner

__all__ = ["Migration", "MigrationError", "Progress", "Runner", "load"]
