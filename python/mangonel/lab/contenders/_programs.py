"""Whole programs as a user would write them, for the experiments that time a process from start to exit.

Kinds: "import" (the import alone), "insert-1", "insert-1000", "insert-mixed" (100 inserts, 10 000 steps of
plain Python after each). `_closed` after a kind closes the client; otherwise it is left open at exit.

The programs of the original comparison, on today's names: "original-a" (one insert, three prints), "original-b" (1000
inserts in a loop), "original-c" (100 inserts; after each, two callbacks print 10 100 lines) and "original-c-silent".
Motor has no callbacks any more, so every driver waits for each insert, as program C did; the dict is made inside the
loop, since a second insert of the same one must fail. Each tells on the descriptor INSIDE_FD how many nanoseconds have
gone by from its first line to its last, as what an exit waits for is not the program.
"""

from __future__ import annotations

from pathlib import Path

from mangonel.lab.contender import Target
from mangonel.lab.contenders._pymongo_like import uri_with

INSIDE_FD = 9
# Documents that a program leaves behind.
INSERTS = {"import": 0, "insert-1": 1, "insert-1000": 1000, "insert-mixed": 100}
INSERTS |= {"original-a": 1, "original-b": 1000, "original-c": 100, "original-c-silent": 100}


def program(
    kind: str,
    target: Target,
    imports: str,
    client: str,
    *,
    is_async: bool = False,
    close: str = "client.close()",
) -> str:
    """Return a program; `client` is an expression in which URI stands for the connection string."""
    from jinja2 import Template

    source = Path(__file__).with_name("program.jinja").read_text(encoding="utf-8")
    kind, _, ending = kind.partition("_")
    template = Template(source, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    text: str = template.render(
        kind=kind,
        ending=ending,
        imports=imports,
        client=client,
        is_async=is_async,
        close=close,
        insert="await collection.insert_one" if is_async else "collection.insert_one",
        uri=repr(uri_with(target)),
        database=repr(target.database),
        collection=repr(target.collection),
        count=INSERTS[kind],
        inside_fd=INSIDE_FD,
    )
    return text
