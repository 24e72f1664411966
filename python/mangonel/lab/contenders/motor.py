"""Motor on asyncio: PyMongo's blocking driver in a thread pool."""

from __future__ import annotations

from typing import Any

from mangonel.lab.contender import ASYNCIO, BULK_WRITE, DRIVER, GRIDFS, PROGRAM, SPEC, Contender, Target
from mangonel.lab.contenders import _programs
from mangonel.lab.contenders._pymongo_like import AsyncAdapter


def _connect(target: Target) -> AsyncAdapter:
    from motor.motor_asyncio import AsyncIOMotorClient

    client: Any = AsyncIOMotorClient
    return AsyncAdapter(client, target)


def _program(kind: str, target: Target) -> str:
    imports = "from motor.motor_asyncio import AsyncIOMotorClient"
    return _programs.asynchronous(kind, target, imports, "AsyncIOMotorClient(URI)", close="client.close()")


CONTENDERS = (
    Contender(
        "motor",
        "Motor",
        DRIVER | GRIDFS | {ASYNCIO, BULK_WRITE, PROGRAM, SPEC},
        packages=("motor", "pymongo"),
        loop="asyncio",
        asynchronous=_connect,
        program=_program,
    ),
)
