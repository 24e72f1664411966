"""The drivers, their BSON functions and the bare interpreter, defined in `drivers.toml`; sites in `sites.toml`.

Their programs (`program.jinja`) are complete, as a user would write them, for experiments that time a process from
start to exit. Kinds: "import" (the import alone), "insert-1", "insert-1000", "insert-mixed" (100 inserts with 10 000
steps of plain Python after each). With the suffix `_closed` the program closes the client; otherwise it exits with an
open client.

The programs of the original comparison, with current names: "original-a" (one insert, three prints), "original-b" (1000
inserts in a loop), "original-c" (100 inserts; after each, two callbacks print 10 100 lines) and "original-c-silent".
Motor no longer has callbacks, so every driver waits for each insert, as program C did. The dict is created inside the
loop, since a second insert of the same dict fails. Each program writes the nanoseconds between its first and last line
to the descriptor INSIDE_FD, since waiting at exit is not part of the program.
"""

from __future__ import annotations

import importlib
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

from mangonel.lab.contender import Codec, Contender, Target
from mangonel.lab.contenders import _wire
from mangonel.lab.contenders._faces import named
from mangonel.lab.contenders._pymongo_like import AsyncAdapter, BlockingAdapter, uri_with

INSIDE_FD = 9  # the descriptor to which a program writes how long it took inside
# Documents that a program leaves behind.
INSERTS = {"import": 0, "insert-1": 1, "insert-1000": 1000, "insert-mixed": 100}
INSERTS |= {"original-a": 1, "original-b": 1000, "original-c": 100, "original-c-silent": 100}
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
    """PyMongo's BSON classes under the names that `documents` uses."""

    def __getattr__(self, name: str) -> Any:
        import bson
        from bson import binary, code, max_key, min_key, objectid, regex, timestamp

        for module in (bson, binary, code, max_key, min_key, objectid, regex, timestamp):
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)


def driver(row: dict[str, Any]) -> Contender:
    loop, client, offers = row.get("loop", ""), row.get("client", ""), frozenset(row["offers"])
    module, _, name = client.partition(":")

    def connect(target: Target) -> Any:
        if "adapter" in row:
            return named(row["adapter"])(target)
        return (AsyncAdapter if loop else BlockingAdapter)(named(client), target)

    def program(kind: str, target: Target) -> str:
        from jinja2 import Template

        if not client:
            return "pass\n"
        usual, (kind, _, ending) = f"from {module} import {name}", kind.partition("_")
        source = Path(__file__).with_name("program.jinja").read_text(encoding="utf-8")
        template = Template(source, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
        return template.render(
            kind=kind,
            ending=ending,
            imports=row.get("imports", usual) if kind == "import" else usual,
            client=row.get("expression", f"{name}(URI)"),
            is_async=bool(loop),
            close=row.get("close", "await client.close()" if loop else "client.close()"),
            insert="await collection.insert_one" if loop else "collection.insert_one",
            uri=repr(uri_with(target)),
            database=repr(target.database),
            collection=repr(target.collection),
            count=INSERTS[kind],
            inside_fd=INSIDE_FD,
        )

    return Contender(
        row["id"],
        row["title"],
        offers,
        packages=tuple(row["packages"]),
        names=(client,) if client else BSON_NAMES if "codec" in offers else (),
        loop=loop,
        blocking=connect if not loop and (client or "adapter" in row) else None,
        asynchronous=connect if loop else None,
        codec=(_pymongo_codec if client else _codec) if "codec" in offers else None,
        program=program if "program" in offers else None,
        environment=row.get("environment", {}),
        unsuited=_wire.unsuited if row in TABLE["floor"] else None,
    )


ON_SOCKETS = ("page-thin", "page-raw")  # they speak with a server without logins or TLS only
PREFIX, DATABASE, ORIGINAL, WIRE = "page-", "page-database", "page-original", "web-wire"
BESIDE = "live-beside"
BROWSERS = {"live-alone": 0, BESIDE: 200, "live-200": 200}


def _without(program: str, uri: str) -> str:
    from mangonel.engines.programs import Missing, find_program

    try:
        find_program(program)
    except Missing as error:
        return str(error)
    return ""


def _site(id: str, title: str, packages: list[str], program: str, offers: list[str]) -> Contender:
    unsuited = _wire.unsuited if id in ON_SOCKETS else partial(_without, program) if program else None
    return Contender(id, title, frozenset(offers), packages=tuple(packages), unsuited=unsuited)


TABLE, SITES = (
    tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    for name in ("drivers.toml", "sites.toml")
)
CONTENDERS = (
    *map(driver, TABLE["driver"]),
    *(_site(*row) for rows in SITES.values() for row in rows),
)
