"""A misspelt option of a class or an index is refused at its definition, and the error suggests the right name."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from annotated_types import MaxLen

from mangonel import odm
from mangonel.odm import (
    Document,
    Embedded,
    Index,
    Indexed,
    Ref,
    Sequence,
    SoftDelete,
    Timestamps,
    Vector,
    Version,
)


@pytest.mark.parametrize(
    ("option", "value", "right"),
    [
        ("__colection__", "people", "__collection__"),
        ("__index__", [Index("name")], "__indexes__"),
        ("__default_scop__", staticmethod(lambda query: query), "__default_scope__"),
        ("__conection__", "other", "__connection__"),
        ("__shardkey__", {"name": 1}, "__shard_key__"),
        ("__unknow__", "forbid", "__unknown__"),
        ("__casts__", True, "__cast__"),
    ],
)
@pytest.mark.parametrize("bases", [(Document,), (Timestamps, SoftDelete)])
def test_a_misspelt_option_of_a_class_is_refused(option: str, value: Any, right: str, bases: Any) -> None:
    with pytest.raises(TypeError, match=f"in Person, got '{option}'; did you mean '{right}'"):
        type(Document)("Person", bases, {option: value, "__module__": __name__})


@pytest.mark.parametrize(
    ("place", "given", "right"),
    [
        ("Settings", {"name": "books"}, "__collection__"),
        ("Settings", {"indexes": ["title"]}, "__indexes__"),
        ("Meta", {"collection_name": "books"}, "__collection__"),
        ("meta", {"collection": "books", "ordering": ["title"]}, "__collection__"),
    ],
)
def test_settings_in_the_form_of_another_mapper_are_refused(
    place: str, given: dict[str, Any], right: str
) -> None:
    body = {place: given if place == "meta" else type(place, (), given)}
    with pytest.raises(TypeError, match=f"of {place} in Book, which has no effect here: use {right}$"):
        type(Document)("Book", (Document,), body)


def test_a_class_inside_a_model_may_have_any_name() -> None:
    class Holder(Document):
        class Meta(Embedded):
            name: str = ""

        class Settings:
            tidy = True

        meta: Meta | None = None

    assert Holder.Settings.tidy
    assert Holder(meta=Holder.Meta(name="a")).meta is not None


def test_an_embedded_document_has_its_own_options() -> None:
    with pytest.raises(TypeError, match="did you mean '__on_bad__'"):
        type(Document)("Part", (Embedded,), {"__onbad__": "raw", "__module__": __name__})


def test_other_special_names_are_a_programs_own() -> None:
    class Person(Document):
        __collection__ = "people"
        __hash__ = None  # type: ignore[assignment]
        __match_args__ = ("name",)
        name: str

        def __index__(self) -> int:
            return 1

    assert Person.__collection_name__() == "people"


@pytest.mark.parametrize(
    ("option", "right"),
    [
        ("uniqe", "unique"),
        ("spares", "sparse"),
        ("expire_after_seconds", "expireAfterSeconds"),
        ("colation", "collation"),
    ],
)
def test_a_misspelt_option_of_an_index_is_refused(option: str, right: str) -> None:
    for make in (lambda **options: Indexed(**options), lambda **options: Index("name", **options)):
        with pytest.raises(TypeError, match=f"got '{option}'; did you mean '{right}'"):
            make(**{option: 1})


def test_an_annotation_that_is_text_is_checked_before_it_is_evaluated() -> None:
    with pytest.raises(TypeError, match=r"in Person\.mail, got 'uniqe'; did you mean 'unique'"):

        class Person(Document):
            friend: Annotated[Ref[Later], Indexed(-1, unique=True, expire_after=3, futureOption=1)]  # type: ignore[name-defined]  # noqa: F821
            mail: Annotated[str | None, MaxLen(80), odm.Indexed("hashed", uniqe=True)] = None


def test_options_of_the_server_are_passed_on() -> None:
    index = Indexed(collation={"locale": "en"}, hidden=True, futureOption=1)
    assert index.options == {"collation": {"locale": "en"}, "hidden": True, "futureOption": 1}


def test_an_overridden_find_is_refused() -> None:
    # get() would bypass it, so a tenant would see other tenants' documents.
    with pytest.raises(TypeError, match=r"cannot override find\(\) in Person.*__default_scope__"):

        class Person(Document):
            name: str

            @classmethod
            def find(cls, *where: Any, on_invalid: Any = None) -> Any:
                return super().find({"tenant": 1}, *where)


@pytest.mark.parametrize(
    ("mark", "right"),
    [
        (Version, r"Annotated\[int, Version\]"),
        (Version(), r"Annotated\[int, Version\]"),
        (Sequence(), r"Annotated\[int \| None, Sequence\(\)\]"),
        (Indexed(unique=True), r"Annotated\[…, Indexed\(…\)\]"),
        (Vector(3), r"Annotated\[list\[float\], Vector\(…\)\]"),
    ],
)
def test_a_mark_in_place_of_a_type_is_refused_with_how_it_is_written(mark: Any, right: str) -> None:
    for annotation, where in ((mark, "Person.n"), (list[mark], "a part of Person")):  # type: ignore[valid-type]
        # Otherwise other models of its collection would report this error too.
        body = {
            "__annotations__": {"n": annotation},
            "__module__": __name__,
            "__collection__": "refused_marks",
        }
        person: Any = type(Document)("Person", (Document,), body)
        kind = mark if isinstance(mark, type) else type(mark)
        with pytest.raises(TypeError, match=f"expected {right} for {where}, got {kind.__name__}$"):
            person(n=1)


@pytest.mark.parametrize(
    ("base", "keyword", "remedy"),
    [
        (Document, "collecton", "write __collection__ = … in the class"),
        (Document, "shard_key", "write __shard_key__ = … in the class"),
        (Embedded, "unknown", "write __unknown__ = … in the class"),
        (Embedded, "frozen", "options are attributes of the class"),
    ],
)
def test_a_keyword_of_a_class_statement_is_refused_with_the_option(
    base: Any, keyword: str, remedy: str
) -> None:
    with pytest.raises(TypeError) as told:
        type(base)("Book", (base,), {"__module__": __name__}, **{keyword: "b"})
    assert str(told.value) == (
        f"expected no keywords in the class statement of Book, got {keyword!r}; {remedy}"
    )
