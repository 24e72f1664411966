"""Reading 150 times 200 documents into objects: from the server, and from bytes alone."""

from __future__ import annotations

from typing import Any

from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._articles import COUNT, fill, stored

TIMES = 150


class ReadTask(Task):
    """Read the whole collection so many times; a sample is all of them."""

    def __init__(self, bench: Bench, kind: str, times: int) -> None:
        fill(bench.target, kind)
        self._kind = kind
        self._times = times
        self._adapter = bench.connect()

    def verify(self) -> str:
        """Compare what is read with what was stored."""
        found = self._adapter.read(self._kind, 1)
        return check(self._kind, [self._adapter.plain(self._kind, one) for one in found])

    def warm_up(self) -> None:
        """Read some."""
        self._adapter.read(self._kind, 3)

    def act(self) -> int:
        """Read them all."""
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
        """Compare the objects with the documents."""
        found = self._adapter.decode(self._kind, self._data)
        return check(self._kind, [self._adapter.plain(self._kind, one) for one in found])

    def warm_up(self) -> None:
        """Decode some."""
        for _ in range(5):
            self._adapter.decode(self._kind, self._data)

    def act(self) -> int:
        """Decode them all."""
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
        few = size.choose(2, 4)
        times = size.choose(30, TIMES, 15)

        def part(name: str, title: str, *needs: str, **more: Any) -> Part:
            return Part(
                name, title, frozenset({"objects", *needs}), times * COUNT, few, unit="document", **more
            )

        alone: dict[str, Any] = {"judge": "client", "server": False}
        return [
            part("users", "five keys, from the server", judge="client"),
            part("posts", "18 keys with lists, from the server", "posts", judge="client"),
            part("decode-users", "five keys, from bytes", "decodes-alone", **alone),
            part("decode-posts", "18 keys with lists, from bytes", "decodes-alone", "posts", **alone),
        ]

    def task(self, part: Part, bench: Bench) -> Task:
        """Return the task of the part's documents."""
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
