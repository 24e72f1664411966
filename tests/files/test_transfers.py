"""Files of tables: an export can be imported again; both continue after a kill, without a gap or a double."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from mangonel import AsyncMongoClient, cli
from mangonel.bson import Binary, MaxKey, MinKey, ObjectId
from mangonel.errors import OperationFailure
from mangonel.files import TransferError, aexport_table, aimport_table, export_table, import_table, writing
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

WHEN = datetime.datetime(2020, 1, 2)
ENDINGS = (".parquet", ".arrow", ".csv")
# Killed processes take a second each, and the formats hardly differ in them.
KILLED_ENDINGS = [
    ".parquet",
    pytest.param(".arrow", marks=pytest.mark.no_sample),
    pytest.param(".csv", marks=pytest.mark.no_sample),
]


def nested(count: int) -> list[dict[str, Any]]:
    """Return nested documents that survive an export to columns and an import unchanged."""
    chosen = random.Random(5)
    return [
        {
            "_id": ObjectId(),
            "n": number,
            "x": number / 4,
            "text": chosen.choice(["", "a,b", 'say "é"', "two\nlines", "null"]),
            "at": WHEN + datetime.timedelta(seconds=number),
            "by": Binary(number.to_bytes(16, "big"), 4),
            "raw": bytes([number % 256]),
            "yes": number % 2 == 0,
            "in": {"id": ObjectId(), "tags": ["a", None, "b"][: number % 4]},
        }
        for number in range(count)
    ]


def sorted_by_id(documents: Any) -> list[Any]:
    return sorted(documents, key=lambda document: str(document["_id"]))


@pytest.mark.parametrize("ending", ENDINGS[:2])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("split", [False, True])
def test_exported_documents_are_imported_again(
    database: Any, tmp_path: Path, ending: str, parts: int, split: bool
) -> None:
    path = tmp_path / f"rows{ending}"
    documents = nested(500)
    # Null, missing, and empty documents differ in a column of their own.
    documents += [{"_id": ObjectId(), "n": None}, {"_id": ObjectId()}, {"_id": ObjectId(), "in": None}]
    database.rows.insert_many(documents)

    told = export_table(database.rows, path, parts=parts, split=split, missing="distinguish", parallel=2)
    assert (told.documents, told.mixed) == (503, ())
    assert path.is_dir() == split
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.name]
    assert import_table(database.copies, path).inserted == 503

    assert sorted_by_id(database.copies.find()) == sorted_by_id(documents)


@pytest.mark.parametrize("parts", [1, 3])
def test_csv_has_text_for_what_it_lacks_and_a_schema_brings_values_back(
    database: Any, tmp_path: Path, parts: int
) -> None:
    path = tmp_path / "rows.csv"
    documents = nested(300)
    database.rows.insert_many(documents)

    assert export_table(database.rows, path, parts=parts).documents == 300
    assert path.read_text().count('"_id"') == 1
    schema = {"_id": ObjectId, "by": uuid.UUID, "raw": bytes}
    assert import_table(database.copies, path, schema=schema).inserted == 300

    found = sorted_by_id(database.copies.find())
    for document in documents:
        document["in"] = (
            '{"id":{"$oid":"'
            + str(document["in"]["id"])
            + '"},"tags":'
            + ("[" + ",".join("null" if tag is None else f'"{tag}"' for tag in document["in"]["tags"]) + "]}")
        )
    assert found == sorted_by_id(documents)


def test_several_types_become_text_and_are_told(
    database: Any, standalone: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mixed.parquet"
    ids: list[Any] = [1, "one", 2.5, ObjectId(), None, True, MinKey(), MaxKey(), {"a": 1}, WHEN]
    database.mixed.insert_many([{"_id": each, "n": number} for number, each in enumerate(ids)])

    where = ["--database", database.name]
    assert cli.main(["export", standalone.uri, "mixed", *where, "-o", str(path), "--parallel", "3"]) == 0
    said = capsys.readouterr()
    assert "10 documents written" in said.out
    assert "_id: several types became text" in said.err
    import pyarrow.parquet

    assert sorted(pyarrow.parquet.read_table(path)["n"].to_pylist()) == list(range(10))
    # Each kind of id is in some part, with bounds between any two kinds.
    assert export_table(database.mixed, path, parts=9).documents == 10


@pytest.mark.parametrize("ending", [".parquet", ".jsonl"])
def test_an_export_of_nothing_is_warned_of(
    ending: str, database: Any, standalone: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--database", database.name, "-o", str(tmp_path / f"none{ending}")]
    assert cli.main(["export", standalone.uri, "mispelt", *where]) == 0
    assert f"warning: {database.name}.mispelt has no documents\n" in capsys.readouterr().err


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_file_that_is_no_table_is_told_in_a_line(
    ending: str, database: Any, standalone: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"text{ending}"
    path.write_text("no table, but a text that is long enough to be looked at")

    assert cli.main(["import", standalone.uri, str(path), "--database", database.name]) == 1
    assert f"mangonel import: text{ending}, after row 0: cannot be read: " in capsys.readouterr().err


def test_filter_projection_and_schema_choose_what_is_written(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "some.arrow"
    database.rows.insert_many(nested(40))

    export_table(database.rows, path, filter={"n": {"$gte": 30}}, projection=["n", "x"], parts=2)
    table = pa.ipc.open_file(path).read_all()
    assert table.column_names == ["_id", "n", "x"]
    assert sorted(table["n"].to_pylist()) == list(range(30, 40))
    assert export_table(database.rows, path, schema={"n": "int32"}).columns == ("n",)
    assert pa.ipc.open_file(path).read_all().schema.field("n").type == pa.int32()


KILLED = """
import os, signal, sys
from mangonel import MongoClient
from mangonel.files import export_table, import_table, reading, writing

