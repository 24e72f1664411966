"""The client's cost of the eighteen usual operations of programs, one at a time on both faces.

Every sample is as many calls as take a given processor time, written as users write them, with new arguments each
time. Two of the operations send nothing; they are called a hundred times for each operation of the others.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Size, expect
from mangonel.lab.experiments._parts import CallsTask, Tabled

STORED = 20  # documents for the reads and changes
REPEATS = 100
TEN = range(10)
BELOW_TEN = {"n": {"$lt": 10}}
PIPELINE = [{"$match": BELOW_TEN}, {"$project": {"n": 1}}]


def person(number: int) -> dict[str, Any]:
    """Return a document of four fields."""
    return {"n": number, "name": "Ada", "born": 1815, "city": "London"}


class Everyday:
    """The operations on the blocking face, by the names of the parts; each takes a number."""

    def __init__(self, adapter: Any) -> None:
        self.client: Any = adapter._client
        self.people: Any = adapter._collection
        # The client's own driver, for its write models.
        self.driver: Any = importlib.import_module(type(self.client).__module__.partition(".")[0])
        self.session: Any = None

    def close(self) -> Any:
        """End the session."""
        return self.session.end_session()

    def find_one(self, number: int) -> Any:
        return self.people.find_one({"_id": number})

    def find_one_by_projection(self, number: int) -> Any:
        return self.people.find_one({"_id": number}, {"name": 1})

    def find_one_by_sort(self, number: int) -> Any:
        return self.people.find_one({"n": {"$lte": number}}, sort=[("n", -1)])

    def find_ten(self, number: int) -> Any:
        return self.people.find(BELOW_TEN).to_list()

    def aggregate(self, number: int) -> Any:
        return list(self.people.aggregate(PIPELINE))

    def count_documents(self, number: int) -> Any:
        return self.people.count_documents(BELOW_TEN)

    def distinct(self, number: int) -> Any:
        return self.people.distinct("n", BELOW_TEN)

    def insert_one(self, number: int) -> Any:
        return self.people.insert_one(person(-1))

    def insert_ten(self, number: int) -> Any:
        return self.people.insert_many([person(-1) for _ in TEN])

    def update_one(self, number: int) -> Any:
        return self.people.update_one({"_id": number}, {"$set": {"name": "Eve"}})

    def replace_one(self, number: int) -> Any:
        return self.people.replace_one({"_id": number}, person(number))

    def delete_one(self, number: int) -> Any:
        return self.people.delete_one({"_id": f"leaver {number}"})

    def find_one_and_update(self, number: int) -> Any:
        return self.people.find_one_and_update({"_id": number}, {"$set": {"name": "Eve"}})

    def bulk_write_ten(self, number: int) -> Any:
        update = self.driver.UpdateOne
        return self.people.bulk_write([update({"_id": each}, {"$set": {"name": "Eve"}}) for each in TEN])

    def with_options(self, number: int) -> Any:
        for _ in range(REPEATS):
            self.people.with_options(write_concern=self.people.write_concern)

    def names(self, number: int) -> Any:
        for _ in range(REPEATS):
            self.client["lab"]["people"]

    def in_a_session(self, number: int) -> Any:
        if self.session is None:
            self.session = self.client.start_session()
        return self.people.find_one({"_id": number}, session=self.session)

    def transaction(self, number: int) -> Any:
        if self.session is None:
            self.session = self.client.start_session()
        with self.session.start_transaction():
            self.people.insert_one(person(-1), session=self.session)
            self.people.update_one({"_id": number}, {"$set": {"name": "Eve"}}, session=self.session)


class AsyncEveryday(Everyday):
    """The operations on an event loop that differ by more than an `await`."""

    async def aggregate(self, number: int) -> Any:
        return await (await self.people.aggregate(PIPELINE)).to_list()

    async def with_options(self, number: int) -> Any:
        super().with_options(number)

    async def names(self, number: int) -> Any:
        super().names(number)

    async def transaction(self, number: int) -> Any:
        if self.session is None:
            self.session = self.client.start_session()
        # PyMongo's must be awaited, and this driver's may be.
        async with await self.session.start_transaction():
            await self.people.insert_one(person(-1), session=self.session)
            await self.people.update_one({"_id": number}, {"$set": {"name": "Eve"}}, session=self.session)


class EverydayTask(CallsTask):
    """Calls of one operation, as many as take the processor time of a sample."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench)
        name = part.id.removesuffix("-asyncio").replace("-", "_")
        self._operations = (AsyncEveryday if bench.is_async else Everyday)(self.adapter)
        self._call = getattr(self._operations, name)
        self._repeats = REPEATS if name in ("with_options", "names") else 1
        self._leaves = name == "delete_one"
        self._sample_ns = EXPERIMENT.figures(bench.size)["cpu_ms"] * 1e6

    def warm_up(self) -> None:
        """Warm up, and choose the calls of a sample: a fixed number would make slow drivers' samples too long."""
        super().warm_up()
        while True:
            arguments = self.arguments(self.count)
            begun = time.process_time_ns()
            self.drive(arguments)
            taken = time.process_time_ns() - begun
            if taken >= self._sample_ns / 8:
                break
            self.count *= 2
        self.count = math.ceil(self.count * self._sample_ns / taken)

    def arguments(self, count: int) -> Sequence[int]:
        if self._leaves:
            self.bench.run(self._operations.people.delete_many({"_id": {"$gte": "leaver", "$lt": "leaves"}}))
            leavers = [{"_id": f"leaver {number}"} for number in range(count)]
            self.bench.run(self.adapter.insert_many(leavers))
            return range(count)
        return [number % STORED for number in range(count)]

    def verify(self) -> str:
        """Store the people, and compare the result of the operation for the last of them."""
        people = self._operations.people
        self.bench.run(people.drop())
        # A transaction reads at a majority-committed time, at which the collection must exist.
        stored = people.with_options(write_concern=self._operations.driver.WriteConcern("majority"))
        self.bench.run(stored.insert_many([{"_id": number, **person(number)} for number in range(STORED)]))
        self.arguments(STORED)  # the documents to delete exist
        told = told_by(self.bench.run(self._call(STORED - 1)))
        expect("people", self.bench.run(people.count_documents({"n": {"$gte": 0}})), STORED)
        return digest(told)

    def act(self) -> int:
        return super().act() * self._repeats

    def drive(self, arguments: Sequence[Any], call: Any = None) -> None:
        super().drive(arguments, self._call)


def told_by(result: Any) -> Any:
    """Return a result in comparable form: the counts of a write; a document, a list or a number unchanged."""
    names = ("inserted_count", "matched_count", "modified_count", "deleted_count")
    counts = {name: getattr(result, name) for name in names if hasattr(result, name)}
    if hasattr(result, "inserted_ids"):
        counts["inserted_ids"] = len(result.inserted_ids)
    # Each driver makes its own ids.
    return counts or (None if hasattr(result, "inserted_id") else result)


class BothFaces(Tabled):
    """The parts of the table on both faces."""

    def parts(self, size: Size) -> list[Part]:
        # A sample of the brief form is shorter than a tick.
        judge, parts = "client" if size.brief else "user", super().parts(size)
        return [
            replace(
                part,
                id=part.id + ending,
                title=f"{part.title}, {words}",
                needs=part.needs | {face},
                judge=judge,
            )
            for face, ending, words in (("blocking", "", "blocking"), ("asyncio", "-asyncio", "event loop"))
            for part in parts
        ]


EXPERIMENT = BothFaces("everyday", EverydayTask)
