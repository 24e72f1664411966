"""Sites for the experiment `web`: the same page of posts from each driver and mapper, and without a database."""

from __future__ import annotations

from mangonel.lab.contender import Contender
from mangonel.lab.contenders import _wire

PAGE = "page"
DATABASE = "page-database"
SHORT = "page-short"
SHORT_DELAYED = "page-short-delayed"
ORIGINAL = "page-original"

PREFIX = "page-"

PYMONGO, MONGOENGINE, BEANIE = ("pymongo",), ("mongoengine", "pymongo"), ("beanie", "pymongo")
FLAGS = {"p": PAGE, "b": DATABASE, "s": SHORT, "d": SHORT_DELAYED, "o": ORIGINAL}

# Name, title, packages, and how it takes part: "p" in the long form, "b" with a database, "s" in the short form, "d" in
# that with a database far away as well, "o" in the original's form. A mapper on the shim finds its PyMongo in this
# package, whether or not PyMongo is installed.
_ROWS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("nothing", "no database, the same page", (), "ps"),
    ("ready", "no database, ready bytes", (), "ps"),
    ("thin", "floor: thin asyncio, PyMongo's C codec", PYMONGO, "pb"),
    ("pymongo", "PyMongo", PYMONGO, "pbo"),
    ("pymongo-gevent", "PyMongo, gevent", (*PYMONGO, "gevent"), "pbo"),
    ("pymongo-threads", "PyMongo, 16 threads", PYMONGO, "pbsd"),
    ("pymongo-async", "PyMongo Async", PYMONGO, "pbsd"),
    ("motor", "Motor", ("motor", "pymongo"), "pbsdo"),
    ("mongojet", "mongojet", ("mongojet",), "pbsd"),
    ("mongoengine", "MongoEngine", MONGOENGINE, "pbso"),
    ("beanie", "Beanie", BEANIE, "pbs"),
    ("mangonel", "mangonel, dicts", (), "pbsd"),
    ("mangonel-json", "mangonel, to_json", (), "pbsd"),
    ("mangonel-blocking", "mangonel, blocking in the loop", (), "pbo"),
    ("mangonel-threads", "mangonel, 16 threads", (), "pb"),
    ("mangonel-gevent", "mangonel, gevent", ("gevent",), "pbo"),
    ("mongoengine-mangonel", "MongoEngine on mangonel", ("mongoengine",), "pbs"),
    ("beanie-mangonel", "Beanie on mangonel", ("beanie",), "pbs"),
)

CONTENDERS = tuple(
    Contender(
        PREFIX + name,
        title,
        frozenset(FLAGS[letter] for letter in how),
        packages=(*(("mangonel",) if "mangonel" in name else ()), "tornado", *packages),
        unsuited=_wire.unsuited if name == "thin" else None,
    )
    for name, title, packages, how in _ROWS
)
