"""Data of programs with other versions of a model: unknown classes and keys stay stored, other forms load."""

from __future__ import annotations

import copy
import enum
import pickle
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest

from mangonel.bson import Int64, ObjectId
from mangonel.odm import Connection, Document, Embedded, StaleDocument, ValidationError, Version, field, set_


class Shape(Embedded):
    __root__ = True
    n: int = 0


class Disc(Shape):
    r: int = 1


class Loose(Embedded):
    __unknown__ = "ignore"
    n: int = 0


class Board(Document):
    shape: Shape
    disc: Disc | None = None
    shapes: list[Shape] = field(default_factory=list)
    named: dict[str, Shape] = field(default_factory=dict)
    loose: list[Loose] = field(default_factory=list)
    n: int = 0


NEWER: dict[str, Any] = {
    "shape": {"_cls": "Star", "n": 1, "points": 5},
    "disc": {"n": 1, "_cls": "Ring", "hole": 2},
    "shapes": [{"_cls": "Disc", "r": 2}, {"_cls": "Star"}, {"n": 3}, {"n": 4, "_cls": 7}],
    "named": {"a": {"_cls": "Star", "points": 6}},
    "loose": [{"n": 1, "new": 2}, {"new": 3}],
}


def stored(db: Connection, board: Any) -> dict[str, Any]:
    return db.client[db.name]["board"].find_one({"_id": board.id}, {"_id": 0}) or {}


def newer(db: Connection, face: Any) -> Any:
    """Store a board of a newer program, and load it."""
    id = db.client[db.name]["board"].insert_one(dict(NEWER)).inserted_id
    return face.call(Board, "get", id)


def read(board: Any) -> Any:
    """Decode all values, as a program does that shows them."""
    return board.shape, board.disc, board.shapes, board.named, board.loose


