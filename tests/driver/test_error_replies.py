"""An error of the server reaches the caller, even if its reply has values that Python cannot hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mangonel import InsertOne, errors
from mangonel.bson import DatetimeMS
from mangonel.bson.raw_bson import RawBSONDocument
from tools.faces import Face

# Beyond the year 9999.
FAR = DatetimeMS(2**55)
NO_TEXT = RawBSONDocument(b"\x0f\x00\x00\x00\x02at\x00\x02\x00\x00\x00\xff\x00\x00")

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "insert_one": lambda c, d: c.insert_one(d),
    "insert_many": lambda c, d: c.insert_many([d]),
    "bulk_write": lambda c, d: c.bulk_write([InsertOne(d)]),
    "update_one": lambda c, d: c.update_one({"n": 2}, {"$set": d}, upsert=True),
    "replace_one": lambda c, d: c.replace_one({"n": 2}, d, upsert=True),
    "find_one_and_update": lambda c, d: c.find_one_and_update({"n": 2}, {"$set": d}, upsert=True),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_duplicate_of_a_date_beyond_pythons_is_reported(face: Face, collection: Any, write: str) -> None:
    face.wait(collection.create_index("at", unique=True))
    face.wait(collection.insert_one({"at": FAR}))

    with pytest.raises((errors.DuplicateKeyError, errors.BulkWriteError)) as caught:
        face.wait(WRITES[write](collection, {"at": FAR}))

    details: Any = caught.value.details
    [refused] = details.get("writeErrors", [details])
    assert (refused["code"], refused["keyValue"]) == (11000, {"at": FAR})


@pytest.mark.parametrize("write", WRITES)
def test_a_refusal_that_quotes_invalid_utf8_is_reported(face: Face, collection: Any, write: str) -> None:
    face.wait(collection.database.command("create", collection.name, validator=NO_TEXT))

    with pytest.raises(errors.OperationFailure) as caught:
        face.wait(WRITES[write](collection, {"at": 1}))

    details: Any = caught.value.details
    [refused] = details.get("writeErrors", [details])
    assert refused["code"] == 121
