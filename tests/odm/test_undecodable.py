"""Stored documents with bytes that no Python value stands for: errors that name them, and what `on_invalid` says."""

from __future__ import annotations

import datetime as dt
import io
from functools import partial
from typing import Any

import pytest

from mangonel import bson
from mangonel.bson.datetime_ms import DatetimeMS
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.odm import Connection, Document, ValidationError, cli, connect, field
from mangonel.server import Server

FAR_MS = 10**17


class Visit(Document):
    __collection__ = "visits"
    id: str = field(default="", key="_id")  # type: ignore[assignment]
    n: int = 0
    name: str = ""
    at: dt.datetime | None = None


def put(db: Connection, *, good_behind: int = 5) -> list[Any]:
    """Store six documents that cannot be read, and good ones behind them; return the ids of the bad ones."""
    raw = db.client[db.name]["visits"]
    far = [{"_id": f"far{n}", "n": n, "at": DatetimeMS(FAR_MS)} for n in range(2)]
    broken = [
        bson.encode({"_id": f"text{n}", "n": n, "name": "text"}).replace(b"text\0\0", b"\xff\xfe\xff\xff\0\0")
        for n in range(2)
    ]
    wrong = [{"_id": f"type{n}", "n": "no"} for n in range(2)]
    raw.insert_many([*far, *map(RawBSONDocument, broken), *wrong])
    raw.insert_many([{"_id": f"good{n}", "n": n} for n in range(good_behind)])
    return [*(row["_id"] for row in far), "text0", "text1", *(row["_id"] for row in wrong)]


@pytest.mark.parametrize("ask", ["all", "first", "iterate", "one"])
@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("far0", r"date value out of range.* at \$\.at"),
        ("text0", r"utf-8.* at \$\.name"),
        ("type0", r"expected int, got str at \$\.n"),
    ],
)
def test_an_error_names_the_document(ask: str, id: str, said: str, db: Connection, face: Any) -> None:
    put(db)
    query = Visit.find({"_id": id}).eager()
    read = partial(face.collect, query) if ask == "iterate" else partial(face.call, query, ask)
    with pytest.raises(ValidationError, match=f"{said}.* of the Visit '{id}' in 'visits'") as raised:
        read()
    assert (raised.value.id, raised.value.collection) == (id, "visits")
    assert raised.value.errors()[0]["path"] in ("$.at", "$.name", "$.n")


def test_on_invalid_is_asked_for_each_of_them(db: Connection, face: Any) -> None:
    bad = put(db)
    assert [one.id for one in face.call(Visit.find(on_invalid="skip"), "all")] == [
        f"good{n}" for n in range(5)
    ]
    seen: list[Any] = []
    query = Visit.find(on_invalid=lambda error: seen.append(error.id))
    assert len(face.collect(query)) == 5
    assert seen == bad


def test_a_limit_counts_the_documents_that_fit(db: Connection, face: Any) -> None:
    put(db)
    skipping = Visit.find(on_invalid="skip")
    assert face.call(skipping, "first").id == "good0"
    assert [one.id for one in face.call(skipping.limit(3), "all")] == ["good0", "good1", "good2"]
    assert [one.id for one in face.call(skipping.limit(99), "all")] == [f"good{n}" for n in range(5)]
    assert [one.id for one in face.collect(skipping.limit(3))] == ["good0", "good1", "good2"]
    assert [one.id for one in face.collect(skipping.limit(3).batch_size(2))] == ["good0", "good1", "good2"]
    assert [one.id for one in face.collect(skipping[7:9])] == ["good1", "good2"]
    assert face.call(skipping, "last").id == "good4"
    assert face.call(skipping.find({"n": 3}), "one").id == "good3"
    assert face.call(skipping, "nth", 1).id == "good0"
    assert face.call(skipping.find({"_id": "far0"}), "first") is None


def test_a_connections_conversion_of_dates_holds_for_dicts(server: Server, db: Connection, face: Any) -> None:
    put(db)
    made = connect(server.uri, database=db.name, datetime_conversion="DATETIME_AUTO")
    try:
        found = face.call(Visit.find({"_id": "far0"}).using(made), "dicts")
        assert found == [{"_id": "far0", "n": 0, "at": DatetimeMS(FAR_MS)}]
    finally:
        made.close()
        face.wait(made.aclose())


def test_check_lists_what_does_not_fit(db: Connection) -> None:
    put(db)
    said = io.StringIO()
    assert cli._read_all(Visit, Visit.collection(), 20, said) != 0
    lines = said.getvalue().splitlines()
    assert len(lines) == 7
    for line, (id, path) in zip(
        lines,
        [
            ("far0", "$.at"),
            ("far1", "$.at"),
            ("text0", "$.name"),
            ("text1", "$.name"),
            ("type0", "$.n"),
            ("type1", "$.n"),
        ],
        strict=False,
    ):
        assert repr(id) in line
        assert path in line
    assert "11 read, 6 do not fit" in lines[-1]
