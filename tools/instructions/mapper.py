"""What `tools/instructions.py` counts of the mapper: documents into objects, and one changed field up to the wire.

Where two attributes share a place in the interpreter's cache of them, a row takes up to a half more; which ones do
depends on addresses and on the numbers of classes. So the rows have processes of their own, apart from the codec's,
and are played several times in each, each time with new classes: the least counts.
"""

from __future__ import annotations

import itertools
from functools import partial

from counted import play

from mangonel import bson
from mangonel.lab import documents
from mangonel.lab.contender import Target
from mangonel.lab.contenders import mappers
from mangonel.lab.experiments.mappers import article

USERS, POSTS = 100, 20
ROUNDS = 4
# Nobody is there, and nobody is asked.
NOWHERE = Target("mongodb://127.0.0.1:1/?connect=false", "shop", "counted")


def main() -> None:
    """Play every row, round after round."""
    values = list(documents.users(bson, USERS))
    users = b"".join(map(bson.encode, values))
    # Ids of its own, so that each run has the same.
    posts = [
        bson.encode({"_id": bson.ObjectId(f"{number:024x}"), **article(number)}) for number in range(POSTS)
    ]
    all_posts = b"".join(posts)
    for _ in range(ROUNDS):
        eager, lazy = mappers.OdmReader(NOWHERE), mappers.LazyOdmReader(NOWHERE)
        (eager.post,) = eager.decode(mappers.POSTS, posts[0])
        make = eager.models[mappers.USERS].from_dict
        play(
            {
                f"read_{USERS}_users": (partial(eager.decode, mappers.USERS), users),
                f"read_{POSTS}_posts": (partial(eager.decode, mappers.POSTS), all_posts),
                f"read_{POSTS}_posts_lazily": (partial(lazy.decode, mappers.POSTS), all_posts),
                f"make_{USERS}_users": (lambda values, make=make: [make(each) for each in values], values),
                "save_one_field": (
                    lambda values, save=eager.prepare: save(next(values)),
                    itertools.count(1_000_000),
                ),
            }
        )


if __name__ == "__main__":
    main()
