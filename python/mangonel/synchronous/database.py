"""The blocking database, under the name of the module where PyMongo has it for this face."""

from __future__ import annotations

from mangonel.database import Database

__all__ = ["Database"]
