"""The codec's rows for `tools/instructions.py`: encoding and decoding between BSON and Python objects."""

from __future__ import annotations

from counted import play

from mangonel import bson
from mangonel.lab import documents

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
    play(rows)


if __name__ == "__main__":
    main()
