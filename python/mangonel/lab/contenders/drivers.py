"""The drivers, each on the loops that it has, their BSON functions, and the bare interpreter.

PyMongo is the reference of every blocking comparison and PyMongo Async of every asynchronous one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from mangonel.lab import contender as flags
from mangonel.lab.contender import Codec, Contender, Target
from mangonel.lab.contenders import _programs
from mangonel.lab.contenders._faces import named
from mangonel.lab.contenders._mongojet import MongojetAdapter
from mangonel.lab.contenders._pymongo_like import AsyncAdapter, BlockingAdapter

BSON_NAMES = ("mangonel.bson:encode", "mangonel.bson:decode", "mangonel.bson:decode_all")
# What drivers offer beside reading and writing: files, programs and the specification's tasks; and on two loops.
FILES = flags.DRIVER | flags.GRIDFS
TASKS = FILES | {flags.PROGRAM, flags.SPEC}
FULL = TASKS | {flags.BULK_WRITE, flags.COMPRESSES, flags.EXHAUST, flags.SESSIONS}
LOOP = flags.DRIVER | {flags.EXHAUST, flags.SESSIONS}
OURS = frozenset({flags.EXITS, flags.GRIDFS_SHARES, flags.PREFETCH})
THREADED = frozenset({flags.IMPORT, flags.THREADS})


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
        return (AsyncAdapter if loop else BlockingAdapter)(named(client), target)

    def program(kind: str, target: Target) -> str:
        statement = imports if imports and kind == "import" else f"from {module} import {name}"
        closing = close or ("await client.close()" if loop else "client.close()")
        make = expression or f"{name}(URI)"
        return _programs.program(kind, target, statement, make, is_async=bool(loop), close=closing)

    return Contender(
        id,
        title,
        offers | ({flags.ASYNCIO if loop else flags.BLOCKING} if flags.DECODES in offers else set()),
        packages=packages or (module.partition(".")[0],),
        names=(client,),
        loop=loop,
        blocking=None if loop else adapter or connect,
        asynchronous=(adapter or connect) if loop else None,
        codec=codec,
        program=program if flags.PROGRAM in offers else None,
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
    about: Any = {"packages": ("mangonel",), "names": BSON_NAMES, "environment": environment}
    return Contender(id, title, frozenset({flags.CODEC}), codec=_codec, **about)


OUR_LOOP, THEIR_LOOP = "mangonel:AsyncMongoClient", "pymongo:AsyncMongoClient"
THEIR_CLIENT, MOTORS_CLIENT = "pymongo:MongoClient", "motor.motor_asyncio:AsyncIOMotorClient"
BARE = frozenset({flags.PROGRAM, flags.IMPORT, "floor"})
CHUNKED = frozenset({flags.GRIDFS_READS})
CONTENDERS = (
    Contender("bare", "bare interpreter", BARE, program=lambda kind, target: "pass\n"),
    # The import experiment names the client: a lazy package would otherwise import nothing.
    _driver("mangonel", "mangonel", "mangonel:MongoClient", FULL | OURS | THREADED),
    _driver("mangonel-asyncio", "mangonel, asyncio", OUR_LOOP, FULL | OURS, loop="asyncio"),
    _driver(
        "mangonel-uvloop",
        "mangonel, uvloop",
        OUR_LOOP,
        LOOP | FILES | (OURS - {flags.EXITS}),
        loop="uvloop",
        packages=("mangonel", "uvloop"),
    ),
    _our_bson("mangonel-bson", "mangonel, version-gated path"),
    _our_bson("mangonel-portable", "mangonel, documented C API", MANGONEL_DICT_LAYOUT="0"),
    _driver(
        "mongojet",
        "mongojet",
        "mongojet:create_client",
        TASKS | {flags.IMPORT, flags.EXITS},
        loop="asyncio",
        adapter=MongojetAdapter,
        expression="await create_client(URI)",
    ),
    _driver(
        "motor",
        "Motor",
        MOTORS_CLIENT,
        TASKS | {flags.BULK_WRITE},
        loop="asyncio",
        packages=("motor", "pymongo"),
        close="client.close()",
    ),
    _driver(
        "pymongo",
        "PyMongo",
        THEIR_CLIENT,
        FULL | THREADED | {flags.CODEC},
        codec=_pymongo_codec,
        imports="import pymongo",
    ),
    _driver("by-chunk", "PyMongo, one find_one per chunk", THEIR_CLIENT, CHUNKED),
    _driver("pymongo-async", "PyMongo Async", THEIR_LOOP, FULL, loop="asyncio"),
    _driver(
        "pymongo-uvloop",
        "PyMongo Async, uvloop",
        THEIR_LOOP,
        LOOP,
        loop="uvloop",
        packages=("pymongo", "uvloop"),
    ),
)
