"""The drivers, each on the loops that it has, their BSON functions, and the bare interpreter.

PyMongo is the reference of every blocking comparison and PyMongo Async of every asynchronous one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from mangonel.lab.contender import (
    ASYNCIO,
    BLOCKING,
    BULK_WRITE,
    CODEC,
    COMPRESSES,
    DRIVER,
    EXHAUST,
    EXITS,
    GRIDFS,
    GRIDFS_READS,
    GRIDFS_SHARES,
    IMPORT,
    PREFETCH,
    PROGRAM,
    SESSIONS,
    SPEC,
    THREADS,
    Codec,
    Contender,
    Target,
)
from mangonel.lab.contenders import _programs
from mangonel.lab.contenders._mongojet import MongojetAdapter
from mangonel.lab.contenders._pymongo_like import AsyncAdapter, BlockingAdapter

BSON_NAMES = ("mangonel.bson:encode", "mangonel.bson:decode", "mangonel.bson:decode_all")
# What this driver and PyMongo offer on either face, and what of it both loops are asked for.
FULL = DRIVER | GRIDFS | {BULK_WRITE, COMPRESSES, EXHAUST, PROGRAM, SESSIONS, SPEC}
LOOP = DRIVER | {ASYNCIO, EXHAUST, SESSIONS}
OURS = frozenset({EXITS, GRIDFS_SHARES, PREFETCH})


def _driver(
    id: str,
    title: str,
    client: str,
    offers: frozenset[str],
    *,
    loop: str = "",
    packages: tuple[str, ...] = (),
    adapter: Callable[[Target], Any] | None = None,
    codec: Callable[[], Codec] | None = None,
    expression: str = "",
    close: str = "",
    imports: str = "",
) -> Contender:
    """Return a driver.

    Args:
        client: its class, as "module:name".
        adapter: one of its own; else the class is called as PyMongo's is.
        expression: what a program makes its client with, where it is not the class called with the URI.
        close: how a program closes it, where that differs.
        imports: what the import's time is taken of, where that is not the class.
    """
    module, _, name = client.partition(":")

    def connect(target: Target) -> Any:
        found: Any = getattr(importlib.import_module(module), name)
        return (AsyncAdapter if loop else BlockingAdapter)(found, target)

    def program(kind: str, target: Target) -> str:
        statement = imports if imports and kind == "import" else f"from {module} import {name}"
        closing = close or ("await client.close()" if loop else "client.close()")
        make = expression or f"{name}(URI)"
        return _programs.program(kind, target, statement, make, is_async=bool(loop), close=closing)

    return Contender(
        id,
        title,
        offers,
        packages=packages or (module.partition(".")[0],),
        names=(client,),
        loop=loop,
        blocking=None if loop else adapter or connect,
        asynchronous=(adapter or connect) if loop else None,
        codec=codec,
        program=program if PROGRAM in offers else None,
    )


def _codec() -> Codec:
    bson: Any = importlib.import_module("mangonel.bson")
    return Codec(bson.encode, bson.decode, bson.decode_all, bson)


def _pymongo_codec() -> Codec:
    import bson

    if not bson.has_c():
        raise RuntimeError(
            "PyMongo was installed without its C extension; comparing with it would flatter everyone"
        )
    return Codec(bson.encode, bson.decode, bson.decode_all, PyMongoTypes())


class PyMongoTypes:
    """PyMongo's BSON classes under the names that `documents` asks for."""

    def __getattr__(self, name: str) -> Any:
        import bson
        from bson import binary, code, max_key, min_key, objectid, regex, timestamp

        for module in (bson, binary, code, max_key, min_key, objectid, regex, timestamp):
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)


def _our_bson(id: str, title: str, **environment: str) -> Contender:
    offers = frozenset({CODEC})
    packages = ("mangonel",)
    return Contender(
        id, title, offers, packages=packages, names=BSON_NAMES, codec=_codec, environment=environment
    )


CONTENDERS = (
    Contender(
        "bare",
        "bare interpreter",
        frozenset({PROGRAM, IMPORT, "floor"}),
        program=lambda kind, target: "pass\n",
    ),
    # The import experiment names the client: a lazy package would otherwise import nothing.
    _driver("mangonel", "mangonel", "mangonel:MongoClient", FULL | OURS | {BLOCKING, IMPORT, THREADS}),
    _driver(
        "mangonel-asyncio",
        "mangonel, asyncio",
        "mangonel:AsyncMongoClient",
        FULL | OURS | {ASYNCIO},
        loop="asyncio",
    ),
    _driver(
        "mangonel-uvloop",
        "mangonel, uvloop",
        "mangonel:AsyncMongoClient",
        LOOP | GRIDFS | {GRIDFS_SHARES, PREFETCH},
        loop="uvloop",
        packages=("mangonel", "uvloop"),
    ),
    _our_bson("mangonel-bson", "mangonel, version-gated path"),
    _our_bson("mangonel-portable", "mangonel, documented C API", MANGONEL_DICT_LAYOUT="0"),
    _driver(
        "mongojet",
        "mongojet",
        "mongojet:create_client",
        DRIVER | GRIDFS | {ASYNCIO, PROGRAM, IMPORT, EXITS, SPEC},
        loop="asyncio",
        adapter=MongojetAdapter,
        expression="await create_client(URI)",
    ),
    _driver(
        "motor",
        "Motor",
        "motor.motor_asyncio:AsyncIOMotorClient",
        DRIVER | GRIDFS | {ASYNCIO, BULK_WRITE, PROGRAM, SPEC},
        loop="asyncio",
        packages=("motor", "pymongo"),
        close="client.close()",
    ),
    _driver(
        "pymongo",
        "PyMongo",
        "pymongo:MongoClient",
        FULL | {BLOCKING, CODEC, IMPORT, THREADS},
        codec=_pymongo_codec,
        imports="import pymongo",
    ),
    _driver("by-chunk", "PyMongo, one find_one per chunk", "pymongo:MongoClient", frozenset({GRIDFS_READS})),
    _driver(
        "pymongo-async",
        "PyMongo Async",
        "pymongo:AsyncMongoClient",
        FULL | {ASYNCIO},
        loop="asyncio",
    ),
    _driver(
        "pymongo-uvloop",
        "PyMongo Async, uvloop",
        "pymongo:AsyncMongoClient",
        LOOP,
        loop="uvloop",
        packages=("pymongo", "uvloop"),
    ),
)
