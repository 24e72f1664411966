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

SERVED = frozenset({DURABLE, STORED, KNOWN, STALLS, WIRE})
# Store, title, the client that it needs, the program, and what it offers. MongoDB's program is the lab's own. A reader
# who is nobody calls no store, so one store is counted for all: one without threads.
_ROWS: tuple[tuple[str, str, str, str, frozenset[str]], ...] = (
    ("none", "no sessions", "", "", frozenset({DURABLE, COUNTED})),
    ("memory", "memory", "", "", frozenset({LAYER, COUNTED, STORED, KNOWN})),
    ("cookie", "sealed cookie", "cryptography", "", frozenset({KNOWN})),
    ("mongodb", "MongoDB (mangonel)", "", "", SERVED),
    ("pymongo", "MongoDB (PyMongo Async)", "pymongo", "", SERVED),
    ("redis", "Redis", "redis", "redis-server", SERVED),
    ("memcached", "Memcached", "emcache", "memcached", SERVED - {DURABLE}),
    ("mysql", "MariaDB", "asyncmy", "mariadbd", SERVED),
    ("postgresql", "PostgreSQL", "asyncpg", "initdb", SERVED),
    ("sqlite", "SQLite", "aiosqlite", "", SERVED - {WIRE}),
    ("directory", "directory of files", "", "", SERVED - {WIRE}),
)
STORES = tuple(row[0] for row in _ROWS)


def _needs(program: str) -> Callable[[str], str]:
    def unsuited(uri: str) -> str:
        from mangonel.engines.programs import Missing, find_program

        try:
            find_program(program)
        except Missing as error:
            return str(error)
        return ""

    return unsuited


CONTENDERS = tuple(
    Contender(
        f"web-{store}",
        title,
        offers | {WEB},
        packages=("mangonel", "tornado", "msgspec", *([client] if client else [])),
        unsuited=_needs(program) if program else None,
    )
    for store, title, client, program, offers in _ROWS
)
