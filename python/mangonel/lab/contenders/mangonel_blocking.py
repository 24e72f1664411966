"""This package's driver, blocking, and its BSON functions with and without the version-gated path."""

from __future__ import annotations

import importlib
from typing import Any

from mangonel.lab.contender import (
    BLOCKING,
    BULK_WRITE,
    CODEC,
    COMPRESSES,
    DRIVER,
    EXHAUST,
    EXITS,
    GRIDFS,
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
from mangonel.lab.contenders._pymongo_like import BlockingAdapter

BSON_NAMES = ("mangonel.bson:encode", "mangonel.bson:decode", "mangonel.bson:decode_all")


def _connect(target: Target) -> BlockingAdapter:
    client: Any = importlib.import_module("mangonel").MongoClient
    return BlockingAdapter(client, target)


def _codec() -> Codec:
    bson: Any = importlib.import_module("mangonel.bson")
    return Codec(bson.encode, bson.decode, bson.decode_all, bson)


def _program(kind: str, target: Target) -> str:
    # The import experiment names the client: a lazy package would otherwise import nothing.
    imports = "from mangonel import MongoClient"
    return _programs.blocking(kind, target, imports, "MongoClient(URI)")


CONTENDERS = (
    Contender(
        "mangonel",
        "mangonel",
        DRIVER
        | GRIDFS
        | {
            GRIDFS_SHARES,
            BLOCKING,
            BULK_WRITE,
            SPEC,
            COMPRESSES,
            THREADS,
            EXHAUST,
            PREFETCH,
            PROGRAM,
            IMPORT,
            EXITS,
            SESSIONS,
        },
        packages=("mangonel",),
        names=("mangonel:MongoClient",),
        blocking=_connect,
        program=_program,
    ),
    Contender(
        "mangonel-bson",
        "mangonel, version-gated path",
        frozenset({CODEC}),
        packages=("mangonel",),
        names=BSON_NAMES,
        codec=_codec,
    ),
    Contender(
        "mangonel-portable",
        "mangonel, documented C API",
        frozenset({CODEC}),
        packages=("mangonel",),
        names=BSON_NAMES,
        codec=_codec,
        environment={"MANGONEL_DICT_LAYOUT": "0"},
    ),
)