writing._TABLE, reading._ROWS = 1, 100
client = MongoClient(sys.argv[1])
database = client[sys.argv[2]]
calls = 0

def stop(size, count):
    global calls
    calls += 1
    if calls == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
"""
EXPORT = "export_table(database.rows, sys.argv[3], parts=8, parallel=2, resume=True, progress=stop)"
IMPORT = "import_table(database.copies, sys.argv[3], resume=sys.argv[3] + '.progress', progress=stop)"


def killed(line: str, database: Any, path: Path, calls: int) -> None:
    uri = "mongodb://{}:{}/".format(*database.client.address)
    command = [sys.executable, "-c", f"{KILLED}\n{line}", uri, database.name, str(path), str(calls)]
    assert subprocess.run(command, timeout=100, check=False).returncode == -signal.SIGKILL


@pytest.mark.no_sample
@pytest.mark.parametrize("ending", KILLED_ENDINGS)
def test_a_killed_export_goes_on_with_the_parts_that_are_not_complete(
    database: Any, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"rows{ending}"
    database.rows.insert_many([{"_id": number, "n": number * 2} for number in range(2_000)])
    kept: set[Path] = set()
    for calls in (7, 15):
        killed(EXPORT, database, path, calls)
        assert not path.exists()
        complete = set((tmp_path / f"{path.name}.parts").glob(f"part-*{ending}"))
        assert kept <= complete
        kept = complete
    told = export_table(database.rows, path, parts=8, resume=True)

    assert told.resumed == len(kept) > 0
    assert told.documents == 2_000
    assert import_table(database.copies, path).inserted == 2_000
    assert database.copies.find(sort={"_id": 1}).to_list() == database.rows.find(sort={"_id": 1}).to_list()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", KILLED_ENDINGS)
@pytest.mark.parametrize("has_id", [pytest.param(True, marks=pytest.mark.no_sample), False])
def test_a_killed_import_goes_on_without_a_gap_or_a_double(
    database: Any, tmp_path: Path, ending: str, has_id: bool
) -> None:
    path = tmp_path / f"rows{ending}"
    database.rows.insert_many([{"_id": number, "n": number} for number in range(2_000)])
    export_table(database.rows, path, parts=3, schema={"_id": int, "n": int} if has_id else {"n": int})
    for calls in (1, 6):
        killed(IMPORT, database, path, calls)
    before = database.copies.count_documents({})
    assert 0 < before < 2_000
    told = import_table(database.copies, path, resume=f"{path}.progress")

    assert told.inserted == 2_000 - before
    assert sorted(row["n"] for row in database.copies.find()) == list(range(2_000))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("split", [False, pytest.param(True, marks=pytest.mark.no_sample)])
@pytest.mark.parametrize("is_over", [False, True], ids=["killed", "over"])
def test_a_second_export_to_the_same_file_does_not_mix_with_the_first(
    database: Any, tmp_path: Path, ending: str, split: bool, is_over: bool
) -> None:
    path = tmp_path / f"rows{ending}"
    database.rows.insert_many([{"_id": number, "n": number} for number in range(900)])
    begun: list[int] = []

    def second(*_: int) -> None:
        """A second export runs, or is ended, while the first writes."""
        begun.append(1)
        if len(begun) == 1:
            database.rows.update_many({}, {"$set": {"n": -1}})
            stop = None if is_over else interrupted
            with contextlib.nullcontext() if is_over else pytest.raises(KeyboardInterrupt):
                export_table(database.rows, path, parts=3, split=split, progress=stop)

    def interrupted(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(TransferError, match=r"another export to .* began or ended meanwhile"):
        export_table(database.rows, path, parts=3, parallel=1, split=split, progress=second)
    assert path.exists() == is_over
    told = export_table(database.rows, path, parts=3, split=split, resume=not is_over)
    assert told.documents == 900
    assert import_table(database.copies, path).inserted == 900
    assert database.copies.distinct("n") == [-1]
    assert list(tmp_path.iterdir()) == [path]
    if split:
        assert {each.suffix for each in path.iterdir()} == {ending}


def test_what_is_resumed_must_be_the_same_transfer(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    database.rows.insert_many([{"_id": number} for number in range(100)])
    killed(EXPORT, database, path, 1)
    with pytest.raises(TransferError, match="with another filter"):
        export_table(database.rows, path, filter={"_id": 1}, resume=True)
    for more, what in (
        ({"schema": {"_id": int, "x": str}}, "on_invalid|schema"),
        ({"sample": 5}, "sample"),
        ({"split": True}, "split"),
    ):
        with pytest.raises(TransferError, match=f"with another .*({what})"):
            export_table(database.rows, path, resume=True, **more)
    # Without `resume` it starts again.
    assert export_table(database.rows, path, filter={"_id": 1}).documents == 1

    progress = tmp_path / "kept"
    for argument in ("collection", "schema", "exclude_none"):
        csv = tmp_path / "rows.csv"
        csv.write_text("n\n" + "5\n" * 30_000)

        def interrupt(size: int, rows: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            import_table(database.copies, csv, resume=progress, progress=interrupt)
        other = {"schema": {"n": str}, "exclude_none": True}
        more = {name: value for name, value in other.items() if name == argument}
        target = database.others if argument == "collection" else database.copies
        with pytest.raises(
            TransferError, match=f"kept belongs to another import, with another {argument}: .*; give the same"
        ):
            import_table(target, csv, resume=progress, **more)
        progress.unlink()
        database.copies.drop()
        assert database.others.count_documents({}) == 0

    (tmp_path / "progress").write_text('{"sources": ["b.parquet"], "sizes": [1], "file": 0}')
    with pytest.raises(TransferError, match="import"):
        import_table(database.copies, path, resume=tmp_path / "progress")


def test_an_export_of_a_collection_that_was_replaced_is_not_resumed(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    database.rows.insert_many([{"_id": number} for number in range(2_000)])

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_table(database.rows, path, parts=4, resume=True, progress=interrupt)
    database.rows.aggregate([{"$match": {}}, {"$out": "rows"}])

    with pytest.raises(OperationFailure, match="dropped, renamed or replaced"):
        export_table(database.rows, path, parts=4, resume=True)
    assert export_table(database.rows, path, parts=4).documents == 2_000


def test_a_resumed_export_has_the_columns_of_its_schema(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    database.rows.insert_many([{"_id": number, "n": number} for number in range(2_000)])

    def interrupt(size: int, documents: int) -> None:
        raise KeyboardInterrupt

    for schema in ({"_id": int}, {"_id": int, "n": int}):
        with pytest.raises(KeyboardInterrupt):
            export_table(database.rows, path, schema=schema, parts=2, parallel=1, progress=interrupt)
        assert export_table(database.rows, path, schema=schema, resume=True).columns == tuple(schema)
    with pytest.raises(KeyboardInterrupt):
        export_table(database.rows, path, schema={"_id": int}, parts=2, parallel=1, progress=interrupt)
    with pytest.raises(TransferError, match="belongs to another export, with another schema; give the same"):
        export_table(database.rows, path, schema={"_id": int, "n": int}, resume=True)


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_stands_at_the_target_is_kept_if_it_is_no_export(
    database: Any, tmp_path: Path, ending: str
) -> None:
    database.rows.insert_many([{"_id": number} for number in range(10)])
    folder, file = tmp_path / f"folder{ending}", tmp_path / f"file{ending}"
    folder.mkdir()
    file.write_text("kept")
    with pytest.raises(TransferError, match="expected the name of a file, got the folder"):
        export_table(database.rows, folder)
    with pytest.raises(TransferError, match="expected the name of a folder with split, got the file"):
        export_table(database.rows, file, split=True)
    (folder / "thesis.txt").write_text("kept")
    with pytest.raises(TransferError, match=r"folder\..* with 'thesis\.txt'; give another name"):
        export_table(database.rows, folder, split=True)
    assert (file.read_text(), (folder / "thesis.txt").read_text()) == ("kept", "kept")
    assert sorted(tmp_path.iterdir()) == [file, folder]

    (folder / "thesis.txt").unlink()
    for count in (3, 2):
        assert export_table(database.rows, folder, split=True, parts=count).documents == 10
        assert len(list(folder.iterdir())) == count


def test_a_time_series_is_exported(
    database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standalone: Server
) -> None:
    monkeypatch.setattr(writing, "_SMALL", 1)
    database.create_collection("hours", timeseries={"timeField": "at"})
    rows = [{"_id": number, "at": WHEN + datetime.timedelta(hours=number)} for number in range(50)]
    database.hours.insert_many(rows)

    assert export_table(database.hours, tmp_path / "hours.parquet").documents == 50
    assert import_table(database.copies, tmp_path / "hours.parquet").inserted == 50
    assert sorted_by_id(database.copies.find()) == sorted_by_id(rows)


def test_fields_that_no_document_has_are_told(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    assert export_table(database.rows, path, projection=["totl"]).documents == 0
    database.rows.insert_one({"total": 5})
    with pytest.raises(TransferError, match=r"as projection, got \['totl'\], which none of them has"):
        export_table(database.rows, path, projection=["_id", "total", "totl"])
    assert export_table(database.rows, path, projection=["_id", "total"]).columns == ("_id", "total")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (
            {"ids": ObjectId},
            r"rows\.csv: expected the columns of the schema, got \['id', 'n', 'text'\], which lack",
        ),
        (
            {"n": ObjectId},
            r"rows\.csv, row 1: expected the 24 hexadecimal digits of an ObjectId, got '5' in the col",
        ),
        ({"id": ObjectId}, r"rows\.csv, row 2: expected .* ObjectId, got 'ab cd' in the column 'id'"),
        ({"text": uuid.UUID}, r"rows\.csv, row 1: expected a UUID, got 'a!b!c!d!' in the column 'text'"),
        ({"text": bytes}, r"rows\.csv, row 1: expected base64, got 'a!b!c!d!' in the column 'text'"),
        ({"text": [str]}, "expected a type without documents and arrays for 'text' of CSV, got a list"),
        (
            {"text": {"a": int}},
            "expected a type without documents and arrays for 'text' of CSV, got a struct",
        ),
        ({"text": int}, r"rows\.csv, after row 0: cannot be read: "),
    ],
)
def test_text_that_is_not_of_its_type_is_told(
    database: Any, tmp_path: Path, schema: dict[str, Any], said: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"id,n,text\n{'ab' * 12},5,a!b!c!d!\nab cd,6,bbbb\n")

    with pytest.raises(TransferError, match=said):
        import_table(database.copies, path, schema=schema)
    assert database.copies.count_documents({}) == 0


def test_types_of_csv_are_guessed_told_and_given(
    database: Any, standalone: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    documents = [{"_id": ObjectId(), "zip": "01234", "n": 5, "note": None} for _ in range(3)]
    database.rows.insert_many(documents)
    export_table(database.rows, path)
    assert import_table(database.copies, path).guessed == {"zip": "int64", "n": "int64"}
    schema = {"_id": ObjectId, "zip": str}
    assert import_table(database.others, path, schema=schema).guessed == {"n": "int64"}
    assert sorted_by_id(database.others.find()) == sorted_by_id(documents)

    command = ["import", standalone.uri, str(path), "--database", database.name, "--collection"]
    assert cli.main([*command, "told"]) == 0
    assert "types by the first rows: zip=int64, n=int64; --types sets others" in capsys.readouterr().err
    assert cli.main([*command, "given", "--types", "_id=objectid,zip=string,n=int32"]) == 0
    assert capsys.readouterr().err == ""
    assert sorted_by_id(database.given.find()) == sorted_by_id(documents)
    for types, said in (("_id", "expected NAME=TYPE"), ("_id=oid", "argument --types: expected a type")):
        with pytest.raises(SystemExit):
            cli.main([*command, "given", "--types", types])
        assert said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["import", standalone.uri, str(tmp_path / "rows.parquet"), "--types", "_id=int32"])
    assert "--types is for CSV; leave it out" in capsys.readouterr().err


def test_a_file_that_is_not_as_it_should_be_is_told(
    database: Any, standalone: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    latin, large = tmp_path / "latin.csv", tmp_path / "large.parquet"
    latin.write_bytes("a,b\n1,caf\xe9\n".encode("latin1"))
    with pytest.raises(
        TransferError, match=r"latin\.csv: expected UTF-8 in the columns \['b'\], got other bytes"
    ):
        import_table(database.copies, latin)
    pa.parquet.write_table(pa.table({"x": pa.array([1, 2**64 - 1], pa.uint64())}), large)
    with pytest.raises(TransferError, match=r"large\.parquet, after row 0: expected an integer of 63 bits"):
        import_table(database.copies, large)
    with pytest.raises(TransferError, match=r"expected files of one format in .*, got latin\.csv beside"):
        import_table(database.copies, tmp_path, format="parquet")
    assert database.copies.count_documents({}) == 0
    for ending in (*ENDINGS, ".jsonl"):
        missing = tmp_path / f"missing{ending}"
        assert cli.main(["import", standalone.uri, str(missing), "--database", database.name]) == 2
        assert capsys.readouterr().err == f"mangonel import: No such file or directory: {missing}\n"


def test_a_type_that_bson_lacks_is_told_with_the_file(
    database: Any, standalone: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "times.csv"
    path.write_text("_id,at\n1,12:30:00\n")

    command = ["import", standalone.uri, str(path), "--database", database.name]
    assert cli.main(command) == 1
    assert (
        "mangonel import: times.csv, after row 0: expected a type that BSON has, got Arrow's"
        in capsys.readouterr().err
    )
    assert cli.main([*command, "--types", "at=string"]) == 0
    assert database.times.find_one() == {"_id": 1, "at": "12:30:00"}


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_nothing_is_removed_for_a_file_that_cannot_be_read(
    database: Any, standalone: Server, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"rows{ending}"
    path.write_text("no table, but a text that is long enough to be looked at")
    database.rows.insert_one({"_id": 1})

    command = ["import", standalone.uri, str(path), "--database", database.name, "--drop"]
    assert cli.main(command) == 1
    assert f"rows{ending}: cannot be read: " in capsys.readouterr().err
    assert database.rows.count_documents({}) == 1


def test_refused_rows_are_named(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    database.rows.insert_many([{"_id": number} for number in range(10)])
    export_table(database.rows, path)
    database.copies.insert_one({"_id": 4})

    with pytest.raises(TransferError, match=r"rows\.parquet, row 5: E11000"):
        import_table(database.copies, path)
    database.copies.delete_many({"_id": {"$ne": 4}})
    told = import_table(database.copies, path, skip_errors=True)
    assert (told.inserted, told.failed) == (9, 1)


def test_what_cannot_be_done_is_refused(database: Any, standalone: Server, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = database.rows
    for call, what in (
        (lambda: export_table(rows, tmp_path / "a.txt"), "a name that ends in"),
        (lambda: export_table(rows, path, format="xls"), "as format"),
        (lambda: export_table(rows, path, snapshot=True, resume=True), "snapshot or resume, got both"),
        (lambda: export_table(rows, path, schema={"a": int}, projection=["a"]), "a schema alone"),
        (lambda: export_table(rows, path, parallel=0), "parallel"),
        (lambda: export_table(rows, tmp_path / "a.csv", missing="distinguish"), "missing"),
        (lambda: export_table(rows, path, projection=["a.b"]), "without dots"),
        (lambda: import_table(rows, path, schema={"a": int}), "only for CSV"),
        (lambda: import_table(rows, path, threads=0), "thread"),
        (lambda: import_table(rows, tmp_path), "a name that ends in"),
    ):
        with pytest.raises(ValueError, match=what):
            call()
    path.write_bytes(b"PAR1 is no table")
    with pytest.raises(TransferError, match=r"a\.parquet"):
        import_table(rows, path)

    async def play() -> None:
        async with AsyncMongoClient[Any](standalone.uri) as client:
            for call in (export_table, import_table):
                with pytest.raises(TypeError, match="blocking face"):
                    call(client.a.b, path)
        for acall in (aexport_table, aimport_table):
            with pytest.raises(TypeError, match="asyncio face"):
                await acall(rows, path)

    asyncio.run(play())


@pytest.mark.parametrize("ending", [*ENDINGS, ".jsonl"])
def test_a_folder_that_does_not_exist_is_told_and_not_made(
    database: Any, standalone: Server, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    database.rows.insert_one({"_id": 1})
    folder = tmp_path / "missing"
    words = [
        "export",
        standalone.uri,
        "rows",
        "--database",
        database.name,
        "-o",
        str(folder / f"rows{ending}"),
    ]
    for more in ([], ["--resume"], ["--split"]):
        if ending == ".jsonl" and more == ["--split"]:
            continue
        assert cli.main([*words, *more]) == 2
        assert str(folder) in capsys.readouterr().err
        assert not folder.exists()


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_commands_export_and_import(
    database: Any, standalone: Server, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, where = tmp_path / f"rows{ending}", ["--database", database.name]
    database.rows.insert_many([{"_id": number} for number in range(50)])

    assert cli.main(["export", standalone.uri, "rows", *where, "-o", str(path), "--resume"]) == 0
    assert cli.main(["import", standalone.uri, str(path), *where, "--collection", "copies"]) == 0
    assert database.copies.count_documents({}) == 50
    assert cli.main(["import", standalone.uri, str(path), *where, "--collection", "copies"]) == 1
    capsys.readouterr()
    with pytest.raises(SystemExit):
        cli.main(["export", standalone.uri, "rows", *where, "-o", str(path), "--mode", "plain"])
    assert "--mode is for JSON lines" in capsys.readouterr().err


def test_a_failure_of_the_server_keeps_the_complete_parts(
    standalone: Server, database: Any, tmp_path: Path
) -> None:
    path = tmp_path / "rows.parquet"
    database.rows.insert_many([{"_id": number, "n": number} for number in range(2_000)])
    point = {"configureFailPoint": "failCommand", "data": {"failCommands": ["find"], "errorCode": 8000}}
    admin = database.client.admin
    # One find infers the schema; other finds read the parts.
    admin.command({**point, "mode": {"skip": 4}})
    try:
        with pytest.raises(OperationFailure):
            export_table(database.rows, path, parts=8, parallel=1)
    finally:
        admin.command({"configureFailPoint": "failCommand", "mode": "off"})

    told = export_table(database.rows, path, parts=8, resume=True)
    assert told.resumed > 0
    assert told.documents == 2_000


def on_asyncio(uri: str, play: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine function with a client of the asyncio face."""

    async def run() -> Any:
        async with AsyncMongoClient[Any](uri) as client:
            return await play(client)

    return asyncio.run(run())


