"""Changing one scalar of a loaded post and saving it: up to the wire, and the whole of it."""

from __future__ import annotations

from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._articles import fill


class SaveTask(Task):
    """Change and save one post again and again."""

    def __init__(self, bench: Bench, count: int, is_sent: bool) -> None:
        fill(bench.target, "posts")
        self._bench = bench
        self._count = count
        self._is_sent = is_sent
        self._value = 0
        self._adapter = bench.connect()
        self._adapter.load_post()

    def verify(self) -> str:
        """Save once and look into the database."""
        import pymongo

        self._adapter.save(-1)
        target = self._bench.target
        with pymongo.MongoClient(target.uri) as client:  # type: ignore[var-annotated]
            collection = client[target.database][f"{target.collection}_posts"]
            found = collection.find_one({}, sort=[("_id", 1)])
        if found is None or found["views"] != -1 or len(found["comments"]) != 5:
            raise AssertionError(f"expected a post with -1 views, found {str(found)[:200]}")
        return digest("saved")

    def warm_up(self) -> None:
        """Save some."""
        self._some(20)

    def act(self) -> int:
        """Save them all."""
        self._some(self._count)
        return self._count

    def _some(self, count: int) -> None:
        verb = self._adapter.save if self._is_sent else self._adapter.prepare
        first = self._value
        self._value += count
        for value in range(first, first + count):
            verb(value)


class SaveOneField(Experiment):
    """What a mapper needs to notice and store one changed number."""

    id = "save-one-field"
    title = "one scalar of a loaded post changed and saved"
    brief_s = 3.0
    references = ("mongoengine",)

    def parts(self, size: Size) -> list[Part]:
        """Up to the wire, and with the server."""
        needs = frozenset({"saves-fields"})
        few = size.choose(2, 4)
        return [
            Part(
                "prepare",
                "set, and the update made; nothing sent",
                needs,
                size.choose(2000, 20_000, 500),
                few,
                judge="client",
                server=False,
            ),
            Part(
                "save",
                "set and saved",
                needs,
                size.choose(300, 3000, 60),
                few,
                write_concern="w:1",
                judge="client",
            ),
        ]

    def task(self, part: Part, bench: Bench) -> Task:
        """Return the task of the part."""
        return SaveTask(bench, part.operations, part.id == "save")


EXPERIMENT = SaveOneField()
