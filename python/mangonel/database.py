"""The blocking database, under the name of the module where PyMongo has it."""

from __future__ import annotations

from mangonel.api import Database

__all__ = ["Database"]