# Two seconds each; the other face covers every ending.
@pytest.mark.enough(1)
@pytest.mark.parametrize("ending", ENDINGS)
def test_asyncio_exports_and_imports(database: Any, standalone: Server, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows{ending}"
    database.rows.insert_many([{"_id": number, "n": number / 4} for number in range(9_000)])
    threads: set[int] = set()

    async def play(client: Any) -> None:
        own, ticks = client[database.name], 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        beside = asyncio.create_task(tick())
        told = await aexport_table(
            own.rows, path, parts=3, progress=lambda *_: threads.add(threading.get_ident())
        )
        assert (told.documents, told.parts) == (9_000, 3)
        assert (await aimport_table(own.copies, path)).inserted == 9_000
        # Duplicates are reported as on the other face.
        assert (await aimport_table(own.copies, path, skip_errors=True)).failed == 9_000
        with pytest.raises(TransferError, match="duplicate key"):
            await aimport_table(own.copies, path)
        beside.cancel()
        # The loop was free meanwhile.
        assert ticks > 25

    on_asyncio(standalone.uri, play)
    assert threads == {threading.get_ident()}
    assert database.copies.find().sort("_id").to_list() == database.rows.find().sort("_id").to_list()


def test_cancelled_export_leaves_no_cursor_and_is_resumed_on_either_face(
    database: Any, standalone: Server, tmp_path: Path
) -> None:
    path = tmp_path / "rows.parquet"
    text = "x" * 4_000
    database.rows.insert_many([{"_id": number, "text": text} for number in range(8_000)])

    async def play(client: Any) -> None:
        begun = asyncio.Event()

        def note(size: int, documents: int) -> None:
            # The first part is complete.
            if documents > 3_000:
                begun.set()

        rows = client[database.name].rows
        task = asyncio.create_task(aexport_table(rows, path, parts=4, parallel=1, progress=note))
        await asyncio.wait_for(begun.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        idle = [
            {"$currentOp": {"idleCursors": True}},
            {"$match": {"type": "idleCursor", "ns": rows.full_name}},
        ]
        # A later operation closes a cursor whose batch was lost.
        async with asyncio.timeout(60):
            while await (await client.admin.aggregate(idle)).to_list():
                await asyncio.sleep(0.05)

    on_asyncio(standalone.uri, play)
    assert not path.exists()
    told = export_table(database.rows, path, parts=4, resume=True)
    assert 1 <= told.resumed < 4
    assert told.documents == 8_000


def test_cancelled_import_has_ended_when_its_task_has(
    database: Any, standalone: Server, tmp_path: Path
) -> None:
    path, progress = tmp_path / "rows.arrow", tmp_path / "progress"
    database.rows.insert_many([{"_id": number} for number in range(100_000)])
    export_table(database.rows, path)

    async def play(client: Any) -> int:
        begun = asyncio.Event()
        copies = client[database.name].copies
        task = asyncio.create_task(
            aimport_table(copies, path, threads=1, resume=progress, progress=lambda *_: begun.set())
        )
        await asyncio.wait_for(begun.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return int(await copies.count_documents({}))

    stored = on_asyncio(standalone.uri, play)
    assert 0 < stored < 100_000
    assert database.copies.count_documents({}) == stored
    told = import_table(database.copies, path, resume=progress)
    assert told.inserted + stored == 100_000
    assert database.copies.count_documents({}) == 100_000


# By hand 1 000.
MEGABYTES = int(os.environ.get("MANGONEL_FILES_MB", "300"))
SECONDS = max(1_000, 4 * MEGABYTES)
# Both are interrupted half-way once, and continue.
MEASURED = """
import sys, threading
from mangonel import MongoClient
from mangonel.files import export_table, import_table
from mangonel.jsonl import export_jsonl, import_jsonl

uri, name, path = sys.argv[1:]
database = MongoClient(uri)[name]
is_text = path.endswith(".jsonl")
export, load, options = (export_jsonl, import_jsonl, {}) if is_text else (export_table, import_table, {"parts": 6})

class Broken(Exception):
    pass

def anonymous():
    # Pages of files, which Arrow maps, can be taken away at any time.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

def watch():
    global most
    while not is_over.wait(0.01):
        most = max(most, anonymous())

def broken_off(count, call, *arguments, **options):
    def half(size, rows):
        if rows > count // 2:
            raise Broken

    try:
        call(*arguments, **options, progress=half)
    except Broken:
        # Behind this block, since the traceback keeps what its frames have.
        pass
    else:
        raise SystemExit("was not broken off")
    return call(*arguments, **options)

def transferred(rows):
    count = rows.estimated_document_count()
    told = broken_off(count, export, rows, path, resume=True, **options)
    # Of lines, those of this call: none if the break was behind the last batch.
    assert told.documents < count if is_text else told.documents == count
    broken_off(count, load, database[rows.name + "_copies"], path, resume=path + ".progress")
    return most

most, is_over = 0, threading.Event()
watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
of_few = transferred(database.few)
print(transferred(database.rows) - of_few)
is_over.set()
watcher.join()
"""


@pytest.mark.no_sample
@pytest.mark.timeout(SECONDS + 200)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize("ending", [*ENDINGS, ".jsonl"])
def test_memory_is_bounded(database: Any, tmp_path: Path, ending: str) -> None:
    # A tenth of it needs the same memory, except for what allocators keep.
    text = [os.urandom(500).hex() for _ in range(100)]
    for name, count in (("few", MEGABYTES * 100), ("rows", MEGABYTES * 1_000)):
        for start in range(0, count, 10_000):
            database[name].insert_many(
                [{"_id": number, "text": text[number % 100]} for number in range(start, start + 10_000)]
            )
    uri, path = "mongodb://{}:{}/".format(*database.client.address), tmp_path / f"rows{ending}"
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, uri, database.name, str(path)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )

    print(f"{MEGABYTES} MB of documents, {ending}: {int(ran.stdout) // 1000} MB more than for a tenth")
    assert int(ran.stdout) < 150_000
    assert database.rows_copies.count_documents({}) == MEGABYTES * 1_000
