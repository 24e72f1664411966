"""The blocking client, under the name of the module where PyMongo has it for this face."""

from __future__ import annotations

from mangonel.mongo_client import MongoClient

__all__ = ["MongoClient"]
