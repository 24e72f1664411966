"""The inferred schema equals a plain count of the documents; suggested schemas fit them, and drift is reported."""

from __future__ import annotations

import asyncio
import datetime
import importlib.util
import json
import re
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangonel import AsyncMongoClient, MongoClient, _core, cli
from mangonel.arrow import InferredSchema, Schema, SchemaError
from mangonel.arrow.inferred import inferred
from mangonel.bson import (
    Binary,
    Code,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
    encode,
)
from mangonel.server import Server

WHEN = datetime.datetime(2020, 1, 2)
ID = ObjectId("5f5f5f5f5f5f5f5f5f5f5f5f")
NAMES: dict[Any, str] = {
    type(None): "null",
    bool: "bool",
    int: "int",
    Int64: "long",
    float: "double",
    str: "string",
    bytes: "binData",
    Binary: "binData",
    ObjectId: "objectId",
    datetime.datetime: "date",
    Decimal128: "decimal",
    Code: "javascript",
    Regex: "regex",
    Timestamp: "timestamp",
    MinKey: "minKey",
    MaxKey: "maxKey",
    dict: "object",
    list: "array",
}
VALUES = (None, True, 5, Int64(5), 1.5, "é", b"a", Binary(b"a", 5), ID, WHEN, Decimal128("1"), Code("x"))
OTHERS = (Regex("a"), Timestamp(1, 2), MinKey(), MaxKey(), Binary(bytes(16), 4))
KEYS = st.sampled_from(["a", "b", "a.b", "", "$x", "class", *(f"k{number}" for number in range(15))])
PLACES = st.recursive(
    st.sampled_from(VALUES + OTHERS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=15),
    max_leaves=30,
)
DOCUMENTS = st.lists(st.dictionaries(KEYS, PLACES, max_size=5), max_size=8)


def of(documents: list[dict[str, Any]]) -> InferredSchema:
    counter = _core.TypeCounter()
    for document in documents:
        counter.add_bytes(encode(document))
    return inferred(False, counter.found(), counter.left_out)


def counted(documents: list[dict[str, Any]]) -> tuple[dict[Any, Counter[str]], Counter[Any]]:
    """Count the types at each place, and the documents or arrays around it, by a simple walk."""
    types: dict[Any, Counter[str]] = {}
    parents: Counter[Any] = Counter()

    def walk(place: tuple[Any, ...], value: Any) -> None:
        is_uuid = isinstance(value, Binary) and value.subtype == 4
        types.setdefault(place, Counter())["uuid" if is_uuid else NAMES[type(value)]] += 1
        if isinstance(value, dict):
            parents[place] += 1
            for key, inner in value.items():
                walk((*place, key), inner)
        if isinstance(value, list):
            for inner in value:
                walk((*place, list), inner)

    for document in documents:
        walk((), document)
    return types, parents


@given(DOCUMENTS)
def test_counts_are_those_of_a_simple_walk(documents: list[dict[str, Any]]) -> None:
    types, parents = counted(documents)
    found = of(documents)
    seen: dict[Any, Counter[str]] = {}

    def collect(place: tuple[Any, ...], fields: Any) -> None:
        for key, inner in fields.items():
            seen[(*place, key)] = Counter(inner.types)
            assert inner.parents == parents[place]
            assert inner.missing == parents[place] - types[(*place, key)].total()
            collect((*place, key), inner.fields)
            at = (*place, key)
            while inner.items is not None:
                inner, at = inner.items, (*at, list)
                seen[at] = Counter(inner.types)
                collect(at, inner.fields)

    collect((), found.fields)
    types.pop((), None)
    assert seen == types
    assert found.documents == len(documents)
    assert InferredSchema.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert found.drift(found) == []


@given(DOCUMENTS, DOCUMENTS)
def test_what_drifts_is_what_an_earlier_schema_lacks(
    earlier: list[dict[str, Any]], later: list[dict[str, Any]]
) -> None:
    drift = of(later).drift(of(earlier))
    before, _ = counted(earlier)
    now, _ = counted(later)

    # A new type at an existing place, or a new place in documents with others.
    is_new = any(types.keys() - before.get(place, {}).keys() for place, types in now.items() if place)
    if is_new:
        assert drift
    elif not any("missing" in line for line in drift):
        assert drift == []


