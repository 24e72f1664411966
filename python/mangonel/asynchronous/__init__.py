"""The asyncio classes, under the names of the modules where PyMongo has them."""
