"""The asyncio database, under the name of the module where PyMongo has it."""

from __future__ import annotations

from mangonel.api import AsyncDatabase

__all__ = ["AsyncDatabase"]
