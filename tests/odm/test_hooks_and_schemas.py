"""Hooks, times, soft deletion, counters, indexes, schemas, shapes, pydantic, pickling, calls per document."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import gc
import pickle
import sys
from typing import Annotated, Any, TypedDict

import pytest
from annotated_types import Ge, Len

from mangonel import _core, bson
from mangonel.errors import WriteError
from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    Index,
    Indexed,
    Sequence,
    SoftDelete,
    Timestamps,
    ValidationError,
    after,
    before,
    desc,
    field,
    identity_map,
    set_,
)

events: list[str] = []


class Part(Embedded):
    name: str = "p"

    @before("save")
    def _seen(self) -> None:
        events.append(f"part {self.name}")


class Hooked(Document):
    name: str
    parts: list[Part] = field(default_factory=list)

    @before("validate", "insert", "update", "delete")
    def _before(self) -> None:
        events.append("before")

    @after("save", "delete")
    def _after(self) -> None:
        events.append("after")

    @after("load")
    def _loaded(self) -> None:
        events.append("load")

    @before("query_update")
    @classmethod
    def _query(cls, query: dict[str, Any], update: dict[str, Any]) -> None:
        events.append(f"query {sorted(update)}")


class Stamped(Timestamps):
    name: str


class Soft(SoftDelete):
    name: str


class Counted(Document):
    number: Annotated[int | None, Sequence()] = None


class Place(Embedded):
    city: Annotated[str, Indexed()]


class Rich(Document):
    __indexes__ = [Index("name", desc("age")), Index("$**")]  # noqa: RUF012
    name: Annotated[str, Len(1, 10), Indexed(unique=True)]
    age: Annotated[int, Ge(0)] = 0
    place: Place | None = None
    tags: list[str] = field(default_factory=list, key="t")


class Point2(Embedded):
    x: int
    y: int = 0


class Shaped(Document):
    name: str
    point: Point2
    points: list[Point2] = field(default_factory=list)


@pytest.fixture(autouse=True)
def forget_events() -> None:
    events.clear()


def test_hooks_run_in_order(db: Connection, face: Any) -> None:
    made = Hooked(name="x", parts=[Part(name="1"), Part(name="2")])
    face.save(made)
    assert events == ["before", "part 1", "part 2", "before", "after"]
    events.clear()
    face.call(Hooked.find(), "all")
    assert events == ["load"]
    events.clear()
    face.call(Hooked.find(), "update", set_(Hooked.name, "y"))
    assert events == ["query ['$set']"]
    events.clear()
    face.call(made, "delete")
    assert events == ["before", "after"]


def test_hooks_of_thousands_of_embedded_documents_run(db: Connection, face: Any) -> None:
    face.save(Hooked(name="x", parts=[Part() for _ in range(5000)]))
    assert len(events) == 5003


def test_coroutine_hooks_are_awaited(db: Connection, face: Any) -> None:
    class Later(Document):
        name: str

        @before("save")
        async def _wait(self) -> None:
            self.name += "!"

    if face.is_async:
        later = Later(name="x")
        face.save(later)
        assert later.name == "x!"


def test_times_are_stamped_by_every_way_of_saving(db: Connection, face: Any) -> None:
    made = Stamped(name="x")
    face.save(made)
    assert made.created_at == made.updated_at != None  # noqa: E711
    old = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    made.collection().update_one({"_id": made.id}, {"$set": {"updated_at": old}})
    face.call(Stamped.find(), "update", set_(Stamped.name, "y"))
    assert face.call(made, "reload").updated_at > old
    made.collection().update_one({"_id": made.id}, {"$set": {"updated_at": old}})
    face.call(made, "reload")
    made.name = "z"
    face.call(Stamped, "save_all", [made])
    assert face.call(Stamped, "get", made.id).updated_at > old


def test_soft_deletion_hides(db: Connection, face: Any) -> None:
    one, two = Soft(name="1"), Soft(name="2")
    face.save(one, two)
    face.call(one, "delete")
    assert face.call(Soft.find(), "values", Soft.name) == ["2"]
    assert face.call(Soft.find(), "delete") == 1
    assert face.call(Soft.find(), "count") == 0
    assert face.call(Soft.deleted(), "count") == 2
    found = face.call(Soft.unscoped(Soft.name == "2"), "one")
    face.save(found.restore())
    assert face.call(Soft.find(), "count") == 1


def test_counter_gives_numbers(db: Connection, face: Any) -> None:
    made = [Counted(), Counted(), Counted(number=9)]
    face.save(*made)
    assert [one.number for one in made] == [1, 2, 9]


def test_indexes_are_planned_created_rebuilt_and_dropped(db: Connection, face: Any) -> None:
    assert db.database().list_collection_names() == []
    plan = face.call(Rich, "sync_indexes", plan=True)
    assert plan.create == ["name_1", "place.city_1", "name_1_age_-1", "$**_1"]
    assert db.database().list_collection_names() == []
    face.call(Rich, "sync_indexes")
    collection = Rich.collection()
    collection.drop_index("name_1")
    collection.create_index("name")
    collection.create_index("other")
    plan = face.call(Rich, "sync_indexes", plan=True)
    assert (plan.create, plan.rebuild, plan.unknown, plan.drop) == ([], ["name_1"], ["other_1"], [])
    face.call(Rich, "sync_indexes", drop=True)
    assert not face.call(Rich, "sync_indexes", plan=True)
    assert collection.index_information()["name_1"]["unique"] is True


class Weighed(Document):
    __indexes__ = (Index("title", "body", kind="text", weights={"title": 3}),)
    title: str
    body: str


def test_text_index_that_weighs_some_of_its_fields_is_not_rebuilt(db: Connection, face: Any) -> None:
    face.call(Weighed, "sync_indexes")
    assert not face.call(Weighed, "sync_indexes", plan=True)


def test_server_enforces_the_schema(db: Connection, face: Any) -> None:
    face.call(Rich, "create_collection", validate=True)
    face.save(Rich(name="x", place=Place(city="Oslo")))
    for wrong in ({"name": 5}, {"name": ""}, {"name": "x", "age": -1}, {"age": 1}, {"name": "x", "t": [1]}):
        with pytest.raises(WriteError):
            Rich.collection().insert_one(dict(wrong))


def test_constraints_are_checked() -> None:
    with pytest.raises(ValidationError, match=r"expected >= 0, got -1 at \$\.age"):
        Rich(name="x", age=-1)
    with pytest.raises(ValidationError, match=r"expected a length of at most 10, got 11 at \$\.name"):
        Rich(name="x" * 11)


class AsDict(TypedDict):
    name: str
    point: dict[str, int]


@dataclasses.dataclass
class Inner:
    x: int
    y: int = 5


@dataclasses.dataclass
class AsData:
    name: str
    point: Inner
    points: list[Inner]


def test_results_have_the_shape_that_is_asked_for(db: Connection, face: Any) -> None:
    msgspec = pytest.importorskip("msgspec")
    pydantic = pytest.importorskip("pydantic")
    struct = msgspec.defstruct("AsStruct", [("name", str), ("points", list[Inner])])
    model = pydantic.create_model("AsModel", name=(str, ...))
    face.save(Shaped(name="n", point=Point2(x=1), points=[Point2(x=2, y=3)]))
    query = Shaped.find()
    assert face.call(query.as_(AsDict), "all") == [{"name": "n", "point": {"x": 1, "y": 0}}]
    assert face.call(query.as_(AsData), "all") == [AsData("n", Inner(1, 0), [Inner(2, 3)])]
    assert face.call(query.as_(struct), "all") == [struct("n", [Inner(2, 3)])]
    assert face.call(query.as_(model), "all") == [model(name="n")]
    rows = face.call(query, "aggregate", [{"$project": {"_id": 0, "x": "$point.x"}}], Point2)
    assert rows == [Point2(x=1)]
    with pytest.raises(ValidationError, match=r"\$\.name"):
        face.call(Shaped.find().as_(msgspec.defstruct("Wrong", [("name", int)])), "all")


def test_pydantic_and_fastapi_take_models() -> None:
    pydantic = pytest.importorskip("pydantic")
    adapter = pydantic.TypeAdapter(list[Shaped])
    made = Shaped(name="n", point=Point2(x=1))
    assert adapter.validate_python([made])[0] is made
    (found,) = adapter.validate_json(f'[{{"id": "{made.id}", "name": "n", "point": {{"x": 1}}}}]')
    assert found.to_dict() == made.to_dict()
    assert bson.ObjectId(pydantic.TypeAdapter(Shaped).dump_python(made, mode="json")["id"]) == made.id
    schema = adapter.json_schema()
    assert schema["items"] == {"$ref": "#/$defs/Shaped"}
    assert schema["$defs"]["Point2"]["properties"]["x"]["type"] == "integer"
    with pytest.raises(pydantic.ValidationError, match="point"):
        adapter.validate_python([{"name": "n", "point": {"x": "no"}}])


def test_fastapi_routes_speak_models() -> None:
    fastapi = pytest.importorskip("fastapi")
    testclient = pytest.importorskip("fastapi.testclient")
    app = fastapi.FastAPI()

    def echo(body: Any) -> Any:
        return body

    echo.__annotations__ = {"body": Annotated[Shaped, fastapi.Body()], "return": Shaped}
    app.post("/")(echo)
    client = testclient.TestClient(app)
    answer = client.post("/", json={"name": "n", "point": {"x": 3}})
    assert answer.status_code == 200, answer.text
    assert answer.json()["point"] == {"x": 3, "y": 0}
    assert client.post("/", json={"name": 3, "point": {"x": 3}}).status_code == 422
    assert "point" in client.get("/openapi.json").text


def test_documents_survive_pickling_and_copying(db: Connection, face: Any) -> None:
    made = Shaped(name="n", point=Point2(x=1), points=[Point2(x=2)])
    for restored in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), copy.copy(made)):
        assert restored.to_dict() == made.to_dict()
        assert restored.is_new
    face.save(made)
    found = face.call(Shaped, "get", made.id)
    found.name = "changed"
    found.points.append(Point2(x=5))
    restored = pickle.loads(pickle.dumps(found))
    assert not restored.is_new
    face.save(restored)
    again = face.call(Shaped, "get", made.id)
    assert (again.name, again.points[-1].x) == ("changed", 5)
    clone = again.copy(name="clone")
    assert clone.is_new
    assert clone.id != again.id
    partial = face.call(Shaped.find().only(Shaped.name), "first")
    assert pickle.loads(pickle.dumps(partial)).is_partial


def test_dynamic_model_keeps_what_it_does_not_know(db: Connection, face: Any) -> None:
    class Open(Document):
        __dynamic__ = True
        name: str

    made = Open(name="x")
    made.set_extra({"colour": "red", "n": [1]})
    face.save(made)
    found = face.call(Open, "get", made.id)
    assert found.extra == {"colour": "red", "n": [1]}
    found.set_extra({"n": [1, 2]})
    face.save(found)
    assert made.collection().find_one(made.id) == {"_id": made.id, "name": "x", "n": [1, 2]}


def test_loading_calls_no_python_function() -> None:
    data = b"".join(
        _core.odm_encode(Shaped(name=str(n), point=Point2(x=n), points=[Point2(x=n)])) for n in range(100)
    )
    Shaped.from_bson(data[: int.from_bytes(data[:4], "little")])
    calls: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            calls.append(getattr(argument, "__name__", frame.f_code.co_name))

    for lazy in (False, True):
        calls.clear()
        # A collection would run finalizers of objects that other tests left.
        gc.disable()
        sys.setprofile(profile)
        found = _core.odm_decode_all(Shaped.__model__, data, lazy)
        sys.setprofile(None)
        gc.enable()
        assert len(found) == 100
        assert set(calls) <= {"odm_decode_all", "setprofile"}, calls[:10]


def test_pages_follow_each_other_by_keys(db: Connection, face: Any) -> None:
    face.call(Rich, "insert_many", [Rich(name=str(n), age=n % 7) for n in range(50)])
    seen: list[str] = []
    after_: str | None = None
    while True:
        page = face.call(Rich.find().sort("-age"), "page", size=12, after=after_)
        seen += [one.name for one in page]
        after_ = page.next
        if after_ is None:
            break
    assert len(seen) == len(set(seen)) == 50
    with pytest.raises(ValueError, match="token"):
        face.call(Rich.find().sort("name"), "page", after="x" * 20)
    pages = face.call(Rich.find().sort("name"), "paginate", 5, 12)
    assert (len(pages), pages.total, pages.count, pages.has_next) == (2, 50, 5, False)


def test_every_waiting_method_has_its_pair() -> None:
    from mangonel.odm import Many, Query, Ref, Refs

    for cls in (Document, Query, Ref, Refs, Many):
        names = {name for name in dir(cls) if not name.startswith("_")}
        doubled = {name for name in names if "a" + name in names}
        asyncs = {name for name in names if name[0] == "a" and name[1:] in names}
        assert {name[1:] for name in asyncs} == doubled
        assert doubled


def test_identity_map_is_off_by_default() -> None:
    with identity_map() as known:
        assert len(known) == 0


class Keeps(Document):
    anything: Any = None


class Link(Embedded):
    next: Link | None = None
    text: str = ""


def test_long_chain_of_embedded_documents_is_released() -> None:
    import weakref

    chain = Link()
    for _ in range(200_000):
        chain = Link(next=chain)
    del chain
    document = Hooked(name="x")
    seen = weakref.ref(document)
    del document
    assert seen() is None
    # A value that refers to itself is freed by the collector.
    cycle = Shaped(name="x", point=Point2(x=1))
    known = weakref.ref(cycle)
    cycle.points = [cycle.point]
    holder: dict[str, Any] = {}
    keeps = Keeps(anything=holder)
    holder["self"] = keeps
    kept = weakref.ref(keeps)
    del keeps, holder, cycle
    gc.collect()
    assert kept() is None
    assert known() is None


def test_released_memory_comes_back_empty() -> None:
    for round in range(3):
        made = [Shaped(name=str(round), point=Point2(x=n)) for n in range(2000)]
        assert all(one.is_new and one.changes() == {} for one in made)
        data = b"".join(map(_core.odm_encode, made))
        found = _core.odm_decode_all(Shaped.__model__, data)
        assert not any(one.is_new or one.extra for one in found)
        assert [one.point.x for one in found] == list(range(2000))
        del made, found
