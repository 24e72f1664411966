"""Migrations of stored documents: versioned, resumable, in both directions, alongside running writers."""

from __future__ import annotations

from mangonel.odm.migrations.files import Migration, load
from mangonel.odm.migrations.runner import MigrationError, Progress, Runner

__all__ = ["Migration", "MigrationError", "Progress", "Runner", "load"]
