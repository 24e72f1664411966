"""Refusals before anything is sent: values, names, hooks and rules that make no sense."""

from __future__ import annotations

import decimal
from typing import Annotated, Any, ClassVar

import pytest
from annotated_types import Ge

from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    Index,
    Ref,
    ValidationError,
    after,
    before,
    exists,
    field,
    inc,
    max_,
    mul,
    push,
    set_,
    size,
)


class Writer(Document):
    name: str


class Reader(Document):
    name: str = ""


class Size(Embedded):
    cm: int = 0


class Thing(Document):
    writer: Ref[Writer] | None = None
    n: int = 0
    ratio: float = 0.0
    price: decimal.Decimal | None = None
    tags: list[str] = field(default_factory=list)
    size: Size | None = None
    label: str | None = field(default=None, key="l")
    anything: Any = None


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: set_(Thing.n, "text"), "$.n"),
        (lambda: set_(Thing.n, None), "$.n"),
        (lambda: inc(Thing.n, 0.5), "$.n"),
        (lambda: max_(Thing.label, 3), "$.l"),
        (lambda: push(Thing.tags, "a", 3), "$.tags"),
        (lambda: set_(Thing.size.cm, "text"), "$.size.cm"),
        (lambda: set_(Thing.writer, Reader()), "$.writer"),
    ],
)
def test_an_update_that_does_not_fit_its_field_is_refused(make: Any, path: str) -> None:
    with pytest.raises(ValidationError, match=path.replace("$", r"\$")):
        make()


def test_an_update_is_converted_to_what_its_field_stores() -> None:
    ada = Writer(name="Ada")
    assert set_(Thing.writer, ada).value == ada.id
    assert set_(Thing.writer, str(ada.id)).value == ada.id
    assert inc(Thing.ratio, 1).value == 1.0
    assert str(inc(Thing.price, 2).value) == "2"
    assert set_(Thing.label, None).value is None
    assert set_(Thing.anything, {"a": 1}).value == {"a": 1}


def test_an_amount_is_not_bound_by_the_limits_of_its_field() -> None:
    class Stock(Document):
        count: Annotated[int, Ge(0)] = 0
        price: Annotated[decimal.Decimal, Ge(0)] = decimal.Decimal(0)

    assert inc(Stock.count, -2).value == -2
    assert str(inc(Stock.price, -2).value) == "-2"
    assert mul(Stock.count, -1).value == -1
    with pytest.raises(ValidationError, match=r"expected int, got bool at \$\.count"):
        inc(Stock.count, True)
    with pytest.raises(ValidationError, match=">= 0"):
        set_(Stock.count, -1)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: Thing.find().sort("-naem"),
        lambda: Thing.find().only("n", "naem"),
        lambda: Thing.find().exclude("size.mm"),
        lambda: Thing.find().values("naem"),
        lambda: Thing.find().sum("naem"),
    ],
)
def test_names_that_no_field_has_are_errors(ask: Any, db: Connection) -> None:
    with pytest.raises(AttributeError, match="has no field"):
        ask()


def test_an_index_of_a_name_that_no_field_has_is_an_error(db: Connection) -> None:
    class Indexed(Document):
        __indexes__: ClassVar[list[Index]] = [Index("naem")]
        name: str

    with pytest.raises(AttributeError, match="has no field 'naem'"):
        Indexed.sync_indexes(plan=True)


def test_names_may_be_attributes_or_keys() -> None:
    assert Thing.find().sort("label", "-size.cm")._options["sort"] == {"l": 1, "size.cm": -1}
    assert Thing.find().sort("l")._options["sort"] == {"l": 1}


def test_a_reference_equals_the_document_that_it_leads_to() -> None:
    ada = Writer(name="Ada")
    thing = Thing(writer=ada.id)
    assert thing.writer == ada
    assert ada == thing.writer
    assert thing.writer != Reader(id=ada.id)


def test_a_reference_to_another_model_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"expected a Writer, got Reader"):
        Thing(writer=Reader())
    thing = Thing()
    with pytest.raises(ValidationError, match=r"expected a Writer, got Reader"):
        thing.writer = Reader()


def test_a_coroutine_hook_does_not_run_unawaited_on_the_blocking_face(db: Connection) -> None:
    class Hooked(Document):
        @before("save")
        async def _prepare(self) -> None:
            raise AssertionError("never")

    with pytest.raises(TypeError, match="coroutine function '_prepare'"):
        Hooked().save()


def test_a_load_hook_cannot_be_a_coroutine_function() -> None:
    with pytest.raises(TypeError, match="plain function for after"):

        class Loaded(Document):
            @after("load")
            async def _look(self) -> None:
                raise AssertionError("never")


def test_nullify_of_a_reference_that_cannot_be_none_is_refused_at_definition() -> None:
    with pytest.raises(TypeError, match="nullify"):

        class Wrong(Document):
            writer: Ref[Writer] = field(on_delete="nullify")


def test_private_attributes_keep_their_defaults() -> None:
    class Kept(Document):
        _cache: dict[str, int] = {}  # noqa: RUF012
        _seen: int = 3
        name: str = ""

    one, two = Kept(), Kept()
    one._cache["a"] = 1
    assert (one._cache, two._cache, one._seen) == ({"a": 1}, {}, 3)
    one._seen = 4
    assert (one._seen, two._seen) == (4, 3)
    with pytest.raises(AttributeError, match="_nothing"):
        one._nothing  # noqa: B018


class Parcel(Embedded):
    key: str = ""
    size: int = 0
    set: bool = False
    all: list[int] = field(default_factory=list)
    between: str = ""


class Sent(Document):
    parcel: Parcel = field(default_factory=Parcel)
    parcels: list[Parcel] = field(default_factory=list)


def test_fields_may_have_the_names_of_a_paths_methods(db: Connection) -> None:
    parcel: Any = Sent.parcel
    assert (parcel.key == "a").query == {"parcel.key": "a"}
    assert (parcel.size > 3).query == {"parcel.size": {"$gt": 3}}
    assert set_(parcel.set, True).key == "parcel.set"
    assert exists(parcel).query == {"parcel": {"$exists": True}}
    assert size(Sent.parcels, 2).query == {"parcels": {"$size": 2}}
    assert Sent.find().sort("parcel.size", parcel.key)._options["sort"] == {"parcel.size": 1, "parcel.key": 1}
    Sent(parcel=Parcel(key="a", size=4, set=True)).save()
    assert Sent.find(parcel.key == "a", parcel.size.between(1, 5)).values(parcel.set) == [True]
