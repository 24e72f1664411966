"""Embedded documents that `from_dict` keeps as BSON until they are read equal those made at once.

`from_dict` of a mapping that is no dict makes every embedded document at once, so it shows what is right.
"""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import enum
import functools
import gc
import json
import math
import pickle
import sys
import weakref
from collections.abc import Callable
from random import Random
from types import MappingProxyType
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, MaxLen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mangonel import _core
from mangonel.bson import ObjectId
from mangonel.bson.errors import BSONError
from mangonel.bson.tz_util import utc
from mangonel.odm import Connection, Document, Embedded, after, before, embedded_in, field, listen

MODELS = 60
NEW = 1


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


MOMENT = dt.datetime(2024, 3, 1, 12, 30, 1, 123_000)
TEXT = st.text("aé\0", max_size=3) | st.just("\udc80")
INT = st.sampled_from([0, 7, -1, 2**31, -(2**63), 2**63 - 1])
# Types, values that fit them, and whether a class may have such a value as a default.
KINDS: dict[str, tuple[Any, st.SearchStrategy[Any], list[Any]]] = {
    "str": (str, TEXT, ["", "x"]),
    "int": (int, INT, [0, 5]),
    "float": (float, st.sampled_from([0.0, -0.0, 1.5, math.inf, math.nan, 3, 2**53 + 1]), [1.0]),
    "bool": (bool, st.booleans(), [True]),
    "bytes": (bytes, st.binary(max_size=2), [b""]),
    "id": (ObjectId, st.just(ObjectId("0" * 24)), []),
    "naive": (
        dt.datetime,
        st.sampled_from([MOMENT, MOMENT.replace(microsecond=1), MOMENT.replace(fold=1)]),
        [],
    ),
    "aware": (
        dt.datetime,
        st.sampled_from(
            [MOMENT.replace(tzinfo=zone) for zone in (dt.UTC, utc, dt.timezone(dt.timedelta(hours=1)))]
        ),
        [],
    ),
    "maybe_str": (str | None, st.none() | TEXT, [None]),
    "maybe_int": (int | None, st.none() | INT, [None, 3]),
    "literal": (Literal["a", 1], st.sampled_from(["a", 1]), ["a"]),
    "enum": (Color, st.sampled_from(Color), [Color.RED]),
    "checked": (Annotated[int, Ge(0)], st.integers(-1, 2), [1]),
    "texts": (list[str], st.lists(TEXT, max_size=2), [[]]),
    "short": (Annotated[list[int], MaxLen(1)], st.lists(st.integers(0, 1), max_size=2), []),
    "table": (dict[str, int], st.dictionaries(st.sampled_from("ab"), INT, max_size=2), [{}]),
    "any": (Any, st.none() | TEXT | st.lists(INT, max_size=1), [None]),
}
WRONG = st.sampled_from(
    [None, "x", "\udc80", 1, 2**63, 1.5, math.nan, True, b"", [], [1], {}, {"b": 1}, (), Color.RED]
)


