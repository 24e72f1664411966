"""Random programs get the same results from the core's own commands and from the driver's methods.

Compared are outcomes, hooks, commands, the state of each document and what is stored. On one connection the core makes
the commands of plain documents, on the other one `insert_one`, `update_one` and `find` do. By hand:
MANGONEL_MODEL_RUNS=125, which plays a thousand programs; `make test` says 2.
"""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Annotated, Any, ClassVar

import pytest
from annotated_types import MaxLen
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from mangonel import WriteConcern
from mangonel.bson import ObjectId
from mangonel.monitoring import CommandListener
from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    Index,
    KeepsChanges,
    Ref,
    SoftDelete,
    Timestamps,
    Version,
    after,
    around,
    before,
    connect,
    field,
    inc,
    push,
    set_,
    tenant,
)
from mangonel.odm.connections.place import Place
from mangonel.server import Server
from tools.faces import Face

RUNS = int(os.environ.get("MANGONEL_MODEL_RUNS", "5"))
pytestmark = pytest.mark.timeout(240 if RUNS <= 5 else 7200)
PLAYED = settings(
    max_examples=8 * RUNS, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
# The usual programs are always the same; others by `--hypothesis-seed`.
CHOSEN = seed(1) if RUNS <= 5 else lambda test: test

# The hooks that ran, in order.
ran: list[str] = []


class Part(Embedded):
    name: str = ""
    n: int = 0
    marks: list[int] = field(default_factory=list)
    note: str | None = None


class Base(Document):
    __abstract__ = True
    n: int = 0
    name: Annotated[str, MaxLen(5)] = ""
    tags: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    table: dict[str, int] = field(default_factory=dict)
    inner: Part | None = None
    when: dt.datetime | None = None
    price: decimal.Decimal | None = field(default=None, key="p")
    anything: Any = None


class ShortPlain(Base):
    other: Ref[ShortPlain] | None = None


class ShortCounted(Base):
    rev: Annotated[int, Version] = 0


class ShortOptional(Base):
    rev: Annotated[int | None, Version] = None


class ShortHooked(Base):
    @before("validate", "save", "insert", "update", "delete")
    def _before(self) -> None:
        ran.append(f"before {self.n}")
        self.table["saves"] = self.table.get("saves", 0) + 1

    @after("validate", "save", "insert", "update", "delete", "load", "commit", "rollback")
    def _after(self) -> None:
        ran.append(f"after {self.n} {self.is_new} {sorted(self.changes())}")


class ShortAround(Base):
    rev: Annotated[int, Version] = 0

    @around("save", "insert", "update")
    def _around(self) -> Iterator[None]:
        ran.append(f"around {self.is_new}")
        try:
            yield
        finally:
            ran.append(f"done {self.is_new} {sorted(self.changes())}")


class ShortStamped(Timestamps, Base):
    pass


class ShortSoft(SoftDelete, Base):
    pass


class ShortKeeping(KeepsChanges, Base):
    pass


class ShortDynamic(Base):
    __dynamic__ = True


class ShortIgnoring(Base):
    __unknown__ = "ignore"


class ShortStrict(Base):
    __unknown__ = "forbid"


class ShortLenient(Base):
    __on_bad__ = "raw"


class ShortUnique(Base):
    __indexes__: ClassVar[list[Index]] = [Index("name", unique=True)]


class ShortTenants(Base):
    __tenant__ = "company"
    company: str = "c"


class ShortRoot(Base):
    __root__ = True


class ShortChild(ShortRoot):
    more: int = 0


class ShortSharded(Base):
    __shard_key__: ClassVar[dict[str, int]] = {"name": 1}


class ShortWeak(Base):
    __options__: ClassVar[dict[str, Any]] = {"write_concern": WriteConcern(0)}


class ShortMajority(Base):
    __options__: ClassVar[dict[str, Any]] = {"write_concern": WriteConcern("majority")}


class ShortScoped(Base):
    __default_scope__ = staticmethod(lambda query: query.find({"n": {"$lt": 3}}))


class ShortDenying(Base):
    other: Ref[ShortPlain] | None = field(default=None, on_delete="deny")


class ShortCast(Base):
    __cast__ = True


class ShortNaive(Base):
    __tz_aware__ = False


class ShortNumbered(Base):
    id: int = field(key="_id")


MODELS: list[Any] = [
    kind
    for name, kind in list(globals().items())
    if name.startswith("Short") and isinstance(kind, type) and issubclass(kind, Base)
]
SLOTS = 2

TEXT = st.text("ab", max_size=2)
NUMBER = st.integers(0, 4) | st.sampled_from([2**31, -(2**40)])
PART = st.builds(lambda name, n: {"name": name, "n": n}, TEXT, NUMBER)
WRONG = st.sampled_from(["x", 5, None, 2**70, object, [1], {"a": 1}, b"z", 1.5, "\udc80", "long text"])
GOOD: dict[str, st.SearchStrategy[Any]] = {
    "n": NUMBER,
    "name": TEXT,
    "tags": st.lists(TEXT, max_size=3),
    "parts": st.lists(PART, max_size=3),
    "keys": st.sets(TEXT, max_size=3),
    "table": st.dictionaries(TEXT.filter(bool), NUMBER, max_size=2),
    "inner": st.none() | PART,
    "when": st.none() | st.just(dt.datetime(2020, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC)),
    "price": st.none() | st.just(decimal.Decimal("1.50")),
    "anything": st.none() | NUMBER | st.lists(NUMBER, max_size=2) | st.dictionaries(TEXT, NUMBER, max_size=2),
}
NAMES = sorted(GOOD)
PAIR = st.sampled_from(NAMES).flatmap(lambda name: st.tuples(st.just(name), GOOD[name])) | st.tuples(
    st.sampled_from(NAMES), WRONG
)
VALUES = st.fixed_dictionaries({}, optional=GOOD)
SLOT = st.sampled_from([0, 0, 0, 1])
# Changes by another writer to the document of a slot.
WRITES = [
    {"$set": {"n": 7}}, {"$inc": {"rev": 1}}, {"$push": {"tags": "z"}}, {"$unset": {"n": 1}}, {"$set": {"tags": None}},
    {"$set": {"n": "text"}}, {"$set": {"unknown": [1]}}, {"$pop": {"parts": -1}}, {"$unset": {"parts": 1}},
    {"$set": {"parts": [{"n": 1, "name": "a"}, {"name": "b", "n": 2, "old": 1}]}}, {"$set": {"keys": ["b", "a"]}},
    {"$set": {"inner": {"n": 3, "name": "q", "x": 1}}}, {"$set": {"inner": None}}, {"$set": {"name": "too long"}},
    {"$set": {"table": {"a": 1, "b": 2}}}, {"$unset": {"rev": 1}}, {"$set": {"n": 2.0}}, {"$set": {"inner.n": 9}},
    None,
]  # fmt: skip
WHERE: list[Any] = [None, {"n": 1}, {"n": {"$ne": 99}}, {"_id": {"$exists": True}}, {"$nope": 1}]
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "validate": st.booleans(),
        "where": st.sampled_from(WHERE),
        "write_concern": st.sampled_from([WriteConcern(1), WriteConcern(0), WriteConcern("majority")]),
        "session": st.just("session"),
        "cascade": st.booleans(),
    },
)
FILTERS: list[Any] = [
    {}, {"n": 1}, {"_id": 1}, {"n": {"$gt": 0}}, {"tags": "a"}, {"$nope": 1}, {"n": object},
    {"anything": None}, {"$or": []}, {"name": "a"}, {"$query": {"n": 1}}, {"n": 2**70}, {"_id": {"$in": []}},
    {"x": {"$exists": False}},
]  # fmt: skip