@given(DOCUMENTS)
def test_proposed_columns_hold_every_document(documents: list[dict[str, Any]]) -> None:
    builder = _core.ColumnBuilder(of(documents).schema.fields, "string", 1_000)
    for document in documents:
        builder.add_bytes(encode(document))

    assert len(builder.take()) == len(documents)


def test_a_proposed_column_has_the_type_of_its_values() -> None:
    found = of(
        [
            {"i": 1, "n": 1, "s": "a", "m": 1, "l": [1, None], "d": {"x": WHEN}, "e": [], "o": {}, "z": None},
            {"i": Int64(2), "n": 2.5, "m": "a", "l": [], "d": {"y": ID}, "u": Binary(bytes(16), 4)},
        ]
    )

    assert found.schema == Schema(
        {
            "i": "int64",
            "n": "double",
            "s": "string",
            "m": "string",
            "l": ["int64"],
            "d": {"x": "date", "y": "objectid"},
            "e": ["null"],
            "o": "string",
            "z": "null",
            "u": "uuid",
        }
    )
    assert found.mixed == ["m"]


@pytest.fixture
def rows(standalone: Server) -> Iterator[Any]:
    with MongoClient[Any](standalone.uri) as client:
        database = client[f"inferred_{uuid.uuid4().hex[:8]}"]
        yield database.rows
        client.drop_database(database.name)


MIXED = [
    {"_id": 1, "total": 9.5, "city": "Paris", "lines": [{"sku": "a", "n": 1}, {"sku": "b"}], "class": 1},
    {
        "_id": 2,
        "total": 3.0,
        "city": None,
        "lines": [],
        "save": True,
        "to": {"zip code": "75"},
        "a-b": [None, 1],
    },
    {"_id": 3, "total": 1.0, "at": WHEN, "lines": [], "any": 1, "x": Decimal128("1.5"), "_y": b"a", "id": 4},
    {"_id": 4, "total": 1.0, "lines": [], "any": "one", "by": Binary(bytes(16), 4), "o": ID, "nothing": None},
]


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])
def test_both_faces_look_at_all_documents_at_some_or_at_a_sample(
    standalone: Server, rows: Any, is_async: bool
) -> None:
    rows.insert_many([{"_id": number, "text": "x" * 100} for number in range(5_000)] + [{"_id": "last"}])

    def infer(*arguments: Any, **options: Any) -> InferredSchema:
        if not is_async:
            found: InferredSchema = rows.infer_schema(*arguments, **options)
            return found

        async def play() -> InferredSchema:
            async with AsyncMongoClient[Any](standalone.uri) as client:
                return await client[rows.database.name].rows.infer_schema(*arguments, **options)

        return asyncio.run(play())

    whole = infer()
    assert (whole.documents, whole.is_sample) == (5_001, False)
    assert whole.fields["_id"].types == {"int": 5_000, "string": 1}
    assert whole.fields["text"].missing == 1
    assert whole.fields["_id"].share("int") == 5_000 / 5_001
    some = infer({"_id": {"$lt": 10}})
    assert (some.documents, some.fields["_id"].types) == (10, {"int": 10})
    sample = infer({"_id": {"$lt": 1_000}}, sample=100)
    assert (sample.documents, sample.is_sample) == (100, True)
    assert sample.fields["text"].count == 100
    with pytest.raises(ValueError, match="at least 1"):
        rows.infer_schema(sample=0)