class Shape:
    """A random model, and the values that fit it."""

    def __init__(self, random: Random, depth: int, is_aware: bool) -> None:
        self.fields: dict[str, tuple[str, st.SearchStrategy[Any] | None, Shape | None]] = {}
        self.keys: dict[str, str] = {}
        self.optional: set[str] = set()
        annotations: dict[str, Any] = {}
        namespace: dict[str, Any] = {"__module__": __name__, "__annotations__": annotations}
        is_top = depth == 0
        for number in range(random.randint(1, 5)):
            name = f"f{number}"
            forms = ["one", "maybe", "many", "many_maybe"]
            kind = random.choice([*KINDS, *(forms * 3 if depth < 3 else [])])
            if is_top and number == 0:
                kind = random.choice(forms)
            if kind in ("naive", "aware"):
                kind = "aware" if is_aware else "naive"
            strategy: Any = None
            inner = None
            defaults: list[Any] = []
            if kind in forms:
                inner = Shape(random, depth + 1, is_aware)
                model = inner.model
                annotations[name] = {
                    "one": model, "maybe": model | None, "many": list[model], "many_maybe": list[model | None]
                }[kind]  # fmt: skip
                defaults = {"one": [], "maybe": [None], "many": [[]], "many_maybe": [[]]}[kind]
            else:
                annotations[name], strategy, defaults = KINDS[kind]
            key = random.choice([None, None, f"k{number}", f"f{number + 1}"])
            if key is not None and key not in annotations and key != f"f{number + 1}":
                self.keys[name] = key
            options: dict[str, Any] = {"key": self.keys[name]} if name in self.keys else {}
            if random.random() < 0.1:
                options["frozen"] = True
            if defaults and random.random() < 0.5:
                options["default"] = random.choice(defaults)
            elif random.random() < 0.1 and kind == "str":
                options["default_factory"] = lambda: "made"
            if "default" in options or "default_factory" in options or "maybe" in kind.split("_")[:1]:
                self.optional.add(name)
            if options:
                namespace[name] = field(**options)
            self.fields[name] = (kind, strategy, inner)
        namespace["__unknown__"] = random.choice(["keep", "ignore", "forbid"])
        namespace["__tz_aware__"] = is_aware
        self._with_code(random, namespace, is_top)
        self.model = type(Document)(
            f"Random{random.random()}", (Document if is_top else Embedded,), namespace
        )
        if not is_top and random.random() < 0.1:
            # A family, whose members have tags.
            type(Document)(f"Random{random.random()}", (self.model,), {"__module__": __name__})

    def _with_code(self, random: Random, namespace: dict[str, Any], is_top: bool) -> None:
        what = random.choice(["", "", "", "", "load", "validate", "init", "parent", "root", "private"])
        if what == "load":
            namespace["_loaded"] = after("load")(lambda self: setattr(self, "f0", self.f0))
        elif what == "validate":
            namespace["_checked"] = before("validate")(lambda self: setattr(self, "f0", self.f0))
        elif what == "root":
            namespace["__root__"] = True
        elif what == "private":
            namespace["__annotations__"]["_note"] = str
            namespace["_note"] = "none"
        elif what == "parent" and not is_top:
            namespace["__annotations__"]["above"] = Any
            namespace["above"] = embedded_in()
        elif what == "init" and not is_top:

            def __init__(self: Any, **values: Any) -> None:  # noqa: N807  # the method of a class
                super(type(self), self).__init__(**values)

            namespace["__init__"] = __init__

    def values(self, draw: Any, is_faulty: bool) -> dict[str, Any]:
        """Values by name; with `is_faulty` some are wrong or missing."""
        found: dict[str, Any] = {}
        for name, (kind, strategy, inner) in self.fields.items():
            fate = draw(st.integers(0, 9))
            if fate == 0 and is_faulty:
                found[name] = draw(WRONG)
            elif fate > 1 or (name not in self.optional and not is_faulty):
                found[name] = draw(strategy) if inner is None else inner._nested(draw, kind, is_faulty)
                if fate == 2 and name in self.keys:
                    found[self.keys[name]] = found[name] if draw(st.booleans()) else found.pop(name)
        if is_faulty and draw(st.integers(0, 9)) == 0:
            found["unknown"] = draw(WRONG)
        if draw(st.integers(0, 3)) == 0:
            found = dict(draw(st.permutations(list(found.items()))))
        # Names that are not interned, like those of parsed JSON.
        return {"".join([key[:1], key[1:]]): item for key, item in found.items()}

    def _nested(self, draw: Any, kind: str, is_faulty: bool) -> Any:
        if kind in ("maybe", "many_maybe") and draw(st.integers(0, 4)) == 0:
            return None if kind == "maybe" else [None, self.values(draw, is_faulty)]
        if kind in ("one", "maybe"):
            return self.values(draw, is_faulty)
        return [self.values(draw, is_faulty) for _ in range(draw(st.integers(0, 2)))]


