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
# Documents that a program leaves behind.
INSERTS = {"import": 0, "insert-1": 1, "insert-1000": 1000, "insert-mixed": 100}
INSERTS |= {"original-a": 1, "original-b": 1000, "original-c": 100, "original-c-silent": 100}
CPU_WORK = """\
    for _ in range(100):
        for _ in range(100):
            total += 1
"""
CALLBACKS = """\
import os, time
BEGUN = time.perf_counter_ns()
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
# What comes after the client is made; INSERT stands for the call.
ORIGINALS = {
    "original-a": """\
print('connected')
print('inserting')
INSERT({"1": "one", "2": "two"})
print('inserted')
""",
    "original-b": """\
for number in range(1000):
    INSERT({"1": "one", "2": "two"})
""",
    "original-c": """\
global PRINTS
PRINTS = True
for number in range(100):
    INSERT({str(number): "one", str(number + 1): "two"})
    tell('inserted', number)
    callback1(number)
""",
}
ORIGINALS["original-c-silent"] = ORIGINALS["original-c"].replace("True", "False")


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
    kind, _, ending = kind.partition("_")
    if kind == "import":
        return imports + "\n"
    insert = "await collection.insert_one" if is_async else "collection.insert_one"
    head, loop = f"{imports}\n", "import asyncio\n" if is_async else ""
    if kind in ORIGINALS:
        head = CALLBACKS + loop + head
        body = ORIGINALS[kind].replace("INSERT", insert)
        if not is_async:
            body = body.replace("global PRINTS\n", "")
        body += f"os.write({INSIDE_FD}, str(time.perf_counter_ns() - BEGUN).encode())\n"
    else:
        head = loop + head
        body = f'total = 0\nfor _ in range({INSERTS[kind]}):\n    {insert}({{"1": "one", "2": "two"}})\n'
        body += CPU_WORK if kind == "insert-mixed" else ""
        body += f"{close}\n" if ending == "closed" else ""
    opening = f"URI = {uri_with(target)!r}\nclient = {client}\n"
    body = f"{opening}collection = client[{target.database!r}][{target.collection!r}]\n{body}"
    if is_async:
        body = f"async def main():\n{textwrap.indent(body, '    ')}asyncio.run(main())\n"
    return head + body