def test_the_proposed_model_loads_the_documents(standalone: Server, rows: Any, tmp_path: Path) -> None:
    from mangonel.odm import connect

    rows.insert_many(MIXED)
    path = tmp_path / "proposed_rows.py"
    path.write_text(rows.infer_schema().model("Row", "rows"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    connection = connect(standalone.uri, alias=path.stem, database=rows.database.name)
    try:
        module.Row.__connection__ = path.stem
        first, second, third, last = module.Row.find().sort("id").all()
        assert (first.lines[0].sku, first.class_, second.save_, third.id_) == ("a", 1, True, 4)
        assert (second.to.zip_code, second.city, third.x, third.at.year) == (
            "75",
            None,
            Decimal128("1.5"),
            2020,
        )
        assert (third.any, last.any, last.by, last.o) == (1, "one", uuid.UUID(int=0), ID)
    finally:
        connection.close()


@pytest.mark.parametrize("name", ["", "1a", "class", "a b"])
def test_a_model_needs_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="the name of a class"):
        of([{}]).model(name)


def test_the_command_tells_drift_by_its_exit_status(
    standalone: Server, rows: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "rows.schema.json"
    command = ["schema", standalone.uri, "rows", "--database", rows.database.name]
    assert cli.main(command) == 1
    rows.insert_many(MIXED)

    assert cli.main([*command, "--as", "json", "-o", str(saved)]) == 0
    assert InferredSchema.load(saved) == rows.infer_schema()
    assert cli.main([*command, "--check", str(saved)]) == 0
    rows.insert_many([{"_id": 5, "total": "nine", "lines": [{"sku": 7}], "new": 1}])
    capsys.readouterr()
    assert cli.main([*command, "--check", str(saved)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "total: a new type, string (1 of 5); was double",
        "lines[].sku: a new type, int (1 of 3); was string",
        "new: a new field, int",
    ]
    for form, begun in (("table", "5 documents\n"), ("columns", "Schema({'_id'"), ("model", "import ")):
        assert cli.main([*command, "--as", form]) == 0
        assert capsys.readouterr().out.startswith(begun)
    assert cli.main([*command, "--filter", '{"_id": 1}', "--check", str(saved)]) == 0
    capsys.readouterr()

    # Nothing to compare: the name may be misspelt.
    misspelt = ["schema", standalone.uri, "rowz", "--database", rows.database.name]
    assert cli.main([*misspelt, "--check", str(saved)]) == 1
    assert capsys.readouterr() == ("", f"mangonel schema: no documents in {rows.database.name}.rowz\n")
    for more in (["--as", "json"], ["-o", str(tmp_path / "new.json")]):
        with pytest.raises(SystemExit):
            cli.main([*command, "--check", str(saved), *more])
        assert "does not go with --check, which writes no schema; leave it out" in capsys.readouterr().err


SAVED: dict[str, Any] = {"format": 1, "documents": 1, "is_sample": False, "left_out": 0, "fields": {}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no", "expected the schema of a collection in {path}, got no JSON"),
        ("[]", '{path}: expected the schema of a collection, a mapping with "format", got list'),
        (
            "{}",
            '{path}: expected the schema of a collection, a mapping with "format", got a mapping without it',
        ),
        ('{"format": 1}', "{path}: expected an int, got nothing at $.documents; save the schema again"),
        ('{"format": 2, "documents": 1}', "{path}: expected a schema of format 1, got 2"),
        (json.dumps({**SAVED, "documents": "many"}), "expected an int, got str at $.documents"),
        (json.dumps({**SAVED, "documents": True}), "expected an int, got bool at $.documents"),
        (json.dumps({**SAVED, "is_sample": 1}), "expected a bool, got int at $.is_sample"),
        (json.dumps({**SAVED, "fields": []}), "expected a mapping, got list at $.fields"),
        (json.dumps({**SAVED, "fields": {"a": 1}}), "expected a mapping, got int at $.fields.a"),
        (json.dumps({**SAVED, "fields": {"a": {}}}), "expected a mapping, got nothing at $.fields.a.types"),
        (
            json.dumps({**SAVED, "fields": {"a": {"types": {"int": "1"}}}}),
            "expected an int, got str at $.fields.a.types.int",
        ),
        (
            json.dumps({**SAVED, "fields": {"a": {"types": {}, "items": {"types": {}, "fields": {"b": 0}}}}}),
            "expected a mapping, got int at $.fields.a.items.fields.b",
        ),
    ],
)
def test_a_file_that_is_no_schema_is_refused_with_the_place(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "no.json"
    path.write_text(text)
    with pytest.raises(SchemaError, match=re.escape(said.format(path=path))):
        InferredSchema.load(path)

    # Exit status 1 would be a drift.
    with pytest.raises(SystemExit) as ended:
        cli.main(["schema", "mongodb://127.0.0.1:1", "rows", "--check", str(path)])
    assert ended.value.code == 2
    assert f"mangonel schema: error: argument --check: {path}" in capsys.readouterr().err.replace(
        f"expected the schema of a collection in {path}", str(path)
    )
