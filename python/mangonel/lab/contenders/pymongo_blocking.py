"""PyMongo, blocking: the reference of every blocking comparison. Also its C extension's BSON functions."""

from __future__ import annotations

from typing import Any

from mangonel.lab.contender import (
    BLOCKING,
    BULK_WRITE,
    CODEC,
    COMPRESSES,
    DRIVER,
    EXHAUST,
    GRIDFS,
    GRIDFS_READS,
    IMPORT,
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


def _connect(target: Target) -> BlockingAdapter:
    from pymongo import MongoClient

    client: Any = MongoClient
    return BlockingAdapter(client, target)


def _codec() -> Codec:
    import bson

    if not bson.has_c():
        raise RuntimeError(
            "PyMongo was installed without its C extension; comparing with it would flatter everyone"
        )
    return Codec(bson.encode, bson.decode, bson.decode_all, _Types())


class _Types:
    """The BSON classes under the names that `documents` asks for."""

    def __getattr__(self, name: str) -> Any:
        import bson
        from bson import binary, code, max_key, min_key, objectid, regex, timestamp

        for module in (bson, binary, code, max_key, min_key, objectid, regex, timestamp):
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)


def _program(kind: str, target: Target) -> str:
    return _programs.blocking(
        kind,
        target,
        "import pymongo" if kind == "import" else "from pymongo import MongoClient",
        "MongoClient(URI)",
    )


CONTENDERS = (
    Contender(
        "pymongo",
        "PyMongo",
        DRIVER
        | GRIDFS
        | {BLOCKING, BULK_WRITE, SPEC, COMPRESSES, THREADS, EXHAUST, CODEC, PROGRAM, IMPORT, SESSIONS},
        packages=("pymongo",),
        blocking=_connect,
        codec=_codec,
        program=_program,
    ),
    Contender(
        "by-chunk",
        "PyMongo, one find_one per chunk",
        frozenset({GRIDFS_READS}),
        packages=("pymongo",),
        blocking=_connect,
    ),
)
