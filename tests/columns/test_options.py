"""Null as distinct from missing, and categories: their form in tables, and the way back to documents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.columns.test_roundtrip import SIMPLE, back, tables, values

from mangonel import _core
from mangonel.arrow.schema import fields_of
from mangonel.bson import Regex, decode, encode

pa = pytest.importorskip("pyarrow")


def built(documents: list[Any], schema: Any = None, **options: Any) -> Any:
    builder = _core.ColumnBuilder(
        None if schema is None else fields_of(schema), "raise", options.pop("rows", 100), **options
    )
    for document in documents:
        builder.add_bytes(encode(document))
    return builder.take()


def present(kind: Any, value: Any) -> Any:
    """The value under its kind, without the fields that the schema lacks."""
    if value is None or isinstance(kind, str):
        return value
    if kind[0] == "list":
        return [present(kind[1], item) for item in value]
    return {name: present(inner, value[name]) for name, inner in kind[1] if name in value}


def test_paths_of_nulls_stand_in_the_last_column() -> None:
    documents = [
        {"_id": 1, "a": None, "in": {"b": None, "c": 1}},
        {"_id": 2, "in": {"c": None, "a.b": None}, "items": [{"x": None}, {}, None]},
        {"_id": 3},
    ]

    made = pa.table(built(documents, missing="distinguish"))

    assert made.column_names == ["_id", "a", "in", "items", "$null"]
    assert made["$null"].to_pylist() == [["a", "in.b"], ["in.c", "in.a\\.b", "items.0.x"], []]
    assert [decode(row) for row in back(made)] == documents


@SIMPLE
@given(tables())
def test_documents_come_back_without_the_fields_that_they_lack(drawn: Any) -> None:
    schema, documents, chunk = drawn
    builder = _core.ColumnBuilder(schema, "raise", chunk, "distinguish")
    for number, document in enumerate(documents):
        builder.add_bytes(encode({"_id": number, **document}))
    table = builder.take()
    whole = pa.table(table)
    whole.validate(full=True)

    wanted = [present(("struct", schema), {"_id": n, **each}) for n, each in enumerate(documents)]
    assert [decode(row) for row in back(table)] == [decode(encode(each)) for each in wanted]
    # Through another library, and through slices, as well.
    assert back(whole) == back(table)
    assert back(whole.slice(1, 2)) == back(table)[1:3]


@SIMPLE
@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), values(("list", "int32"))), max_size=6),
    st.integers(1, 3),
)
def test_inferred_documents_come_back_as_well(documents: list[Any], rows: int) -> None:
    numbered = [{"_id": number, **document} for number, document in enumerate(documents)]

    assert [decode(row) for row in back(built(numbered, missing="distinguish", rows=rows))] == numbered


def test_what_did_not_fit_is_null_and_not_missing() -> None:
    builder = _core.ColumnBuilder(fields_of({"_id": int, "a": int}), "null", 10, "distinguish")
    for document in ({"_id": 1, "a": "x"}, {"_id": 2}):
        builder.add_bytes(encode(document))

    assert [decode(row) for row in back(builder.take())] == [{"_id": 1, "a": None}, {"_id": 2}]


def test_missing_id_is_made_and_null_id_is_kept() -> None:
    found = [decode(row) for row in back(built([{"a": 1}, {"_id": None, "a": 2}], missing="distinguish"))]

    assert found[0]["_id"] is not None
    assert found[1] == {"_id": None, "a": 2}


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_frames_keep_the_paths(library: str) -> None:
    documents = [{"_id": 1, "a": None}, {"_id": 2}, {"_id": 3, "a": "x"}]
    table = built(documents, missing="distinguish")
    frames = pytest.importorskip("mangonel.arrow.frames")
    pytest.importorskip(library)

    frame = getattr(frames, f"{library}_of")(table)

    assert [decode(row) for row in back(frames.table_of(frame))] == documents


def test_column_of_that_name_is_not_overwritten() -> None:
    with pytest.raises(ValueError, match=r"expected no field called \"\$null\".*, got one"):
        built([{"$null": 1}], missing="distinguish")
    with pytest.raises(ValueError, match=r"expected no field called \"\$null\""):
        built([], {"$null": int}, missing="distinguish")
    with pytest.raises(ValueError, match='expected "null" or "distinguish" as missing, got "other"'):
        built([], missing="other")
    with pytest.raises(ValueError, match=r"expected lists of paths in the column \"\$null\""):
        back(pa.table({"$null": [1]}))


@pytest.mark.parametrize("schema", ["category", pa.dictionary(pa.int8(), pa.string())])
def test_strings_become_categories_where_the_schema_says_so(schema: Any) -> None:
    documents = [{"_id": n, "a": text, "l": [text]} for n, text in enumerate(["x", "y", None, "x"])]

    table = built(documents, {"_id": int, "a": schema, "l": [schema]}, rows=3)

    made = pa.table(table)
    made.validate(full=True)
    assert made["a"].type == pa.dictionary(pa.int32(), pa.string())
    assert made["a"].to_pylist() == ["x", "y", None, "x"]
    assert made["a"].chunk(0).dictionary.to_pylist() == ["x", "y"]
    assert [decode(row) for row in back(table)] == documents
    with pytest.raises(ValueError, match="expected category, got int at"):
        built([{"a": 1}], {"a": schema})


def test_inferred_strings_become_categories_where_asked() -> None:
    documents: list[Any] = [{"_id": 1, "a": "x", "b": "p"}, {"_id": 2, "a": Regex("y"), "b": None}]

    table = built(documents, has_categories=True, rows=1)

    assert table.kinds == [("_id", "int32"), ("a", "category"), ("b", "category")]
    assert pa.table(table)["a"].to_pylist() == ["x", '{"$regularExpression":{"pattern":"y","options":""}}']


def test_category_that_meets_a_number_becomes_text_where_asked() -> None:
    builder = _core.ColumnBuilder(None, "string", 10, "null", True)
    for value in ("x", 5):
        builder.add_bytes(encode({"a": value}))

    table = builder.take()

    assert (table.kinds, pa.table(table)["a"].to_pylist()) == ([("a", "string")], ["x", "5"])


def test_frames_read_categories_and_write_them() -> None:
    frames = pytest.importorskip("mangonel.arrow.frames")
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    documents = [{"_id": n, "a": text} for n, text in enumerate(["x", "y", None, "x"])]
    table = built(documents, has_categories=True, rows=3)

    theirs = frames.polars_of(table), frames.pandas_of(table)

    assert theirs[0]["a"].dtype == polars.Categorical
    assert isinstance(theirs[1]["a"].dtype, pandas.CategoricalDtype)
    for frame in theirs:
        assert [decode(row) for row in back(frames.table_of(frame))] == documents
