"""Models of any number of fields: a save sends every changed field and no other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mangonel import bson
from mangonel._core import odm_decode_all, odm_settle, odm_update
from mangonel.bson import ObjectId
from mangonel.odm import Document, Embedded

# Field counts at which the storage of a field's mark changes: flags of an instance, its head, separate words.
EDGES = (1, 55, 56, 57, 63, 64, 65, 119, 120, 121, 127, 128, 129, 191, 192, 200)


class Part(Embedded):
    """An embedded document."""

    a: int | None = None
    b: list[int] | None = None


# Types, with possible values and another value.
KINDS: dict[Any, tuple[list[Any], Any]] = {
    int: ([1, 2, 3], 77),
    str: (["", "x", "ä"], "other"),
    float: ([0.5, -2.0], 9.25),
    list[int]: ([[], [1], [1, 2, 3]], [4, 4]),
    dict[str, int]: ([{}, {"k": 1}], {"other": 2}),
    # One member at most: equal sets may list several in different orders.
    set[str]: ([[], ["x"]], {"y"}),
    Part: ([{}, {"a": 1}, {"a": None, "b": None}, {"b": [1]}], Part(a=5)),
    list[Part]: ([[], [{"a": 1, "b": None}]], [Part(a=6)]),
}
MISSING = object()


@st.composite
def models(draw: Any) -> tuple[type[Document], list[Any], dict[str, Any]]:
    """A model, its fields' types, and a possible stored document: in any order, with nulls and without some keys."""
    count = draw(st.one_of(st.sampled_from(EDGES), st.integers(1, 200)))
    pattern = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=9))
    kinds = [pattern[n % len(pattern)] for n in range(count)]
    is_optional = draw(st.lists(st.booleans(), min_size=1, max_size=5))
    optional = [is_optional[n % len(is_optional)] for n in range(count)]
    namespace: dict[str, Any] = {"__annotations__": {}, "__module__": __name__}
    stored: dict[str, Any] = {"_id": ObjectId()}
    for n, kind in enumerate(kinds):
        namespace["__annotations__"][f"f{n}"] = kind | None if optional[n] else kind
        if optional[n]:
            namespace[f"f{n}"] = None
        choices = [*KINDS[kind][0], *([None, MISSING] if optional[n] else [])]
        value = choices[draw(st.integers(0, len(choices) - 1))]
        if value is not MISSING:
            stored[f"f{n}"] = value
    if draw(st.booleans()):
        stored = {"_id": stored.pop("_id"), **dict(reversed(stored.items()))}
    return type("Wide", (Document,), namespace), kinds, stored


def load(model: Any, stored: dict[str, Any], **options: Any) -> Any:
    """Return a document as read from the server."""
    (made,) = odm_decode_all(model.__model__, bson.encode(stored), **options)
    return made


def sent(document: Any) -> dict[str, Any] | None:
    """Return the update that a save would send; the update is then refused."""
    update = odm_update(document)
    odm_settle(document, False)
    return None if update is None else bson.decode(update)


def keys(update: dict[str, Any]) -> set[str]:
    """Return the fields that an update changes."""
    return {path.split(".")[0] for part in update.values() for path in part}


wide = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@wide
@given(models(), st.data())
def test_exactly_the_field_that_was_changed_is_sent(
    made: tuple[type[Document], list[Any], dict[str, Any]], data: Any
) -> None:
    model, kinds, stored = made
    document = load(model, stored)
    for n in range(len(kinds)):
        assert getattr(document, f"f{n}", None) is not MISSING
    assert sent(document) is None
    assert not document.is_changed
    which = data.draw(st.integers(0, len(kinds) - 1))
    other = KINDS[kinds[which]][1]
    setattr(document, f"f{which}", other)
    assert document.is_changed
    assert list(document.changes()) == [f"f{which}"]
    for is_stored in (False, False, True):
        update = odm_update(document)
        assert update is not None
        assert keys(bson.decode(update)) == {f"f{which}"}
        odm_settle(document, is_stored)
    assert sent(document) is None


