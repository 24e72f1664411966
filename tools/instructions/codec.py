"""What `tools/instructions.py` counts of the codec between BSON and Python's objects: encode and decode, row by row.

Counting begins with a call of getppid and ends with one of getsid: names of the C library, which callgrind knows in
every build. Prints the name of every row and how often it did its work.
"""

from __future__ import annotations

import os

from mangonel import bson
from mangonel.lab import documents

TIMES = 20
USERS = 100


def main() -> None:
    """Play every row."""
    rows = {}
    shapes = {
        "flat": documents.flat(bson),
        "deep": documents.deep(),
        "full": documents.full(bson),
        "tweet": documents.tweet(),
        "small": documents.small(),
    }
    for name, document in shapes.items():
        data = bson.encode(document)
        rows[f"encode_{name}"] = (bson.encode, document)
        rows[f"decode_{name}"] = (bson.decode, data)
    users = b"".join(map(bson.encode, documents.users(bson, USERS)))
    rows[f"decode_{USERS}_users"] = (bson.decode_all, users)
    for name, (call, argument) in rows.items():
        # What is kept of keys and shapes is filled, and the interpreter has specialised the loop.
        for _ in range(TIMES):
            call(argument)
        os.getppid()
        for _ in range(TIMES):
            call(argument)
        os.getsid(0)
        print(name, TIMES)


if __name__ == "__main__":
    main()
