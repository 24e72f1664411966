"""Reading 150 times 200 documents into objects: from the server, and from bytes alone."""

from __future__ import annotations

from typing import Any

from mangonel.lab.contenders.mappers import DECODES_ALONE, OBJECTS, POSTS_TOO
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._articles import COUNT, fill, stored
from mangonel.lab.experiments._parts import rows

TIMES = 150


class ReadTask(Task):
    """Read the whole collection so many times; a sample is all of them."""

    def __init__(self, bench: Bench, kind: str, times: int) -> None:
        fill(bench.target, kind)
        self._kind = kind
        self._times = times
        self._adapter = bench.connect()

    def verify(self) -> str:
        found = self._adapter.read(self._kind, 1)
        return check(self._kind, [self._adapter.plain(self._kind, one) for one in found])

    def warm_up(self) -> None:
        self._adapter.read(self._kind, 3)

    def act(self) -> int:
        self._adapter.read(self._kind, self._times)
        return self._times * COUNT


class DecodeTask(Task):
    """Make objects of the bytes of a reply's documents."""

    def __init__(self, bench: Bench, kind: str, times: int) -> None:
        import bson

        self._kind = kind
        self._times = times
        self._adapter = bench.connect()
        self._data = b"".join(map(bson.encode, stored(kind, bson)))

    def verify(self) -> str:
        found = self._adapter.decode(self._kind, self._data)
        return check(self._kind, [self._adapter.plain(self._kind, one) for one in found])

    def warm_up(self) -> None:
        for _ in range(5):
            self._adapter.decode(self._kind, self._data)

    def act(self) -> int:
        decode, kind, data = self._adapter.decode, self._kind, self._data
        for _ in range(self._times):
            decode(kind, data)
        return self._times * COUNT


class ReadDocuments(Experiment):
    """The work of an old Ruby comparison of mappers, and a post as blogs have it."""

    id = "read-documents"
    title = "150 x 200 documents into objects"
    passes = 2
    brief_s = 8.0
    references = ("objects-pymongo",)

    def parts(self, size: Size) -> list[Part]:
        """From the server and alone, five keys and a post."""
        times = (30 * COUNT, TIMES * COUNT, 15 * COUNT)
        few, alone = (2, 4), {"server": False}
        users, posts = (OBJECTS, DECODES_ALONE), (OBJECTS, DECODES_ALONE, POSTS_TOO)
        table = [
            ("users", "five keys, from the server", OBJECTS, times, few),
            ("posts", "18 keys with lists, from the server", (OBJECTS, POSTS_TOO), times, few),
            ("decode-users", "five keys, from bytes", users, times, few, alone),
            ("decode-posts", "18 keys with lists, from bytes", posts, times, few, alone),
        ]
        return rows(size, table, unit="document", judge="client")

    def task(self, part: Part, bench: Bench) -> Task:
        kind = part.id.removeprefix("decode-")
        times = part.operations // COUNT
        return DecodeTask(bench, kind, times) if part.id != kind else ReadTask(bench, kind, times)


def check(kind: str, found: list[dict[str, Any]]) -> str:
    """Return the digest of documents that are what was stored.

    Raises:
        AssertionError: they are others.
    """
    import bson

    expected = stored(kind, bson)
    # Mappers have orders of their own, and ids of their own class.
    plain = [digest(sorted({**one, "_id": str(one["_id"])}.items())) for one in found]
    wanted = [digest(sorted({**one, "_id": str(one["_id"])}.items())) for one in expected]
    if plain != wanted:
        place = next((n for n, pair in enumerate(zip(plain, wanted, strict=False)) if pair[0] != pair[1]), 0)
        raise AssertionError(
            f"expected {len(wanted)} {kind}, found {len(plain)}; at {place}: {str(found[place : place + 1])[:300]}"
        )
    return digest(plain)


EXPERIMENT = ReadDocuments()
