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

import textwrap

from mangonel.lab.contender import Target
from mangonel.lab.contenders._pymongo_like import uri_with

INSIDE_FD = 9
ORIGINAL_INSERTS = {"original-a": 1, "original-b": 1000, "original-c": 100, "original-c-silent": 100}
COUNTS = {"insert-1": 1, "insert-1000": 1000, "insert-mixed": 100}
CPU_WORK = """\
    for _ in range(100):
        for _ in range(100):
            total += 1
"""
CALLBACKS = """\
count = 0
def tell(*words):
    if PRINTS:
        print(*words)
def callback1(number):
    global count
    for step in range(100):
        tell("callback 1", step)
        callback2(number, step)
        count += 1
def callback2(number, step):
    for line in range(100):
        tell("callback 2", number, step, line)
"""


def _original(kind: str, target: Target, insert: str) -> str:
    """Return the part of an original program that comes after its client is made."""
    lines = [f"collection = client[{target.database!r}][{target.collection!r}]"]
    if kind == "original-a":
        lines += ["print('connected')", "print('inserting')"]
        lines += [insert + '({"1": "one", "2": "two"})', "print('inserted')"]
    elif kind == "original-b":
        lines += ["for number in range(1000):", "    " + insert + '({"1": "one", "2": "two"})']
    else:
        lines += ["global PRINTS"] if insert.startswith("await") else []
        lines += [
            f"PRINTS = {kind == 'original-c'}",
            "for number in range(100):",
            "    " + insert + '({str(number): "one", str(number + 1): "two"})',
            "    tell('inserted', number)",
            "    callback1(number)",
        ]
    lines.append(f"os.write({INSIDE_FD}, str(time.perf_counter_ns() - BEGUN).encode())")
    return "\n".join(lines) + "\n"


def blocking(kind: str, target: Target, imports: str, client: str) -> str:
    """Return a blocking program; `client` is an expression in which URI stands for the connection string."""
    if kind in ORIGINAL_INSERTS:
        head = f"URI = {uri_with(target)!r}\nclient = {client}\n"
        body = _original(kind, target, "collection.insert_one")
        return f"import os, time\nBEGUN = time.perf_counter_ns()\n{imports}\n{CALLBACKS}{head}{body}"
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
    if kind in ORIGINAL_INSERTS:
        body = _original(kind, target, "await collection.insert_one")
        inner = textwrap.indent(f"URI = {uri_with(target)!r}\nclient = {client}\n{body}", "    ")
        head = f"import os, time\nBEGUN = time.perf_counter_ns()\nimport asyncio\n{imports}\n{CALLBACKS}"
        return f"{head}async def main():\n{inner}{run or 'asyncio.run(main())'}\n"
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
