"""A MongoDB stack for Python: one driver with a blocking and an asyncio face, PyMongo's names, a Rust core."""

from mangonel.api import AsyncMongoClient, MongoClient

__all__ = ["AsyncMongoClient", "MongoClient"]
