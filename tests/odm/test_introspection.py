"""`fields()` describes a model."""

from __future__ import annotations

from typing import Annotated

import pytest
from annotated_types import Ge

from mangonel.odm import Document, Embedded, Field, Ref, Refs, Version, documents, field, fields


class Row(Embedded):
    cents: int


class Shop(Document):
    name: str


class Bill(Document):
    __shard_key__ = {"shop_name": 1}  # noqa: RUF012
    shop_name: str
    total: Annotated[int, Ge(0)] = field(default=0, key="t")
    note: str | None = None
    rows: list[Row] = field(default_factory=list)
    shop: Ref[Shop] = field(on_delete="deny")
    others: Refs[Shop]
    code: str = field(default="", frozen=True)
    rev: Annotated[int, Version] = 0


def test_fields_are_listed_with_what_their_annotations_say() -> None:
    found = fields(Bill)
    assert list(found) == ["id", "shop_name", "total", "note", "rows", "shop", "others", "code", "rev"]
    assert {name for name, one in found.items() if one.is_required} == {"shop_name", "shop"}
    assert {name for name, one in found.items() if one.is_frozen} == {"id", "shop_name", "code"}
    assert {name for name, one in found.items() if one.is_nullable} == {"note"}
    assert found["total"] == Field(
        name="total",
        key="t",
        type=int,
        metadata=(Ge(0),),
        is_nullable=False,
        is_required=False,
        embedded=None,
        target=None,
        is_version=False,
        is_frozen=False,
        on_delete=None,
    )
    assert (found["rows"].embedded, found["rows"].type) == (Row, list[Row])
    assert (found["shop"].target, found["shop"].on_delete, found["others"].target) == (Shop, "deny", Shop)
    assert (found["rev"].is_version, found["note"].type, found["id"].key) == (True, str, "_id")
    assert list(fields(Row)) == list(fields(Row(cents=1))) == ["cents"]
    assert {Bill, Shop} <= {*documents()}


def test_a_required_field_is_one_that_a_constructor_misses() -> None:
    with pytest.raises(TypeError, match="expected shop_name, shop to make a Bill"):
        Bill()


def test_what_is_no_model_has_no_fields() -> None:
    for wrong in (int, 3, Bill.find()):
        with pytest.raises(TypeError, match="expected a model, got"):
            fields(wrong)
