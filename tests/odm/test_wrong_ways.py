"""Programming mistakes raise an error on both faces, and never expose, lose or miss data."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, ClassVar

import pytest

from mangonel import WriteConcern
from mangonel.bson import Timestamp
from mangonel.bson.errors import InvalidDocument
from mangonel.odm import (
    AnyRef,
    Connection,
    Document,
    Embedded,
    F,
    Ref,
    Refs,
    StaleDocument,
    UnsupportedOption,
    ValidationError,
    Version,
    current_date,
    each,
    field,
    in_,
    inc,
    rename,
    set_,
    unset,
)


class Owner(Document):
    name: str = ""


class Other(Document):
    name: str = ""


class Part(Embedded):
    a: int = 0
    b: int = 0


class Whole(Document):
    secret: str = "s"
    n: int = 0
    part: Part = field(default_factory=Part)
    parts: list[Part] = field(default_factory=list)
    by_name: dict[str, Part] = field(default_factory=dict)
    owner: Ref[Owner] | None = None
    owners: Refs[Owner]
    listed: list[Ref[Owner]] = field(default_factory=list)
    about: AnyRef | None = None


class Loose(Document):
    __dynamic__ = True
    a: int = 0


class Account(Document):
    name: str = ""
    cents: int = 0
    rev: Annotated[int, Version] = 0


class Unanswered(Document):
    __options__: ClassVar[dict[str, Any]] = {"write_concern": WriteConcern(w=0)}
    n: int = 0


@pytest.mark.parametrize(
    "names",
    [
        {"exclude": ["secrt"]},
        {"only": ["secrt"]},
        {"only": ["part.c"]},
        {"exclude": ["parts.c"]},
        {"include": ["ownr"]},
    ],
)
def test_a_dict_is_not_made_with_names_that_no_field_has(names: dict[str, Any]) -> None:
    with pytest.raises(AttributeError, match="has no field"):
        Whole().to_dict(**names)
    with pytest.raises(AttributeError, match="has no field"):
        Whole().to_json(**names)


@pytest.mark.parametrize(
    "names", [{"include": ["n"]}, {"include": ["owner.name"]}, {"only": [Whole.n]}, {"exclude": "n"}]
)
def test_a_dict_is_not_made_with_what_is_no_name_or_no_reference(names: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="expected"):
        Whole().to_dict(**names)


def test_a_dict_is_made_with_names_inside_containers_and_of_subclasses() -> None:
    class Shape(Document):
        __root__ = True
        inner: Part | None = None

    class Circle(Shape):
        r: float = 1.0

    whole = Whole(parts=[Part(a=1)], by_name={"x": Part(b=2)})
    assert whole.to_dict(only=["parts.a", "by_name.b"]) == {"parts": [{"a": 1}], "by_name": {"x": {"b": 2}}}
    shapes: list[Shape] = [Shape(), Circle()]
    assert [shape.to_dict(only=["r"]) for shape in shapes] == [{}, {"r": 1.0}]
    assert whole.to_dict(only=()) == {}


def test_keys_that_no_field_has_are_chosen_and_left_out_too() -> None:
    loose = Loose(a=1)
    loose.set_extra({"b": 2, "c": 3})
    assert loose.to_dict(exclude=["b", "id"]) == {"a": 1, "c": 3}
    assert loose.to_dict(only=["a", "c"]) == {"a": 1, "c": 3}


def test_a_condition_compares_a_reference_with_its_own_model_only() -> None:
    other, owner = Other(), Owner()
    for compare in (
        lambda one: Whole.owner == one,
        lambda one: each(Whole.owners) == one,
        lambda one: in_(Whole.owner, [one]),
        lambda one: each(Whole.listed) == one,
    ):
        with pytest.raises(ValidationError, match=r"expected a Owner to compare .* with, got Other"):
            compare(other)  # type: ignore[no-untyped-call]
        assert str(owner.id) in repr(compare(owner).query)  # type: ignore[no-untyped-call]


def test_a_condition_compares_a_reference_to_any_model_with_a_document(db: Connection, face: Any) -> None:
    owner, other = Owner(), Other()
    face.save(owner, other, Whole(about=AnyRef(owner)))
    about: Any = Whole.about
    assert face.call(Whole.find(about == owner), "count") == 1
    assert face.call(Whole.find(about == other), "count") == 0


@pytest.mark.parametrize("ask", ["all", "first", "one"])
def test_what_is_no_reference_cannot_be_included(db: Connection, face: Any, ask: str) -> None:
    face.save(Whole())
    for wrong in (Whole.n, Whole.part, Whole.about, "n"):
        with pytest.raises(TypeError, match=r"expected a reference for include\(\), got"):
            face.call(Whole.find().include(wrong), ask)


def test_a_limit_of_none_is_no_limit_for_every_operation(db: Connection, face: Any) -> None:
    face.save(Owner(), Owner())
    query = Owner.find().limit(1).limit(None)
    assert face.call(query, "count") == len(face.call(query, "all")) == 2
    assert len(face.call(query.lookup(), "all")) == 2


@pytest.mark.parametrize(
    "ask", [lambda query: query.limit(0), lambda query: query[0:0], lambda query: query.options(limit=0)]
)
def test_a_limit_of_zero_is_no_document_for_every_operation(ask: Any, db: Connection, face: Any) -> None:
    face.save(Owner(), Owner())
    query = ask(Owner.find())
    for method, nothing in (
        ("count", 0),
        ("all", []),
        ("dicts", []),
        ("raw", []),
        ("first", None),
        ("exists", False),
    ):
        assert face.call(query, method) == nothing
    assert face.call(query, "json") == b"[]"
    assert face.collect(query) == []
    assert face.call(query, "aggregate", [{"$count": "n"}]) == []
    assert face.call(query, "update", {"$set": {"name": "x"}}) == 0
    assert face.call(query, "delete") == 0
    assert face.call(Owner.find(), "count") == 2


def test_an_option_of_no_name_is_refused_where_it_is_given() -> None:
    options: dict[str, Any] = {"limt": 3}
    with pytest.raises(TypeError, match="got 'limt'"):
        Owner.find().options(**options)


def test_an_update_of_a_stale_document_does_not_make_its_changes_fresh(db: Connection, face: Any) -> None:
    mine = Account()
    face.save(mine)
    other = face.call(Account, "get", mine.id)
    face.call(other, "update", set_(Account.cents, 1))
    mine.cents = 2
    with pytest.raises(StaleDocument):
        face.call(mine, "update", set_(Account.name, "x"))
    with pytest.raises(StaleDocument):
        face.save(mine)
    assert face.call(Account, "get", mine.id).cents == 1
    # Without unsaved changes nothing can be lost.
    face.call(mine, "reload")
    face.call(other, "update", inc(Account.cents))
    assert face.call(mine, "update", set_(Account.name, "x")).cents == 2


def test_a_version_is_one_number() -> None:
    class Worded(Document):
        rev: Annotated[str, Version] = ""

    class Twice(Document):
        a: Annotated[int, Version] = 0
        b: Annotated[int, Version] = 0

    with pytest.raises(TypeError, match=r"Annotated\[int, Version\] for Worded.rev, got str"):
        Worded()
    with pytest.raises(TypeError, match="one Version in Twice, got a, b"):
        Twice()


def test_options_of_a_model_are_known() -> None:
    with pytest.raises(TypeError, match=r"Wrong.__options__, got write_concer"):

        class Wrong(Document):
            __options__: ClassVar[dict[str, Any]] = {"write_concer": WriteConcern(w=1)}


def test_nobody_waits_for_an_answer_that_does_not_come(db: Connection, face: Any) -> None:
    one = Unanswered(n=1)
    face.save(one)
    one.n = 2
    face.save(one)
    for run in (
        lambda: face.call(one, "update", inc(Unanswered.n)),
        lambda: face.call(Unanswered.find(), "find_and_update", inc(Unanswered.n)),
        lambda: face.call(Unanswered.find(), "find_and_delete"),
        lambda: face.call(Unanswered.find(), "find_and_replace", Unanswered()),
        lambda: face.call(Unanswered.find(Unanswered.n == 99), "get_or_create", Unanswered()),
    ):
        with pytest.raises(UnsupportedOption, match="cannot honour a write concern with w=0"):
            run()


class Piece(Embedded):
    title: str
    note: str | None = None


class Strict(Document):
    title: str
    note: str | None = None
    n: int = 0
    piece: Piece | None = None
    tags: list[str] = field(default_factory=list)
    notes: list[str | None] = field(default_factory=list)
    seen: dt.datetime | None = None
    tick: Timestamp | None = None
    day: dt.date | None = None


@pytest.mark.parametrize(
    "operator", [unset, lambda path: F(path).unset(), lambda path: rename(path, "other")]
)
def test_an_update_that_takes_a_required_value_away_is_refused(operator: Any) -> None:
    piece: Any = Strict.piece
    tags: Any = Strict.tags
    for path in (Strict.title, piece.title, tags[0]):
        with pytest.raises(ValidationError):
            operator(path)
        with pytest.raises(ValidationError):
            set_(path, None)


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_the_current_time_is_refused_for_a_field_of_another_type(kind: str) -> None:
    wrong: list[Any] = [
        Strict.title,
        Strict.n,
        Strict.piece,
        Strict.seen if kind == "timestamp" else Strict.tick,
    ]
    for path in wrong:
        with pytest.raises(ValidationError, match=r"expected .* at \$\."):
            current_date(path, kind)
    for path in [Strict.tick] if kind == "timestamp" else [Strict.seen, Strict.day]:
        current_date(path, kind)


def test_an_update_takes_away_what_documents_load_without(db: Connection, face: Any) -> None:
    face.save(Strict(title="x", note="y", n=3, piece=Piece(title="a", note="b"), notes=["c"]))
    piece: Any = Strict.piece
    notes: Any = Strict.notes
    changes = unset(Strict.note), unset(Strict.n), unset(piece.note), unset(notes[0])
    assert face.call(Strict.find(), "update", *changes) == 1
    found = face.call(Strict.find(), "one")
    assert (found.note, found.n, found.piece, found.notes) == (None, 0, Piece(title="a"), [None])
    assert face.call(Strict.find(), "update", unset(Strict.piece)) == 1


class Typed(Document):
    listed: list[int] = field(default_factory=list)
    unique: set[int] = field(default_factory=set)
    frozen: frozenset[int] = frozenset()
    pair: tuple[int, ...] = ()
    at: dt.datetime | None = None
    day: dt.date | None = None
    anything: Any = None


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        ({"listed": {1}}, "got set at $.listed: use a list"),
        ({"listed": (1,)}, "got tuple at $.listed: use a list"),
        ({"unique": [1]}, "got list at $.unique: use a set"),
        ({"frozen": {1}}, "got set at $.frozen: use a frozenset"),
        ({"pair": [1]}, "got list at $.pair: use a tuple"),
        ({"at": dt.date(2024, 1, 1)}, "got date at $.at: use datetime.datetime"),
        ({"day": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}, "got datetime at $.day: use its date()"),
    ],
)
def test_a_value_of_a_similar_type_is_refused_with_what_to_use(values: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(remedy) + "$"):
        Typed(**values)
    if any(isinstance(value, list) for value in values.values()):
        # `to_dict` shows sets and tuples as lists.
        made = Typed.from_dict(values)
        assert {name: made.to_dict()[name] for name in values} == values
        return
    with pytest.raises(ValidationError, match=re.escape(remedy) + "$"):
        Typed.from_dict(values)


def test_a_value_of_no_bson_type_is_refused_with_what_to_use(db: Connection, face: Any) -> None:
    with pytest.raises(InvalidDocument, match=r" at \$\.anything\[0\]: BSON has no sets; use a list$"):
        face.save(Typed(anything=[{1}]))
    day = {"day": dt.date(2024, 1, 1)}
    with pytest.raises(InvalidDocument, match=r" at \$\.anything\.day: .*; use datetime.datetime$"):
        face.save(Typed(anything=day))
