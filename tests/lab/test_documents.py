"""Generated documents keep the published shapes, and digests depend on values, not on classes."""

from __future__ import annotations

import datetime
from collections import OrderedDict

import pytest

from mangonel.lab import documents
from mangonel.lab.contenders.drivers import PyMongoTypes
from mangonel.lab.digest import digest, digest_documents

bson = pytest.importorskip("bson", reason="PyMongo is not installed")


@pytest.fixture(scope="module")
def types():
    return PyMongoTypes()


def test_documents_have_the_published_numbers_of_keys_and_about_the_published_sizes(types):
    published = {
        "flat": (documents.flat(types), 145, 6046),
        "deep": (documents.deep(), 2, 2286),
        "full": (documents.full(types), 91, 4026),
        "tweet": (documents.tweet(), 17, 1531),
        "small": (documents.small(), 13, 250),
        "large": (documents.large(), 94_355, 2_500_064),
        "message": (documents.message(), 14, 1100),
        "user": (documents.users(types, 1)[0], 5, 85),
    }
    for name, (document, keys, size) in published.items():
        assert len(document) == keys, name
        assert len(bson.encode(document)) == pytest.approx(size, rel=0.02), name


def test_the_full_document_holds_every_type(types):
    found = {type(value).__name__ for value in bson.decode(bson.encode(documents.full(types))).values()}
    plain = {"int", "float", "str", "bool", "bytes", "datetime", "list", "dict"}
    assert found == plain | {"ObjectId", "Int64", "Code", "Regex", "Timestamp", "MinKey", "MaxKey"}


def test_documents_are_the_same_each_time(types):
    assert bson.encode(documents.full(types)) == bson.encode(documents.full(types))
    assert documents.small(3) == documents.small(3)
    assert documents.small(3) != documents.small(4)
    assert list(documents.small(3)) == list(documents.small(4))


def test_a_digest_depends_on_values_not_on_classes():
    class Int64(int):
        pass

    aware = datetime.datetime(2020, 1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    assert digest({"a": Int64(5), "d": aware}) == digest(OrderedDict(a=5, d=datetime.datetime(2020, 1, 1)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": True}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": b"x"}, {"a": "x"}),
        ({"a": []}, {"a": {}}),
        ({"a": bson.ObjectId(b"1" * 12)}, {"a": str(bson.ObjectId(b"1" * 12))}),
    ],
)
def test_a_digest_tells_values_apart(one, other):
    assert digest(one) != digest(other)


def test_a_digest_of_a_collection_depends_on_neither_order_nor_ids():
    assert digest_documents([{"_id": 1, "a": 1}, {"_id": 2, "a": 2}]) == digest_documents(
        [{"_id": 9, "a": 2}, {"_id": 8, "a": 1}]
    )
    assert digest_documents([{"a": 1}]) != digest_documents([{"a": 2}])