Step = tuple[Any, ...]
STEP: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("new"), SLOT, st.sampled_from(["init", "from_dict"]), VALUES),
    *(st.tuples(st.just("save"), SLOT, OPTIONS | st.just({})) for _ in range(4)),
    *(st.tuples(st.just("set"), SLOT, PAIR) for _ in range(3)),
    *(st.tuples(st.just("change"), SLOT, st.integers(0, 17), TEXT.filter(bool), NUMBER) for _ in range(3)),
    st.tuples(st.just("insert"), SLOT, OPTIONS | st.just({})),
    st.tuples(st.sampled_from(["replace", "delete", "reload", "update", "restore"]), SLOT),
    *(st.tuples(st.just("write"), SLOT, st.sampled_from(WRITES)) for _ in range(2)),
    st.tuples(st.sampled_from(["get", "get_or_none"]), SLOT, st.booleans()),
    st.tuples(st.sampled_from(["one", "first"]), SLOT, st.sampled_from(FILTERS)),
    st.tuples(st.sampled_from(["begin", "commit", "abort"])),
)
PROGRAM = st.tuples(
    st.lists(VALUES, min_size=SLOTS, max_size=SLOTS),
    st.lists(st.lists(STEP, min_size=3, max_size=7), min_size=2, max_size=4),
).map(
    lambda parts: [
        *(("new", slot, "init", values) for slot, values in enumerate(parts[0])),
        *(step for steps in parts[1] for step in (("save", 0, {}), *steps)),
        ("save", 0, {}),
    ]
)


