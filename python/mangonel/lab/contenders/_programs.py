"""Whole programs as a user would write them, for the experiments that time a process from start to exit.

Kinds: "import" (the import alone), "insert-1", "insert-1000", "insert-mixed" (100 inserts, 10 000 steps of
plain Python after each). `_closed` after a kind closes the client; otherwise it is left open at exit.
"""

from __future__ import annotations

from mangonel.lab.contender import Target
from mangonel.lab.contenders._pymongo_like import uri_with

COUNTS = {"insert-1": 1, "insert-1000": 1000, "insert-mixed": 100}
CPU_WORK = """\
    for _ in range(100):
        for _ in range(100):
            total += 1
"""


def blocking(kind: str, target: Target, imports: str, client: str) -> str:
    """Return a blocking program; `client` is an expression in which URI stands for the connection string."""
    kind, _, ending = kind.partition("_")
    if kind == "import":
        return imports + "\n"
    return (
        f"{imports}\n"
        f"URI = {uri_with(target)!r}\n"
        f"client = {client}\n"
        f"collection = client[{target.database!r}][{target.collection!r}]\n"
        "total = 0\n"
        f"for _ in range({COUNTS[kind]}):\n"
        '    collection.insert_one({"1": "one", "2": "two"})\n'
        + (CPU_WORK if kind == "insert-mixed" else "")
        + ("client.close()\n" if ending == "closed" else "")
    )


def asynchronous(
    kind: str, target: Target, imports: str, client: str, close: str = "await client.close()", run: str = ""
) -> str:
    """Return the same program on an event loop; `run` replaces `asyncio.run(main())`."""
    kind, _, ending = kind.partition("_")
    if kind == "import":
        return imports + "\n"
    work = "    ".join(["", *CPU_WORK.splitlines(keepends=True)]) if kind == "insert-mixed" else ""
    return (
        f"import asyncio\n{imports}\n"
        f"URI = {uri_with(target)!r}\n"
        "async def main():\n"
        f"    client = {client}\n"
        f"    collection = client[{target.database!r}][{target.collection!r}]\n"
        "    total = 0\n"
        f"    for _ in range({COUNTS[kind]}):\n"
        '        await collection.insert_one({"1": "one", "2": "two"})\n'
        + work
        + (f"    {close}\n" if ending == "closed" else "")
        + (run or "asyncio.run(main())")
        + "\n"
    )