@functools.cache
def shape(number: int) -> Shape:
    random = Random(number)
    return Shape(random, 0, random.random() < 0.5)


@st.composite
def cases(draw: Any) -> tuple[Any, dict[str, Any]]:
    chosen = shape(draw(st.integers(0, MODELS - 1)))
    is_faulty = draw(st.integers(0, 3)) == 0
    return chosen.model, {"id": ObjectId("1" * 24), **chosen.values(draw, is_faulty)}


def seen(value: Any) -> Any:
    """Return everything that a program sees of a value: also types, and differences that `==` ignores."""
    if isinstance(value, (Document, Embedded)):
        parts = [(name, seen(getattr(value, name))) for name in type(value).__fields__]
        return type(value), parts, seen(value.extra), _core.odm_flags(value)
    if isinstance(value, dict):
        return dict, [(key, seen(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [seen(item) for item in value]
    if isinstance(value, dt.datetime):
        return dt.datetime, value.isoformat(), repr(value.tzinfo), value.fold
    return type(value), repr(value)


def outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except (TypeError, ValueError, OverflowError, AttributeError, BSONError) as error:
        return type(error), str(error)


def both(model: Any, values: dict[str, Any]) -> Any:
    """Return the document made of a dict, and of another mapping; None where both fail alike."""
    found = outcome(lambda: model.from_dict(values))
    wanted = outcome(lambda: model.from_dict(MappingProxyType(values)))
    if isinstance(wanted, tuple) or isinstance(found, tuple):
        assert found == wanted
        return None
    return found, wanted


def same(act: Callable[[Any], Any], pair: Any) -> None:
    found, wanted = (outcome(lambda each=each: act(each)) for each in pair)
    assert found == wanted


def store(document: Any) -> Any:
    """Prepare a document for storing, without a server."""
    data = _core.odm_encode(document)
    _core.odm_begin(document)
    _core.odm_stored(document, data, object())
    return bytes(data)


def change(document: Any, edits: list[tuple[int, int]]) -> Any:
    """Change the inside of a document; return the update that stores it."""
    done: list[Any] = []
    for place, value in edits:
        names = list(type(document).__fields__)[1:]
        part = getattr(document, names[place % len(names)])
        part = part[place % len(part)] if isinstance(part, list) and part else part
        if isinstance(part, Embedded):
            inside = list(type(part).__fields__)
            name = inside[value % len(inside)]
            done.append(outcome(functools.partial(setattr, part, name, [1, "y", None][value % 3])))
        elif isinstance(part, list):
            part.clear()
    update = outcome(lambda: _core.odm_update(document))
    return done, update, seen(document)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    case=cases(),
    edits=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 8)), max_size=3),
    is_read=st.booleans(),
)
def test_documents_of_a_dict_are_those_made_at_once(
    case: tuple[Any, dict[str, Any]], edits: list[tuple[int, int]], is_read: bool
) -> None:
    model, values = case
    before = repr(values)
    for act in (
        seen,
        repr,
        lambda document: seen(document.to_dict()),
        lambda document: document.to_json(),
        lambda document: seen(copy.copy(document)),
        lambda document: seen(document.copy(id=ObjectId("2" * 24))),
        lambda document: _core.odm_loaded(document),
        lambda document: document.validate(),
        lambda document: [_core.odm_encode(document), seen(document), _core.odm_encode(document)],
        lambda document: [store(document), seen(document), document.changes()],
    ):
        pair = both(model, values)
        if pair is None:
            return
        same(act, pair)
        same(seen, pair)
    pair = both(model, values)
    assert outcome(lambda: pair[0] == pair[1]) == outcome(lambda: pair[1] == both(model, values)[1])
    if is_read:
        same(seen, pair)
    if not isinstance(outcome(lambda: [store(each) for each in pair]), tuple):
        same(lambda document: change(document, edits), pair)
        same(lambda document: seen(copy.copy(document)), pair)
    assert repr(values) == before


