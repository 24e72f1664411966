"""The blocking collection, under the name of the module where PyMongo has it for this face."""

from __future__ import annotations

from mangonel.collection import Collection, ReturnDocument

__all__ = ["Collection", "ReturnDocument"]
