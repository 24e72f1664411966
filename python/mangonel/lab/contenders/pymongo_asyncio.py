"""PyMongo Async on asyncio, the reference of every asynchronous comparison, and on uvloop."""

from __future__ import annotations

from typing import Any

from mangonel.lab.contender import (
    ASYNCIO,
    BULK_WRITE,
    COMPRESSES,
    DRIVER,
    EXHAUST,
    GRIDFS,
    PROGRAM,
    SESSIONS,
    SPEC,
    Contender,
    Target,
)
from mangonel.lab.contenders import _programs
from mangonel.lab.contenders._pymongo_like import AsyncAdapter


def _connect(target: Target) -> AsyncAdapter:
    from pymongo import AsyncMongoClient

    client: Any = AsyncMongoClient
    return AsyncAdapter(client, target)


def _program(kind: str, target: Target) -> str:
    return _programs.asynchronous(
        kind, target, "from pymongo import AsyncMongoClient", "AsyncMongoClient(URI)"
    )


CONTENDERS = (
    Contender(
        "pymongo-async",
        "PyMongo Async",
        DRIVER | GRIDFS | {ASYNCIO, BULK_WRITE, COMPRESSES, EXHAUST, PROGRAM, SESSIONS, SPEC},
        packages=("pymongo",),
        loop="asyncio",
        asynchronous=_connect,
        program=_program,
    ),
    Contender(
        "pymongo-uvloop",
        "PyMongo Async, uvloop",
        DRIVER | {ASYNCIO, EXHAUST, SESSIONS},
        packages=("pymongo", "uvloop"),
        loop="uvloop",
        asynchronous=_connect,
    ),
)