class Line(Embedded):
    text: str
    price: float = 0.0
    at: ObjectId = field(default_factory=ObjectId)
    tags: list[str] = field(default_factory=list)
    code: str = field(default="x", frozen=True)


class Bill(Document):
    number: int
    line: Line
    lines: list[Line] = field(default_factory=list)
    last: Line | None = None


def bill(**values: Any) -> Bill:
    return Bill.from_dict(
        {"number": 1, "line": {"text": "tea"}, "lines": [{"text": "a"}, {"text": "b"}], **values}
    )


def is_packed(document: Any, name: str) -> bool:
    """Return whether a field was not read yet: its slot is empty."""
    try:
        type(document).__members__[name].__get__(document)
    except AttributeError:
        return True
    return False


def test_embedded_documents_are_kept_as_bson_until_they_are_read() -> None:
    made = bill()
    assert [is_packed(made, name) for name in ("line", "lines", "last")] == [True, True, False]
    assert made.lines is made.lines
    assert [is_packed(made, name) for name in ("line", "lines")] == [True, False]
    store(made)
    assert [line.text for line in made.lines] == ["a", "b"]
    assert is_packed(made, "line")
    assert made.line.text == "tea"


def test_a_default_that_is_made_anew_is_made_once() -> None:
    one, other = bill(), bill()
    data = one.to_bson()
    assert one.line.at == data["line"]["at"] != other.line.at
    assert one.line.tags == []
    one.line.tags.append("x")
    assert (one.to_bson()["line"]["tags"], bill().line.tags) == (["x"], [])


def test_a_frozen_field_of_what_was_given_may_still_be_set() -> None:
    made = bill()
    made.line.code = "y"
    store(made)
    made.lines[0].code = "z"
    assert (made.line.code, made.lines[0].code) == ("y", "z")
    with pytest.raises(AttributeError, match="cannot set the frozen field"):
        Bill.from_bson(made.to_bson().raw).line.code = "y"


def test_a_list_that_was_given_is_the_one_of_the_instance() -> None:
    tags: list[str] = []
    made = bill(line={"text": "tea", "tags": tags})
    tags.append("late")
    assert made.line.tags is tags


def test_nothing_listens_to_what_was_never_loaded() -> None:
    made, heard = bill(), []
    stop = listen("after", "load", heard.append, Line)
    try:
        assert made.line.text == "tea"
        assert heard == []
        assert Bill.from_bson(made.to_bson().raw).line == made.line
        assert heard != []
    finally:
        stop()


def test_pickles_and_assigned_fields_of_unread_documents() -> None:
    made = bill(last={"text": "end"})
    assert pickle.loads(pickle.dumps(made)) == made
    made = bill(last={"text": "end"})
    made.last = None
    made.line = Line(text="new")
    assert (made.last, made.line.text) == (None, "new")
    assert made.to_bson()["line"]["text"] == "new"
    assert "last" not in made.to_bson()


def nested(depth: int) -> dict[str, Any]:
    values: dict[str, Any] = {"n": 0}
    for number in range(depth):
        values = {"n": number, "child": values}
    return values


class Node(Embedded):
    n: int
    child: Node | None = None


class Tree(Document):
    node: Node


@pytest.mark.parametrize("depth", [1, 90, 97, 98, 99, 100, 150])
def test_documents_are_nested_as_deeply_as_those_made_at_once(depth: int) -> None:
    values = {"id": ObjectId("1" * 24), "node": nested(depth)}
    same(
        lambda document: bytes(_core.odm_encode(document)),
        [Tree.from_dict(values), Tree.from_dict(MappingProxyType(values))],
    )


