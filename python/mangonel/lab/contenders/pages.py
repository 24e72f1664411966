"""Sites for the experiment `web`: the same page of posts from each driver and mapper, and without a database."""

from __future__ import annotations

from collections.abc import Callable

from mangonel.lab.contender import Contender
from mangonel.lab.contenders import _wire

PAGE = "page"
DATABASE = "page-database"
SHORT = "page-short"
SHORT_DELAYED = "page-short-delayed"
ORIGINAL = "page-original"

PREFIX = "page-"

PYMONGO, MONGOENGINE, BEANIE = ("pymongo",), ("mongoengine", "pymongo"), ("beanie", "pymongo")

# Name, title, packages, and how it takes part: "s" in the short form, "d" there with a database far away as well,
# "o" in the original's form; "-" has no database.
_ROWS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("nothing", "no database, the same page", (), "s-"),
    ("ready", "no database, ready bytes", (), "s-"),
    ("thin", "floor: thin asyncio, PyMongo's C codec", PYMONGO, ""),
    ("pymongo", "PyMongo", PYMONGO, "o"),
    ("pymongo-gevent", "PyMongo, gevent", (*PYMONGO, "gevent"), "o"),
    ("pymongo-threads", "PyMongo, 16 threads", PYMONGO, "sd"),
    ("pymongo-async", "PyMongo Async", PYMONGO, "sd"),
    ("motor", "Motor", ("motor", "pymongo"), "sdo"),
    ("mongojet", "mongojet", ("mongojet",), "sd"),
    ("mongoengine", "MongoEngine", MONGOENGINE, "so"),
    ("beanie", "Beanie", BEANIE, "s"),
    ("mangonel", "mangonel, dicts", (), "sd"),
    ("mangonel-json", "mangonel, to_json", (), "sd"),
    ("mangonel-blocking", "mangonel, blocking in the loop", (), "o"),
    ("mangonel-threads", "mangonel, 16 threads", (), ""),
    ("mangonel-gevent", "mangonel, gevent", ("gevent",), "o"),
    ("mongoengine-mangonel", "MongoEngine on mangonel", MONGOENGINE, "s"),
    ("beanie-mangonel", "Beanie on mangonel", BEANIE, "s"),
)


def _offers(how: str) -> frozenset[str]:
    offers = {PAGE}
    if "-" not in how:
        offers.add(DATABASE)
    for letter, flag in (("s", SHORT), ("d", SHORT_DELAYED), ("o", ORIGINAL)):
        if letter in how:
            offers.add(flag)
    return frozenset(offers)


def _packages(name: str, packages: tuple[str, ...]) -> tuple[str, ...]:
    # A mapper on the shim finds its PyMongo in this package, whether or not PyMongo is installed.
    below = tuple(
        package for package in packages if not (name.endswith("-mangonel") and package == "pymongo")
    )
    ours = ("mangonel",) if "mangonel" in name else ()
    return (*ours, "tornado", *below)


def _unsuited(name: str) -> Callable[[str], str] | None:
    return _wire.unsuited if name == "thin" else None


CONTENDERS = tuple(
    Contender(
        id=PREFIX + name,
        title=title,
        offers=_offers(how),
        packages=_packages(name, packages),
        unsuited=_unsuited(name),
    )
    for name, title, packages, how in _ROWS
)
