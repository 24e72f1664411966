"""A whole Python program: connect, insert one document, close. Started as `once.py ROW once URI DATABASE SCRATCH`.

It imports no more than such a program needs, so that its start time is the driver's.
"""

import sys
from datetime import datetime
from importlib import import_module

DOCUMENT = {
    "name": "Ada Lovelace 00000",
    "email": "ada.00000@example.org",
    "city": "Ankara",
    "n": 0,
    "age": 18,
    "score": 0.5,
    "active": True,
    "created": datetime(2026, 1, 1),
    "note": "member of the analytical society since the engine was drawn up",
}


def main() -> None:
    """Run the program on the row's face."""
    row, _, uri, database, scratch = sys.argv[1:]
    driver = import_module("pymongo" if row.startswith("pymongo") else "mangonel")
    if not row.endswith(("asyncio", "uvloop")):
        with driver.MongoClient(uri) as client:
            client[database][scratch].insert_one(DOCUMENT)
        return
    import asyncio

    async def insert() -> None:
        async with driver.AsyncMongoClient(uri) as client:
            await client[database][scratch].insert_one(DOCUMENT)

    if row.endswith("uvloop"):
        import uvloop

        uvloop.run(insert())
    else:
        asyncio.run(insert())


main()