def test_what_was_not_read_is_stored_and_changed_on_a_server(db: Connection, face: Any) -> None:
    made = bill(last={"text": "end"})
    face.save(made)
    assert is_packed(made, "line")
    assert made.changes() == {}
    assert face.call(Bill, "get", made.id) == made
    made.line.text = "milk"
    made.lines.append(Line(text="c"))
    face.save(made)
    stored = face.call(Bill, "get", made.id)
    assert (stored.line.text, [line.text for line in stored.lines], stored.last.text) == (
        "milk",
        ["a", "b", "c"],
        "end",
    )
    with pytest.raises(Exception, match="duplicate key"):
        face.call(bill(id=made.id), "insert")
    face.call(Bill, "insert_many", [bill(number=number) for number in (2, 3)])
    assert [found.lines[1].text for found in face.collect(Bill.find(Bill.number > 1))] == ["b", "b"]


def test_keys_of_every_length_are_written_whole_and_named_in_errors(db: Connection, face: Any) -> None:
    names = ["k" * length for length in (*range(1, 20), 31, 32, 33, 127 - 1)]
    inside: Any = type(Embedded)(
        "Inside", (Embedded,), {"__module__": __name__, "__annotations__": dict.fromkeys(names, int)}
    )
    model: Any = type(Document)(
        "Lengths",
        (Document,),
        {"__module__": __name__, "__annotations__": {"part": inside, **dict.fromkeys(names, str)}},
    )
    values = {"part": {name: len(name) for name in names}, **{name: name for name in names}}
    face.save(model.from_dict(values))
    assert {**model.collection().find_one(), "_id": 0} == {"_id": 0, **values}
    made = model.from_dict(values)
    for name in names:
        made.part = inside(**values["part"])
        object.__getattribute__(made, "part").__class__.__dict__[name].__set__(made.part, "no number")
        with pytest.raises(ValueError, match=rf"\$\.part\.{name}$"):
            made.to_bson()


class Twin(Embedded):
    first_name: str = ""
    second_name: str = ""


class Sheet(Document):
    line_of_one: Twin = field(default_factory=Twin)
    title_of_it: str = ""
    other_title: str = ""


def _parsed(*names: str) -> dict[str, Any]:
    """Return a dict from a separate parse: its keys are shared within it, and not interned."""
    titles = "".join(f', "{name}": "t"' for name in names)
    return json.loads(f'{{"line_of_one": {{"first_name": "a", "second_name": "b"}}{titles}}}')


def test_keys_of_each_parse_are_found_and_those_of_another_text_are_not() -> None:
    for _ in range(50):
        sheet = Sheet.from_dict(_parsed("title_of_it", "other_title"))
        assert sheet.to_dict(exclude=["id"]) == {
            "line_of_one": {"first_name": "a", "second_name": "b"},
            "title_of_it": "t",
            "other_title": "t",
        }
        # Names of a field's length, which could get the memory of a freed key.
        wrong = [_parsed("title_of_ix"), _parsed("titleXof_it"), _parsed("other_titlX")]
        for values in wrong:
            (name,) = values.keys() - {"line_of_one"}
            with pytest.raises(TypeError, match=name):
                Sheet(**values)
            assert "t" not in [
                getattr(Sheet.from_dict(values), known) for known in ("title_of_it", "other_title")
            ]


def test_a_key_of_a_class_of_its_own_is_not_kept() -> None:
    class Name(str):
        pass

    name = Name("title_of_it")
    gone = weakref.ref(name)
    assert Sheet(**{name: "t"}).title_of_it == "t"
    assert Sheet.from_dict({name: "t"}).title_of_it == "t"
    del name
    gc.collect()
    assert gone() is None


def test_a_key_that_no_field_has_is_not_interned() -> None:
    for make in (Sheet.from_dict, lambda values: Sheet(**values), lambda values: Twin(**values)):
        (name,) = json.loads(f'{{"no_such_name_{id(make)}": 1}}')
        with contextlib.suppress(TypeError):
            make({name: "t"})
        again = json.loads(json.dumps([name]))[0]
        assert again is not name
        assert sys.intern(again) is again
