"""The asyncio client, under the name of the module where PyMongo has it."""

from __future__ import annotations

from mangonel.api import AsyncMongoClient

__all__ = ["AsyncMongoClient"]
