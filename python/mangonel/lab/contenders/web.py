"""Sites for the experiment `websessions`: the same site without sessions, and with them in each store."""

from __future__ import annotations

from collections.abc import Callable

from mangonel.lab.contender import Contender

WEB = "web"
DURABLE = "web-durable"
LAYER = "web-layer"
STORED = "web-stored"  # keeps websessions where several requests meet
KNOWN = "web-known"  # knows a visitor again
COUNTED = "web-counted"  # its instructions for a reader are counted
STALLS = "web-stalls"  # has a server or a lock that can be stopped
WIRE = "web-wire"  # has a connection, which can be encrypted

TITLES = {
    "none": "no sessions",
    "memory": "memory",
    "cookie": "sealed cookie",
    "mongodb": "MongoDB (mangonel)",
    "pymongo": "MongoDB (PyMongo Async)",
    "redis": "Redis",
    "memcached": "Memcached",
    "mysql": "MariaDB",
    "postgresql": "PostgreSQL",
    "sqlite": "SQLite",
    "directory": "directory of files",
}

# The program that each engine needs; MongoDB is the lab's own.
PROGRAMS = {"redis": "redis-server", "memcached": "memcached", "mysql": "mariadbd", "postgresql": "initdb"}
CLIENTS = {
    "redis": ("redis",),
    "memcached": ("emcache",),
    "mysql": ("asyncmy",),
    "postgresql": ("asyncpg",),
    "sqlite": ("aiosqlite",),
    "pymongo": ("pymongo",),
    "cookie": ("cryptography",),
}


def _needs(store: str) -> Callable[[str], str]:
    def unsuited(uri: str) -> str:
        from mangonel.engines.programs import Missing, find_program

        try:
            if store in PROGRAMS:
                find_program(PROGRAMS[store])
        except Missing as error:
            return str(error)
        return ""

    return unsuited


def _offers(store: str) -> frozenset[str]:
    offers = {WEB}
    if store not in ("memory", "cookie", "memcached"):
        offers.add(DURABLE)
    # A reader who is nobody calls no store, so one store stands for all; this one has no threads to be counted.
    if store in ("none", "memory"):
        offers.add(COUNTED)
    if store == "memory":
        offers.add(LAYER)
    if store not in ("none", "cookie", "memory", "sqlite", "directory"):
        offers.add(WIRE)
    if store != "none":
        offers.add(KNOWN)
    if store not in ("none", "cookie"):
        offers.add(STORED)
    if store not in ("none", "cookie", "memory"):
        offers.add(STALLS)
    return frozenset(offers)


CONTENDERS = tuple(
    Contender(
        id=f"web-{store}",
        title=title,
        offers=_offers(store),
        packages=("mangonel", "tornado", "msgspec", *CLIENTS.get(store, ())),
        unsuited=_needs(store),
    )
    for store, title in TITLES.items()
)
