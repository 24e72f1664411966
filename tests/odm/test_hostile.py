"""Documents that do not match the model: an error with the path, or the fallback; never a crash."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest

from mangonel import _core, bson
from mangonel.bson.errors import InvalidBSON
from mangonel.odm import Document, Embedded, Point, ValidationError, field


class Inner(Embedded):
    n: int
    tree: list[Inner] = field(default_factory=list)


class Model(Document):
    name: str
    inner: Inner
    inners: list[Inner] = field(default_factory=list)
    at: dt.datetime | None = None
    place: Point | None = None
    tags: dict[str, list[int]] = field(default_factory=dict)


class Lenient(Model):
    __on_bad__ = "raw"


class Converted(Embedded):
    """Not `Inner`, which would convert in `Model` too."""

    n: int


class Casting(Document):
    __cast__ = True
    name: str
    inner: Converted
    at: dt.datetime | None = None


class Strict(Document):
    __unknown__ = "forbid"
    name: str


GOOD: dict[str, Any] = {"_id": bson.ObjectId(), "name": "x", "inner": {"n": 1}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 5}, r"expected str, got int at \$\.name"),
        ({"name": None}, r"expected str, got None at \$\.name"),
        ({"inner": [1]}, r"expected Inner, got list at \$\.inner"),
        ({"inner": {"n": "x"}}, r"expected int, got str at \$\.inner\.n"),
        ({"inner": {}}, r"expected int, got no value at \$\.inner\.n"),
        ({"inners": {"n": 1}}, r"expected list, got dict at \$\.inners"),
        ({"inners": [{"n": 1}, {"n": 1.5}]}, r"expected int, got float at \$\.inners\[1\]\.n"),
        (
            {"inners": [{"n": 1, "tree": [{"n": True}]}]},
            r"expected int, got bool at \$\.inners\[0\]\.tree\[0\]\.n",
        ),
        (
            {"at": "now"},
            r"expected datetime with a time zone, as of datetime.now\(UTC\) or None, got str at \$\.at",
        ),
        ({"place": {"type": "Point"}}, r"expected Point or None, got dict at \$\.place"),
        ({"tags": {"a": [1, "b"]}}, r"expected int, got str at \$\.tags\.a\[1\]"),
    ],
)
def test_wrong_value_names_its_path(change: dict[str, Any], message: str) -> None:
    data = bson.encode({**GOOD, **change})
    with pytest.raises(ValidationError, match=message):
        Model.from_bson(data)
    # Lazy fields raise when they are read.
    with pytest.raises(ValidationError, match=message):
        Model.from_bson(data, lazy=True).to_dict()
    # The fallback: the value unchanged.
    Lenient.from_bson(data).to_dict()


def test_missing_key_names_its_path() -> None:
    with pytest.raises(ValidationError, match=r"expected str, got no value at \$\.name"):
        Model.from_bson(bson.encode({"_id": 1 and bson.ObjectId(), "inner": {"n": 1}}))
    assert Lenient.from_bson(bson.encode({"_id": bson.ObjectId(), "inner": {"n": 1}})).name is None


def test_unknown_key_is_kept_or_forbidden() -> None:
    found = Model.from_bson(bson.encode({**GOOD, "more": {"a": 1}}))
    assert found.extra == {"more": {"a": 1}}
    assert bson.decode(_core.odm_encode(found))["more"] == {"a": 1}
    with pytest.raises(ValidationError, match=r"unknown key at \$\.more"):
        Strict.from_bson(bson.encode({"_id": bson.ObjectId(), "name": "x", "more": 1}))


def test_casting_model_takes_what_can_be_converted() -> None:
    found = Casting.from_bson(bson.encode({**GOOD, "name": 5, "at": "2024-01-02T03:04:05"}))
    assert (found.name, found.at) == ("5", dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC))
    made = Casting(name=7, inner={"n": 2}, at="2024-01-02")  # type: ignore[arg-type]
    assert (made.name, made.inner.n, made.at) == ("7", 2, dt.datetime(2024, 1, 2, tzinfo=dt.UTC))
    with pytest.raises(ValidationError, match=r"\$\.at"):
        Casting.from_bson(bson.encode({**GOOD, "at": "never"}))


def test_deep_nesting_is_refused() -> None:
    data = bson.encode({"n": 1})
    for _ in range(450):
        array = (len(data) + 8).to_bytes(4, "little") + b"\x030\0" + data + b"\0"
        body = b"\x10n\0\1\0\0\0" + b"\x04tree\0" + array
        data = (len(body) + 5).to_bytes(4, "little") + body + b"\0"
    with pytest.raises(ValidationError, match="nested deeper"):
        Inner.from_bson(data)


def test_huge_array_is_read() -> None:
    found = Model.from_bson(bson.encode({**GOOD, "inners": [{"n": n} for n in range(100_000)]}))
    assert len(found.inners) == 100_000
    found.inners.append(Inner(n=-1))
    update = bson.decode(_core.odm_update(found) or b"")
    assert update == {"$push": {"inners": {"$each": [{"n": -1, "tree": []}]}}}


def test_broken_bytes_never_crash() -> None:
    good = bytes(_core.odm_encode(Model(name="x" * 20, inner=Inner(n=1, tree=[Inner(n=2)]), tags={"a": [1]})))
    generator = random.Random(7)
    for _ in range(20_000):
        data = bytearray(good)
        for _ in range(generator.randint(1, 3)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        if generator.random() < 0.3:
            data = data[: generator.randrange(len(data))]
        for lazy in (False, True):
            try:
                found = Model.from_bson(bytes(data), lazy=lazy)
                found.to_dict()
                found.changes()
                _core.odm_encode(found)
            except (ValidationError, InvalidBSON, ValueError, AttributeError, OverflowError, RecursionError):
                continue


def test_descriptor_refuses_what_is_no_instance() -> None:
    descriptor = Model.__dict__["tags"]
    for wrong in (5, object(), "x", Strict(name="x")):
        with pytest.raises((TypeError, AttributeError)):
            descriptor.__get__(wrong, type(wrong))
