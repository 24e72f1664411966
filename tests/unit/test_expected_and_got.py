"""Messages say what was expected and what was given."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.bson import ObjectId, decode, encode
from mangonel.bson.codec_options import CodecOptions
from mangonel.odm import Document


class Place(Document):
    at: tuple[int, int]


def client() -> MongoClient[Any]:
    return MongoClient(connect=False)


TEXTS: dict[str, tuple[Callable[[], object], str]] = {
    "an empty list": (
        lambda: client().a.b.insert_many([]),
        "documents must be a non-empty list or another iterable, not []",
    ),
    "a client without metrics": (
        lambda: client().metrics(),
        "expected a client made with metrics=True, got one without",
    ),
    "a time before ObjectIds": (
        lambda: ObjectId.from_datetime(dt.datetime(1960, 1, 2)),
        "expected a time from 1970-01-01 to 2106-02-07 for an ObjectId, got 1960-01-02 00:00:00",
    ),
    "an unknown conversion of dates": (
        lambda: decode(b"\5\0\0\0\0", CodecOptions(datetime_conversion=9)),
        "datetime_conversion must be an element of DatetimeConversion, got 9",
    ),
    # PyMongo's own tests look for "expected 16".
    "a UUID of three bytes": (
        lambda: decode(b"\x10\0\0\0\5a\0\3\0\0\0\4abc\0", CodecOptions(uuid_representation=4)),
        "expected 16 bytes of a UUID, got 3",
    ),
    "a tuple that is too short": (lambda: Place(at=(1,)), "expected tuple of 2 elements, got 1 at $.at"),  # type: ignore[arg-type]
    "a stored array that is too short": (
        lambda: Place.from_bson(encode({"at": [1]})),
        "expected tuple of 2 elements, got 1 at $.at",
    ),
    "a stored array that is too long": (
        lambda: Place.from_bson(encode({"at": [1, 2, 3]})),
        "expected tuple of 2 elements, got more at $.at",
    ),
}


@pytest.mark.parametrize("case", TEXTS)
def test_message_says_what_was_expected_and_given(case: str) -> None:
    call, text = TEXTS[case]

    with pytest.raises(Exception) as caught:
        call()

    assert text in str(caught.value)
