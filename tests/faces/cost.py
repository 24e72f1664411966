"""A program that does each operation ten times, marks where one kind ends, and prints their names in order.

    python cost.py blocking mangonel URI

It is run below strace, which sees the marks as calls of getppid.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import os
import sys

TIMES = 10
STORED = 300


def operations(driver, collection, bucket, file_id):
    """Yield names and callables; each is one user call on either face."""
    one = {"_id": 1}
    yield "find_one", lambda: collection.find_one(one)
    yield "insert_one", lambda: collection.insert_one({"n": 1})
    yield "update_one", lambda: collection.update_one(one, {"$inc": {"n": 1}})
    yield "replace_one", lambda: collection.replace_one(one, {"n": 1})
    yield "delete_one", lambda: collection.delete_one({"_id": -1})
    yield "find_one_and_update", lambda: collection.find_one_and_update(one, {"$inc": {"n": 1}})
    yield "count_documents", lambda: collection.count_documents(one)
    yield "distinct", lambda: collection.distinct("n", one)
    yield "insert_many of 100", lambda: collection.insert_many([{"n": n} for n in range(100)])
    yield "bulk_write of 50", lambda: collection.bulk_write([driver.InsertOne({"n": n}) for n in range(50)])
    yield "a list of one batch", lambda: collection.find({"kept": True}, limit=100).to_list()
    yield "a list of two batches", lambda: collection.find({"kept": True}).to_list()
    yield "a small file", lambda: bucket.download_to_stream(file_id, io.BytesIO())


def main() -> None:
    face, name, uri = sys.argv[1:]
    driver = importlib.import_module(name)
    files = importlib.import_module("gridfs" if name == "pymongo" else f"{name}.gridfs")
    kept = [{"_id": n, "kept": True} for n in range(1, STORED + 1)]
    if face == "blocking":
        client = driver.MongoClient(uri)
        database = client.cost
        client.drop_database("cost")
        bucket = files.GridFSBucket(database)
        file_id = bucket.upload_from_stream("file", b"content")
        database.work.insert_many(kept)
        for label, call in operations(driver, database.work, bucket, file_id):
            call()
            os.getppid()
            for _ in range(TIMES):
                call()
            os.getppid()
            print(label)
        client.close()
        return

    async def run() -> None:
        client = driver.AsyncMongoClient(uri)
        database = client.cost
        await client.drop_database("cost")
        bucket = files.AsyncGridFSBucket(database)
        file_id = await bucket.upload_from_stream("file", b"content")
        await database.work.insert_many(kept)
        for label, call in operations(driver, database.work, bucket, file_id):
            await call()
            os.getppid()
            for _ in range(TIMES):
                await call()
            os.getppid()
            print(label)
        await client.close()

    asyncio.run(run())


if __name__ == "__main__":
    main()