class Commands(CommandListener):
    """Return the commands, as far as both ways send them."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def started(self, event: Any) -> None:
        command = {
            name: value
            for name, value in sorted(event.command.items())
            if name not in ("lsid", "$clusterTime", "$db", "txnNumber", "ordered")
        }
        if event.command_name == "update":
            for statement in command["updates"]:
                query = statement["q"]
                # One form of both conditions.
                parts = query.pop("$and") if len(query) == 1 and "$and" in query else [query]
                statement["q"] = [pair for part in parts for pair in part.items()]
                statement.pop("multi", None)
                statement.pop("upsert", None)
        self.sent.append(command)

    def succeeded(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        self.sent.append("failed")


class World:
    """One connection, and the objects that a program made on it."""

    def __init__(self, face: Any, usual: Connection, uri: str, name: str, is_long: bool) -> None:
        self.face = face
        self.usual = usual
        self.commands = Commands()
        self.db: Connection = connect(
            uri, database=f"{name}_{'long' if is_long else 'short'}", alias=f"short_and_long_{is_long}",
            event_listeners=[self.commands],
        )  # fmt: skip
        self.plain = self.db.client[self.db.name]

    async def play(self, model: Any, program: list[Step]) -> list[Any]:
        self.model = model
        self.slots: list[Any] = [None] * SLOTS
        # How many documents each slot had.
        self.made = [0] * SLOTS
        self.block: Any = None
        self.records: list[Any] = []
        name = model.__collection_name__()
        self.raw = self.plain[name]
        self.raw.delete_many({})
        if model is ShortUnique:
            self.raw.create_index("name", unique=True)
        with self.usual.use(self.db), tenant("c") if model.__tenant__ else nullcontext():
            for step in program:
                await self.record(step)
            await self.record(("commit",))
        self.records.append(self.masked(str(list(self.raw.find()))))
        return self.records

    async def record(self, step: Step) -> None:
        ran.clear()
        self.commands.sent.clear()
        try:
            # Each world gets its own values.
            result = await getattr(self, f"do_{step[0]}")(*copy.deepcopy(step))
            said: Any = self.state(result) if isinstance(result, Base) else result
        except Exception as error:
            said = type(error).__name__, self.masked(str(error))
        sent = [*self.commands.sent]
        if self.model is ShortWeak or "WriteConcern(w=0)" in str(step):
            # By then unacknowledged writes are applied: the ping uses the same connection.
            await self.wait(self.db.clients.get(self.face.is_async).admin.command("ping"))
        states = [self.state(each) for each in self.slots]
        self.records.append((step, said, self.masked(str(sent)), [*ran], states))

    def state(self, document: Any) -> Any:
        if document is None:
            return None
        found: list[Any] = [
            type(document).__name__,
            document.is_new,
            document.is_deleted,
            document.is_partial,
        ]
        for look in (
            lambda: document.to_bson().raw,
            document.changes,
            lambda: document.extra,
            lambda: document.previous_changes if isinstance(document, KeepsChanges) else None,
        ):
            try:
                found.append(self.masked(repr(look())))
            except Exception as error:
                found.append((type(error).__name__, self.masked(str(error))))
        return found

    def masked(self, text: str) -> str:
        text = text.replace(self.db.name, "DB")
        text = re.sub(r"datetime\.datetime\(20[23][1-9],[^)]*(\)|$)", "now", text)
        text = re.sub(r"(created_at|updated_at|deleted_at)\\x00.{0,40}?\\x00\\x00", r"\1", text)
        return re.sub(r"0x[0-9a-f]{6,}|Timestamp\([^)]*\)|'txnNumber': [^,}]*", "", text)

    def call(self, owner: Any, method: str, *args: Any, **options: Any) -> Any:
        return getattr(owner, "a" + method if self.face.is_async else method)(*args, **options)

    async def wait(self, value: Any) -> Any:
        return await value if inspect.isawaitable(value) else value

    def id(self, slot: int) -> Any:
        number = self.made[slot] * SLOTS + slot
        return number if self.model is ShortNumbered else ObjectId(b"%012d" % number)

    def options(self, options: dict[str, Any], method: str) -> dict[str, Any]:
        names = ("validate", "write_concern", "session") + (("where", "cascade") if method == "save" else ())
        return {name: value for name, value in options.items() if name in names}

    # Steps.

    async def do_new(self, _: str, slot: int, way: str, values: dict[str, Any]) -> Any:
        self.made[slot] += 1
        if way == "init":
            values = {name: made(name, value) for name, value in values.items()}
            self.slots[slot] = self.model(id=self.id(slot), **values)
        else:
            self.slots[slot] = self.model.from_dict({"id": self.id(slot), **values, "legacy": 1})
        return self.slots[slot]

    async def do_set(self, _: str, slot: int, pair: tuple[str, Any]) -> None:
        if self.slots[slot] is not None:
            setattr(self.slots[slot], pair[0], made(*pair))

    async def do_change(self, _: str, slot: int, kind: int, text: str, number: int) -> Any:
        document = self.slots[slot]
        if document is None:
            return None
        changes: list[Callable[[], Any]] = [
            lambda: document.tags.append(text),
            lambda: document.tags.pop(0),
            lambda: document.tags.insert(0, text),
            lambda: document.tags.sort(),
            lambda: document.parts.append(Part(name=text, n=number)),
            lambda: document.parts.pop(0),
            lambda: setattr(document.parts[-1], "n", number),
            lambda: document.parts[0].marks.append(number),
            lambda: document.parts.reverse(),
            lambda: document.keys.add(text),
            lambda: document.keys.clear(),
            lambda: document.table.update({text: number}),
            lambda: document.table.clear(),
            lambda: setattr(document.inner, "name", text),
            lambda: document.inner.marks.append(number),
            lambda: document.anything.append(text),
            lambda: document.extra.update({text: number}),
            lambda: document.set_extra({text: number}),
        ]
        return repr(changes[kind]())

    async def _store(self, method: str, slot: int, options: dict[str, Any]) -> Any:
        if self.slots[slot] is None:
            return None
        chosen = self.options(options, method)
        if "session" not in chosen:
            return await self.wait(self.call(self.slots[slot], method, **chosen))
        client = self.db.clients.get(self.face.is_async)
        session = client.start_session()
        try:
            chosen["session"] = session
            return await self.wait(self.call(self.slots[slot], method, **chosen))
        finally:
            await self.wait(session.end_session())

    async def do_save(self, _: str, slot: int, options: dict[str, Any]) -> Any:
        return await self._store("save", slot, options)

    async def do_insert(self, _: str, slot: int, options: dict[str, Any]) -> Any:
        return await self._store("insert", slot, options)

    async def _plain(self, method: str, slot: int, *args: Any) -> Any:
        if self.slots[slot] is not None:
            return await self.wait(self.call(self.slots[slot], method, *args))
        return None

    async def do_replace(self, method: str, slot: int) -> Any:
        return await self._plain(method, slot)

    async def do_delete(self, method: str, slot: int) -> Any:
        return await self._plain(method, slot)

    async def do_reload(self, method: str, slot: int) -> Any:
        return await self._plain(method, slot)

    async def do_restore(self, method: str, slot: int) -> Any:
        return await self._plain(method, slot) if self.model is ShortSoft else None

    async def do_update(self, method: str, slot: int) -> Any:
        model = self.model
        return await self._plain(method, slot, inc(model.n), push(model.tags, "u"), set_(model.name, "u"))

    async def do_write(self, _: str, slot: int, change: Any) -> Any:
        if self.block is not None:
            return None
        if change is None:
            return self.raw.delete_one({"_id": self.id(slot)}).deleted_count
        return self.raw.update_one({"_id": self.id(slot)}, change).modified_count

    async def _get(self, method: str, slot: int, is_kept: bool) -> Any:
        found = await self.wait(self.call(self.model, method, self.id(slot)))
        if is_kept:
            self.slots[slot] = found
        return found

    async def do_get(self, method: str, slot: int, is_kept: bool) -> Any:
        return await self._get(method, slot, is_kept)

    async def do_get_or_none(self, method: str, slot: int, is_kept: bool) -> Any:
        return await self._get(method, slot, is_kept)

    async def _find(self, method: str, slot: int, query: Any) -> Any:
        query = {"_id": self.id(slot)} if query == {"_id": 1} else query
        return await self.wait(self.call(self.model.find(query), method))

    async def do_one(self, method: str, slot: int, query: Any) -> Any:
        return await self._find(method, slot, query)

    async def do_first(self, method: str, slot: int, query: Any) -> Any:
        return await self._find(method, slot, query)

    async def do_begin(self, _: str) -> None:
        if self.block is None and self.model is not ShortWeak:
            self.block = self.db.transaction()
            await (self.block.__aenter__() if self.face.is_async else self.entered())

    async def entered(self) -> None:
        self.block.__enter__()

    async def end(self, is_aborted: bool) -> None:
        block, self.block = self.block, None
        if block is None:
            return
        error = Abort() if is_aborted else None
        about = (type(error), error, None) if error is not None else (None, None, None)
        if self.face.is_async:
            await block.__aexit__(*about)
        else:
            block.__exit__(*about)

    async def do_commit(self, _: str) -> None:
        await self.end(False)

    async def do_abort(self, _: str) -> None:
        await self.end(True)


class Abort(Exception):
    pass


def made(name: str, value: Any) -> Any:
    """Return the value of a field; parts are instances."""
    if name == "inner" and isinstance(value, dict) and "name" in value:
        return Part(**value)
    if name == "parts" and isinstance(value, list):
        return [Part(**each) if isinstance(each, dict) else each for each in value]
    return value


@pytest.fixture
def worlds(
    server: Server, database_name: str, face: Face, monkeypatch: pytest.MonkeyPatch, db: Connection
) -> Iterator[list[World]]:
    made = [World(face, db, server.uri, database_name, is_long) for is_long in (False, True)]
    usual = Place.__init__

    def long(place: Place, chosen: Any, *args: Any) -> None:
        usual(place, chosen, *args)
        if chosen is made[1].db:
            place.read = place.written = None

    monkeypatch.setattr(Place, "__init__", long)
    yield made
    for world in made:
        world.db.client.drop_database(world.db.name)
        world.db.close()
        face.wait(world.db.aclose())


@CHOSEN
@PLAYED
@given(model=st.sampled_from(MODELS), program=PROGRAM)
def test_a_program_does_the_same_the_short_way_and_the_long_way(
    worlds: list[World], face: Any, model: Any, program: list[Step]
) -> None:
    short, long = (face.run(lambda world=world: run(world, model, program)) for world in worlds)
    for one, other in zip(short, long, strict=True):
        assert one == other, model


def run(world: World, model: Any, program: list[Step]) -> Any:
    """Play a program; on the blocking face it does not suspend."""
    playing = world.play(model, program)
    if world.face.is_async:
        return playing
    try:
        playing.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("expected a program that does not suspend")
