"""The asyncio collection, under the name of the module where PyMongo has it."""

from __future__ import annotations

from mangonel.api import AsyncCollection
from mangonel.constants import ReturnDocument

__all__ = ["AsyncCollection", "ReturnDocument"]
