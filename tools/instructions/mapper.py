"""The mapper's rows for `tools/instructions.py`: documents to objects, and one changed field up to the encoded update.

If two attributes share an entry of the interpreter's cache, a row takes up to half as much again; which attributes do
so depends on addresses and on the version tags of classes. So these rows run in their own processes, several times with
new classes, and the smallest count wins.
"""

from __future__ import annotations

import itertools
from functools import partial

from counted import play

from mangonel import _core, bson
from mangonel.lab import documents
from mangonel.lab.contender import Target
from mangonel.lab.contenders import mappers
from mangonel.lab.experiments.mappers import article

USERS, POSTS = 100, 20
ROUNDS = 4
# No server listens here, and the rows need none.
NOWHERE = Target("mongodb://127.0.0.1:1/?connect=false", "shop", "counted")


def main() -> None:
    """Play every row, round after round."""
    values = list(documents.users(bson, USERS))
    users = b"".join(map(bson.encode, values))
    # Fixed ids, the same in each run.
    posts = [
        bson.encode({"_id": bson.ObjectId(f"{number:024x}"), **article(number)}) for number in range(POSTS)
    ]
    all_posts = b"".join(posts)
    articles = [bson.decode(post) for post in posts]
    encode = _core.odm_encode
    for _ in range(ROUNDS):
        eager, lazy = mappers.OdmReader(NOWHERE), mappers.LazyOdmReader(NOWHERE)
        (eager.post,) = eager.decode(mappers.POSTS, posts[0])
        make, make_post = (eager.models[kind].from_dict for kind in (mappers.USERS, mappers.POSTS))
        play(
            {
                f"read_{USERS}_users": (partial(eager.decode, mappers.USERS), users),
                f"read_{POSTS}_posts": (partial(eager.decode, mappers.POSTS), all_posts),
                f"read_{POSTS}_posts_lazily": (partial(lazy.decode, mappers.POSTS), all_posts),
                f"make_{USERS}_users": (lambda values, make=make: [make(each) for each in values], values),
                # Their embedded documents stay BSON.
                f"make_and_encode_{POSTS}_posts": (
                    lambda articles, make=make_post: [encode(make(each)) for each in articles],
                    articles,
                ),
                "save_one_field": (
                    lambda values, save=eager.prepare: save(next(values)),
                    itertools.count(1_000_000),
                ),
            }
        )


if __name__ == "__main__":
    main()
