"""Changing one scalar of a loaded post and saving it: up to the wire, and the whole of it."""

from __future__ import annotations

from mangonel.lab.contenders.mappers import SAVES_FIELDS
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments._articles import fill
from mangonel.lab.experiments._parts import rows


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
        self._some(20)

    def act(self) -> int:
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
        few, alone, stored = (2, 4), {"server": False}, {"write_concern": "w:1"}
        made = "set, and the update made; nothing sent"
        table = [
            ("prepare", made, SAVES_FIELDS, (2000, 20_000, 500), few, alone),
            ("save", "set and saved", SAVES_FIELDS, (300, 3000, 60), few, stored),
        ]
        return rows(size, table, judge="client")

    def task(self, part: Part, bench: Bench) -> Task:
        return SaveTask(bench, part.operations, part.id == "save")


EXPERIMENT = SaveOneField()
