"""Try an installed wheel without a server: codec, both faces as far as possible, command line, contents.

Knows nothing of the checkout: run it from anywhere with the interpreter that has the wheel.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib
import importlib.metadata
import subprocess
import sys

import mangonel
from mangonel import AsyncMongoClient, MongoClient
from mangonel.bson import Decimal128, ObjectId, decode, encode
from mangonel.errors import ServerSelectionTimeoutError

DOCUMENT = {
    "_id": ObjectId("0123456789abcdef01234567"),
    "name": "Ada",
    "many": [1, 2**40, 2.5, None, True, b"bytes", {"deep": ["é", Decimal128("1.5")]}],
    "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 678000),
}
# Import every module that needs no extra, to find those that the wheel lacks.
MODULES = ("gridfs", "odm", "server", "compat", "doctor", "asynchronous", "bson.json_util")
NOWHERE = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=50"


def main() -> None:
    """Raise if the installation is broken."""
    assert decode(encode(DOCUMENT)) == DOCUMENT
    for name in MODULES:
        importlib.import_module(f"mangonel.{name}")
    with MongoClient(NOWHERE) as client:
        expect_refusal(client.shop.orders.find_one)
    asyncio.run(try_asyncio())
    files = [str(path) for path in importlib.metadata.files("mangonel") or ()]
    for part in ("THIRD-PARTY-LICENSES.md", "mangonel.cdx.json", "py.typed", "api.pyi"):
        assert any(path.endswith(part) for path in files), f"{part} is not in the wheel"
    shown = subprocess.run(
        [sys.executable, "-m", "mangonel", "--version"], check=True, capture_output=True, text=True
    )
    assert shown.stdout == f"mangonel {importlib.metadata.version('mangonel')}\n", shown.stdout
    print(f"mangonel {mangonel.__version__} works on {sys.version.split()[0]}")


async def try_asyncio() -> None:
    """Run one operation on the asyncio face."""
    async with AsyncMongoClient(NOWHERE) as client:
        try:
            await client.shop.orders.find_one()
        except ServerSelectionTimeoutError:
            return
    raise AssertionError("something answers on the discard port")


def expect_refusal(call: object) -> None:
    """Run one operation of the blocking face, which finds no server."""
    try:
        call()  # type: ignore[operator]
    except ServerSelectionTimeoutError:
        return
    raise AssertionError("something answers on the discard port")


if __name__ == "__main__":
    main()