WAYS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda board: board,
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda board: pickle.loads(pickle.dumps(board)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_value_that_was_only_read_stays_as_it_is_stored(way: str, db: Connection, face: Any) -> None:
    board = newer(db, face)
    assert [type(part) for part in (board.shape, board.disc, *board.shapes)] == [
        *(Shape, Disc),
        *(Disc, Shape, Shape, Shape),
    ]
    read(board)
    board = WAYS[way](board)
    assert board.changes() == {}
    board.n = 5
    face.save(board)
    assert stored(db, board) == {**NEWER, "n": 5}


def test_a_class_without_a_name_here_keeps_its_tag(db: Connection, face: Any) -> None:
    board = newer(db, face)
    board.shape.n = board.disc.n = 8
    board.shapes[1].n = 9
    board.shapes.append(Disc(r=4))
    board.named["a"].n = 2
    face.save(board)
    found = stored(db, board)
    assert found["shape"] == {"_cls": "Star", "n": 8, "points": 5}
    assert found["disc"] == {"_cls": "Ring", "n": 8, "hole": 2}
    assert found["shapes"][1] == {"_cls": "Star", "n": 9}
    assert [found["shapes"][index] for index in (0, 2, 3)] == [NEWER["shapes"][index] for index in (0, 2, 3)]
    assert found["shapes"][4]["_cls"] == "Disc"
    assert found["named"] == {"a": {"_cls": "Star", "points": 6, "n": 2}}


class Animal(Document):
    __root__ = True
    n: int = 0


class Cow(Animal):
    milk: int = 0


def test_a_document_of_a_class_without_a_name_here_keeps_its_tag(db: Connection, face: Any) -> None:
    raw = db.client[db.name]["animal"]
    document = {"_id": ObjectId(), "_cls": "Goat", "n": 1, "horns": 2}
    raw.insert_one(document)
    goat = face.call(Animal, "get", document["_id"])
    goat.n = 2
    face.save(goat)
    assert raw.find_one() == {**document, "n": 2}
    goat.n = 3
    face.call(pickle.loads(pickle.dumps(goat)), "save")
    assert raw.find_one() == {**document, "n": 3}
    goat = face.call(Animal, "get", document["_id"])
    face.call(goat, "replace")
    assert raw.find_one() == {**document, "n": 3}
    goat.set_extra({**goat.extra, "horns": 4})
    face.save(goat)
    assert raw.find_one() == {**document, "n": 3, "horns": 4}
    # A class with a name here writes its own.
    cow = Cow(milk=3)
    face.save(cow)
    face.call(cow, "replace")
    assert (raw.find_one({"_id": cow.id}) or {})["_cls"] == "Cow"


class Vote(Document):
    way: Literal[1, -1, 0]
    ways: list[Literal[1, -1]] = field(default_factory=list)


def test_a_long_integer_is_its_own_literal(db: Connection, face: Any) -> None:
    raw = db.client[db.name]["vote"]
    raw.insert_one({"way": Int64(-1), "ways": [Int64(-1), -1, Int64(1)]})
    vote = face.call(Vote.find(), "one")
    assert (vote.way, vote.ways, type(vote.way)) == (-1, [-1, -1, 1], int)
    raw.update_one({}, {"$set": {"way": Int64(-2)}})
    with pytest.raises(ValidationError, match="expected one of 1, -1, 0, got -2"):
        face.call(Vote.find(), "one")


class Counted(Document):
    name: str
    tags: list[str] = field(default_factory=list)
    rev: Annotated[int, Version] = 0


class FromTen(Document):
    name: str
    rev: Annotated[int, Version] = 10


DEEDS: dict[str, Callable[[Any, Any], Any]] = {
    "save": lambda face, document: face.call(document, "save"),
    "save_all": lambda face, document: face.call(type(document), "save_all", [document]),
    "replace": lambda face, document: face.call(document, "replace"),
    "update": lambda face, document: face.call(document, "update", set_(type(document).name, "new")),
    "update beside changes": lambda face, document: face.call(document, "update", {"$set": {"kind": 1}}),
}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("model", [Counted, FromTen])
def test_a_document_older_than_its_version_is_guarded_like_others(
    model: Any, deed: str, db: Connection, face: Any
) -> None:
    raw = db.client[db.name][model.__collection_name__()]
    id = raw.insert_one({"name": "old"}).inserted_id
    first = model(name="x").rev
    one, other, third = (face.call(model, "get", id) for _ in range(3))
    other.name = third.name = "other"
    if deed != "update":
        one.name = "new"
    DEEDS[deed](face, one)
    if deed == "update beside changes":
        face.save(one)
    found = raw.find_one({"_id": id}) or {}
    assert (found["name"], found["rev"]) == ("new", one.rev)
    if deed in ("save", "save_all", "replace"):
        assert one.rev == first + 1
    for document in (other, pickle.loads(pickle.dumps(third))):
        with pytest.raises(StaleDocument):
            face.call(document, "save")
        face.call(document, "reload", keep_changes=True)
        face.save(document)
        assert (raw.find_one({"_id": id}) or {})["rev"] == document.rev
    one = pickle.loads(pickle.dumps(face.call(model, "get", id)))
    one.name = "last"
    face.save(one)
    face.call(one, "delete")
    assert raw.count_documents({}) == 0


def abort(db: Connection, document: Any) -> None:
    with db.transaction():
        document.save()
        raise KeyError


async def aborted(db: Connection, document: Any) -> None:
    async with db.transaction():
        await document.asave()
        raise KeyError


def test_a_document_older_than_its_version_is_deleted_and_restored_like_others(
    db: Connection, face: Any
) -> None:
    raw = db.client[db.name]["counted"]
    id = raw.insert_one({"name": "old"}).inserted_id
    one, other = (face.call(Counted, "get", id) for _ in range(2))
    one.name = "new"
    with pytest.raises(KeyError):
        face.run(lambda: aborted(db, one)) if face.is_async else abort(db, one)
    assert (one.rev, one.name) == (0, "new")
    face.save(one)
    assert one.rev == 1
    with pytest.raises(StaleDocument):
        face.call(other, "delete")
    face.call(one, "delete")
    assert raw.count_documents({}) == 0


class Right(enum.Flag):
    READ = 1
    WRITE = 2
    BOTH = 3


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"

    @classmethod
    def _missing_(cls, value: object) -> Size | None:
        return cls.LARGE if value == "xl" else None


class Grant(Document):
    right: Right
    size: Size = Size.SMALL
    rights: list[Right] = field(default_factory=list)


def test_members_of_enums_are_read_as_python_finds_them(db: Connection, face: Any) -> None:
    raw = db.client[db.name]["grant"]
    for right in (Right.READ, Right.BOTH, Right.READ | Right.WRITE, Right(0)):
        grant = Grant(right=right, rights=[right])
        face.save(grant)
        found = face.call(Grant, "get", grant.id)
        assert (found.right, found.rights) == (right, [right])
        assert face.call(Grant.find(Grant.right == right), "exists")
    id = raw.insert_one({"right": Int64(3), "size": "xl"}).inserted_id
    assert face.call(Grant, "get", id).size is Size.LARGE
    for wrong in ({"right": 8}, {"right": "r"}, {"right": 1, "size": "m"}, {"right": 1, "size": []}):
        id = raw.insert_one(dict(wrong)).inserted_id
        with pytest.raises(ValidationError, match=r"expected (Right|Size), got "):
            face.call(Grant, "get", id)


def test_an_enum_whose_values_bson_changes_is_refused() -> None:
    for value in ((1, 2), [1], float("nan"), object(), frozenset([1])):
        kind = enum.Enum("kind", {"GOOD": 1, "BAD": value})
        body = {"kind": kind, "__annotations__": {"kind": kind}, "__module__": __name__}
        made: Any = type("Kinds", (Document,), body)
        with pytest.raises(
            TypeError, match=r"^cannot store <kind\.BAD: .*> of Kinds: BSON does not keep its value"
        ):
            made(kind=1)


class Optional(Document):
    id: ObjectId | None = None  # type: ignore[assignment]
    n: int = 0


class Slug(Document):
    id: str | None = None  # type: ignore[assignment]
    n: int = 0


def test_an_id_of_none_is_given_before_the_document_is_stored(db: Connection, face: Any) -> None:
    raw = db.client[db.name]["optional"]
    first, second, third, fourth = (Optional(n=n) for n in range(4))
    assert first.id is None
    assert [first].index(first) == 0
    assert first not in [second, third]
    face.save(first)
    face.call(Optional, "insert_many", [second])
    face.call(Optional, "save_all", [third])
    # In a context with a session, a flow stores it.
    if not face.is_async:
        with db.session():
            face.save(fourth)
    else:
        face.save(fourth)
    for one in (first, second, third, fourth):
        assert isinstance(one.id, ObjectId)
        one.n += 10
        face.save(one)
    assert sorted(document["n"] for document in raw.find()) == [10, 11, 12, 13]
    asks: list[Callable[[], Any]] = [
        lambda: face.save(Slug()),
        lambda: face.call(Slug, "insert_many", [Slug()]),
    ]
    for ask in asks:
        with pytest.raises(
            ValidationError, match=r"^expected str for a new document, got None at \$\.id: set it"
        ):
            ask()
    assert face.call(Slug.find(), "count") == 0
    slug = Slug()
    slug.id = "x"
    face.save(slug)
    assert face.call(Slug, "get", "x").n == 0


@pytest.mark.parametrize("base", [Document, Embedded])
def test_keys_that_fields_cannot_have_are_refused(base: Any) -> None:
    def define(**fields: Any) -> None:
        annotations = dict.fromkeys(fields, int)
        type("Odd", (base,), {**fields, "__annotations__": annotations, "__module__": __name__})

    for key in ("a.b", ".", "$a"):
        with pytest.raises(TypeError, match=r"^cannot store Odd\.n as '.*': in updates a dot makes a path"):
            define(n=field(key=key))
    with pytest.raises(TypeError, match=r"^cannot store Odd\.n as 'm': m has that key"):
        define(m=field(default=0), n=field(default=0, key="m"))
    define(n=field(key="a$b"), m=field(key="n"))


def test_a_path_leads_to_no_key_with_a_dot() -> None:
    path: Any = Board.named
    assert str(path["a"].n == 1) == str(path["a"]["n"] == 1)
    with pytest.raises(ValueError, match=r"^expected a key without a dot, .*, got 'a\.b'$"):
        path["a.b"]
