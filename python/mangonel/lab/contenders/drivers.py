"""The drivers, their BSON functions, and the bare interpreter, as `drivers.toml` has them."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

from mangonel.lab.contender import Codec, Contender, Target
from mangonel.lab.contenders import _programs
from mangonel.lab.contenders._faces import named
from mangonel.lab.contenders._pymongo_like import AsyncAdapter, BlockingAdapter, MongojetAdapter

BSON_NAMES = ("mangonel.bson:encode", "mangonel.bson:decode", "mangonel.bson:decode_all")


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


def _driver(row: dict[str, Any]) -> Contender:
    loop, client, offers = row.get("loop", ""), row.get("client", ""), frozenset(row["offers"])
    module, _, name = client.partition(":")

    def connect(target: Target) -> Any:
        if row["id"] == "mongojet":
            return MongojetAdapter(target)
        return (AsyncAdapter if loop else BlockingAdapter)(named(client), target)

    def program(kind: str, target: Target) -> str:
        if not client:
            return "pass\n"
        statement = (
            row["imports"] if "imports" in row and kind == "import" else f"from {module} import {name}"
        )
        closing = row.get("close", "await client.close()" if loop else "client.close()")
        make = row.get("expression", f"{name}(URI)")
        return _programs.program(kind, target, statement, make, is_async=bool(loop), close=closing)

    return Contender(
        row["id"],
        row["title"],
        offers,
        packages=tuple(row["packages"]),
        names=(client,) if client else BSON_NAMES if "codec" in offers else (),
        loop=loop,
        blocking=connect if client and not loop else None,
        asynchronous=connect if loop else None,
        codec=(_pymongo_codec if client else _codec) if "codec" in offers else None,
        program=program if "program" in offers else None,
        environment=row.get("environment", {}),
    )


TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CONTENDERS = tuple(_driver(row) for row in TABLE["driver"])
