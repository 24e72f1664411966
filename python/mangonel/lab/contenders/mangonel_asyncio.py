"""This package's driver on asyncio and on uvloop."""

from __future__ import annotations

import importlib
from typing import Any

from mangonel.lab.contender import (
    ASYNCIO,
    BULK_WRITE,
    COMPRESSES,
    DRIVER,
    EXHAUST,
    EXITS,
    GRIDFS,
    GRIDFS_SHARES,
    PREFETCH,
    PROGRAM,
    SESSIONS,
    SPEC,
    Contender,
    Target,
)
from mangonel.lab.contenders import _programs
from mangonel.lab.contenders._pymongo_like import AsyncAdapter


def _connect(target: Target) -> AsyncAdapter:
    client: Any = importlib.import_module("mangonel").AsyncMongoClient
    return AsyncAdapter(client, target)


def _program(kind: str, target: Target) -> str:
    return _programs.asynchronous(
        kind, target, "from mangonel import AsyncMongoClient", "AsyncMongoClient(URI)"
    )


CONTENDERS = (
    Contender(
        "mangonel-asyncio",
        "mangonel, asyncio",
        DRIVER
        | GRIDFS
        | {GRIDFS_SHARES, ASYNCIO, BULK_WRITE, COMPRESSES, EXHAUST, EXITS, PREFETCH, PROGRAM, SESSIONS, SPEC},
        packages=("mangonel",),
        names=("mangonel:AsyncMongoClient",),
        loop="asyncio",
        asynchronous=_connect,
        program=_program,
    ),
    Contender(
        "mangonel-uvloop",
        "mangonel, uvloop",
        DRIVER | GRIDFS | {GRIDFS_SHARES, ASYNCIO, EXHAUST, PREFETCH, SESSIONS},
        packages=("mangonel", "uvloop"),
        names=("mangonel:AsyncMongoClient",),
        loop="uvloop",
        asynchronous=_connect,
    ),
)