@wide
@given(models())
def test_what_was_loaded_is_written_back_as_it_was(
    made: tuple[type[Document], list[Any], dict[str, Any]],
) -> None:
    model, kinds, stored = made
    document = load(model, stored)
    assert bson.decode(document.to_bson().raw) == stored
    setattr(document, f"f{len(kinds) - 1}", KINDS[kinds[-1]][1])
    assert bson.decode(document.copy().to_bson().raw).keys() >= {f"f{len(kinds) - 1}"}
    fresh = model.from_bson(document.to_bson().raw)
    assert fresh.to_json() == document.to_json()


@wide
@given(models(), st.data())
def test_fields_that_were_not_asked_for_are_not_loaded_and_not_sent(
    made: tuple[type[Document], list[Any], dict[str, Any]], data: Any
) -> None:
    model, kinds, stored = made
    asked = data.draw(st.sets(st.integers(0, len(kinds) - 1), min_size=1))
    # The id is the first field.
    projected = {key: value for key, value in stored.items() if key == "_id" or int(key[1:]) in asked}
    document = load(model, projected, only=[0, *(n + 1 for n in asked)])
    assert sent(document) is None
    for n in range(len(kinds)):
        if n in asked:
            getattr(document, f"f{n}")
        else:
            with pytest.raises(AttributeError, match="not loaded"):
                getattr(document, f"f{n}")
    which = max(asked)
    setattr(document, f"f{which}", KINDS[kinds[which]][1])
    update = sent(document)
    assert update is not None
    assert keys(update) == {f"f{which}"}


@pytest.mark.parametrize("count", [121, 1000, pytest.param(65_534, marks=pytest.mark.no_sample)])
def test_a_model_may_have_as_many_fields(count: int) -> None:
    names = [f"f{n}" for n in range(count)]
    annotations = dict.fromkeys(names, list[int] | None)
    model: Any = type("Wide", (Document,), {"__annotations__": annotations, **dict.fromkeys(names)})
    stored = {"_id": ObjectId(), **{name: (None if n % 3 else [n]) for n, name in enumerate(names)}}
    document = load(model, stored)
    assert sent(document) is None
    last = names[-1]
    setattr(document, last, [5, 6])
    update = sent(document)
    assert update is not None
    assert keys(update) == {last}
    assert bson.decode(document.to_bson().raw) == {**stored, last: [5, 6]}


@pytest.mark.no_sample
def test_more_fields_than_can_be_counted_are_refused() -> None:
    annotations = {f"f{n}": int for n in range(65_536)}
    model: Any = type("TooWide", (Document,), {"__annotations__": annotations})
    with pytest.raises(TypeError, match="expected at most 65535 fields"):
        load(model, {"_id": ObjectId()})


def test_a_wide_document_is_stored_and_read_on_both_faces(db: Any, face: Any) -> None:
    names = [f"f{n}" for n in range(300)]
    model: Any = type(
        "WideStored",
        (Document,),
        {"__annotations__": dict.fromkeys(names, str | None), **dict.fromkeys(names)},
    )
    document = model(**{name: name for name in names[::2]})
    face.call(document, "insert")
    document.f299 = "x"
    document.f0 = None
    face.call(document, "save")
    found = face.call(model, "get", document.id)
    expected = {**dict.fromkeys(names), **{name: name for name in names[::2]}, "f299": "x", "f0": None}
    assert {name: getattr(found, name) for name in names} == expected
    found.f298 = None
    found.f150 = "y"
    face.call(found, "save")
    face.call(document, "reload")
    assert (document.f298, document.f150, document.f299) == (None, "y", "x")
    listed = face.call(model.find(model.f299 == "x").only(model.f150, model.f299), "all")
    assert [(one.f150, one.f299) for one in listed] == [("y", "x")]
    assert '"f299":"x"' in bytes(face.call(model.find(), "json")).decode().replace(" ", "")
