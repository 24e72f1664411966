"""Files of JSON lines: an export can be imported again, in each compression; both continue after an interruption."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import io
import json
import os
import random
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient, cli
from mangonel.bson import (
    Binary,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
    json_util,
)
from mangonel.bson.json_util import CANONICAL_JSON_OPTIONS
from mangonel.errors import BulkWriteError
from mangonel.jsonl import (
    JSONLinesError,
    aexport_jsonl,
    aimport_jsonl,
    export_jsonl,
    import_jsonl,
    reading,
)
from mangonel.jsonl.files import damages, open_lines
from mangonel.jsonl.progress import Progress
from mangonel.server import Server
from mangonel.write_concern import WriteConcern
from tools.faces import eventually

VALUES = [
    {"_id": 1, "text": 'é\n\u2028"', "n": Int64(5), "x": 1.5, "d": Decimal128("1.50")},
    {"_id": ObjectId("5f5f5f5f5f5f5f5f5f5f5f5f"), "when": datetime.datetime(2020, 1, 2), "none": None},
    {"_id": "three", "b": Binary(b"ab", 128), "r": Regex("^a", "i"), "t": Timestamp(1, 2), "m": MaxKey()},
    {"_id": 2.5, "deep": {"list": [1, {"a": []}]}},
]


@pytest.fixture
def database(standalone: Server) -> Iterator[Any]:
    with MongoClient[Any](standalone.uri) as client:
        database = client[f"lines_{uuid.uuid4().hex[:8]}"]
        yield database
        client.drop_database(database.name)


@pytest.mark.parametrize("way", ["call", "command"])
def test_a_pipe_is_read(database: Any, standalone: Server, tmp_path: Path, way: str) -> None:
    pipe = tmp_path / "lines.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"_id": 1}\n{"_id": 2}\n',))
    writer.start()
    if way == "call":
        assert import_jsonl(database.things, pipe).inserted == 2
    else:
        where = ["--database", database.name, "--collection", "things"]
        assert cli.main(["import", standalone.uri, str(pipe), *where]) == 0
    writer.join()
    assert [row["_id"] for row in database.things.find(sort=[("_id", 1)])] == [1, 2]


def many(count: int) -> list[dict[str, Any]]:
    return [{"_id": number, "text": "x" * 100} for number in range(count)]


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
@pytest.mark.parametrize("mode", ["canonical", "relaxed"])
def test_exported_documents_are_imported_again(database: Any, tmp_path: Path, ending: str, mode: str) -> None:
    path = tmp_path / f"values{ending}"
    database.values.insert_many(VALUES)

    assert export_jsonl(database["values"], path, mode=mode).documents == len(VALUES)
    assert import_jsonl(database.copies, path).inserted == len(VALUES)

    stored = {str(value["_id"]): value for value in database.copies.find()}
    assert stored == {str(value["_id"]): value for value in VALUES}


def test_filter_and_projection_choose_what_is_exported(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    database.values.insert_many(many(10))

    export_jsonl(database["values"], path, filter={"_id": {"$gte": 8}}, projection=["_id"], mode="plain")

    assert path.read_text() == '{"_id":8}\n{"_id":9}\n'


def test_blank_lines_are_passed_over_and_repeated_keys_keep_the_last_value(
    database: Any, tmp_path: Path
) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(b'\n{"_id": 1, "a": 1, "b": 2, "a": 3}\r\n   \n{"_id": 2}')

    found = import_jsonl(database.odd, path)

    assert (found.inserted, found.lines) == (2, 4)
    assert list(database.odd.find_one(1).items()) == [("_id", 1), ("a", 3), ("b", 2)]


@pytest.mark.parametrize("line", ['{"a": ', "[1]", '{"$oid": 5', "\udcff"])
def test_wrong_line_is_named(database: Any, tmp_path: Path, line: str) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_bytes(b'{"_id": 1}\n' + line.encode("utf-8", "surrogateescape") + b'\n{"_id": 2}\n')

    with pytest.raises(JSONLinesError, match=r"wrong\.jsonl, line 2: expected"):
        import_jsonl(database.wrong, path)
    assert database.wrong.count_documents({}) == 1


def test_wrong_and_refused_lines_are_counted_when_errors_are_skipped(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text('{"_id": 1}\nno\n{"_id": 2}\n{"_id": 1}\n{"_id": 3}\n')

    found = import_jsonl(database.wrong, path, skip_errors=True)

    assert (found.inserted, found.failed) == (3, 2)
    assert sorted(problem.partition(":")[0][-1] for problem in found.problems) == ["2", "4"]


def test_refused_line_is_named(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "twice.jsonl"
    path.write_text('{"_id": 1}\n\n{"_id": 1}\n')

    with pytest.raises(JSONLinesError, match="line 3: E11000"):
        import_jsonl(database.twice, path)


@pytest.mark.parametrize("has_id", [True, False])
def test_import_goes_on_after_a_break_without_a_gap_or_a_double(
    database: Any, tmp_path: Path, has_id: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PIECE", 2_000)
    path, progress = tmp_path / "many.jsonl", tmp_path / "progress"
    documents = many(1_000)
    path.write_text("".join(json.dumps(each if has_id else {"n": each["_id"]}) + "\n" for each in documents))

    class Break(Exception):
        pass

    def break_at(size: int, lines: int) -> None:
        if lines > 300:
            # A later call finds rows present that were stored after the last recorded line.
            eventually(lambda: database.many.count_documents({}) > lines, "a piece that was not noted yet")
            raise Break

    with pytest.raises(Break):
        import_jsonl(database.many, path, resume=progress, progress=break_at)
    before = database.many.count_documents({})
    assert 300 < before < 1_000
    found = import_jsonl(database.many, path, resume=progress)

    assert found.inserted == 1_000 - before
    assert found.present > 0
    assert database.many.count_documents({}) == 1_000
    assert not progress.exists()


def test_progress_of_another_collection_is_refused(database: Any, tmp_path: Path) -> None:
    path, progress = tmp_path / "rows.jsonl", tmp_path / "progress"
    path.write_text("{}\n" * 50_000)

    def interrupt(size: int, documents: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_jsonl(database.rows, path, resume=progress, progress=interrupt)
    with pytest.raises(
        JSONLinesError, match=r"to another import, with another collection: .*; give the same arguments"
    ):
        import_jsonl(database.others, path, resume=progress)
    assert database.others.count_documents({}) == 0


def test_progress_of_another_file_is_refused(database: Any, tmp_path: Path) -> None:
    path, progress = tmp_path / "a.jsonl", tmp_path / "progress"
    path.write_text("{}\n")
    for text in (
        '{"source": "b.jsonl", "size": 3, "collection": "a.a", "offset": 0, "line": 0, "prefix": "0000000000000000"}',
        "no",
    ):
        progress.write_text(text)
        with pytest.raises(JSONLinesError, match="import"):
            import_jsonl(database.a, path, resume=progress)


@pytest.mark.parametrize("cut", [0, 1, 7, 40])
def test_export_goes_on_after_the_last_whole_line(database: Any, tmp_path: Path, cut: int) -> None:
    path, whole = tmp_path / "some.jsonl", tmp_path / "whole.jsonl"
    # The ids are of many types, which an index keeps in one order.
    database.values.insert_many(VALUES + [{"_id": number} for number in range(3, 20)])
    export_jsonl(database["values"], whole, resume=True)
    path.write_bytes(whole.read_bytes()[: len(whole.read_bytes()) // 2 - cut])

    export_jsonl(database["values"], path, resume=True)

    assert path.read_bytes() == whole.read_bytes()


# One `_id` of each kind that an index distinguishes, in no order.
MIXED_IDS = [
    MaxKey(),
    MinKey(),
    None,
    float("nan"),
    1,
    Int64(2**60),
    -2.5,
    Decimal128("7.5"),
    float("inf"),
    "",
    "a",
    {},
    {"a": 1, "b": 2},
    {"b": 2, "a": 1},
    b"",
    Binary(b"a", 5),
    Binary(bytes(16), 4),
    ObjectId("5f5f5f5f5f5f5f5f5f5f5f5f"),
    False,
    True,
    datetime.datetime(2020, 1, 2),
    DatetimeMS(2**52),
    Timestamp(1, 2),
]


@pytest.mark.parametrize("mode", ["canonical", "relaxed"])
def test_export_goes_on_after_an_id_of_any_type(database: Any, tmp_path: Path, mode: str) -> None:
    path, whole = tmp_path / "some.jsonl", tmp_path / "whole.jsonl"
    database.mixed.insert_many([{"_id": each} for each in MIXED_IDS])
    export_jsonl(database.mixed, whole, mode=mode, resume=True)
    lines = whole.read_bytes().splitlines(keepends=True)
    assert len(lines) == len(MIXED_IDS)

    for number in range(len(lines) + 1):
        path.write_bytes(b"".join(lines[:number]))
        assert export_jsonl(database.mixed, path, mode=mode, resume=True).documents == len(lines) - number
        assert path.read_bytes() == whole.read_bytes(), number


def test_export_goes_on_where_the_last_document_was_removed(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    # In Python these are equal in pairs.
    for gone, kept in ((1, True), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), (MinKey(), MaxKey())):
        path.write_text(json_util.dumps({"_id": gone}, json_options=CANONICAL_JSON_OPTIONS) + "\n")
        database.removed.replace_one({}, {"_id": kept}, upsert=True)

        assert export_jsonl(database.removed, path, resume=True).documents == 1
        database.removed.drop()


def test_filter_holds_for_the_greatest_key_too(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    database.chosen.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 1}, {"_id": MaxKey(), "a": 2}])
    path.write_text('{"_id": {"$numberInt": "1"}}\n')

    assert export_jsonl(database.chosen, path, filter={"a": 1}, resume=True).documents == 1


@pytest.mark.parametrize("kind", ["view", "time series"])
def test_export_of_what_has_no_index_on_ids_cannot_go_on(database: Any, tmp_path: Path, kind: str) -> None:
    options: dict[str, Any] = (
        {"viewOn": "values", "pipeline": []} if kind == "view" else {"timeseries": {"timeField": "at"}}
    )
    database.command({"create": "odd", **options})
    path = tmp_path / "odd.jsonl"

    # Checked at the start and on resuming: a first run must not promise a second one that is impossible.
    for _ in range(2):
        with pytest.raises(
            JSONLinesError, match=rf"index on _id .*, got the {kind} {database.name}\.odd; leave out"
        ):
            export_jsonl(database.odd, path, resume=True)
        assert not path.exists()
    assert export_jsonl(database.odd, path).documents == 0


def test_compressed_export_cannot_go_on(database: Any, tmp_path: Path) -> None:
    with pytest.raises(JSONLinesError, match="without compression"):
        export_jsonl(database["values"], tmp_path / "a.jsonl.gz", resume=True)


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_mark_of_the_byte_order_is_no_part_of_the_first_line(
    database: Any, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"marked{ending}"
    with open_lines(path, "wb") as file:
        file.write(b'\xef\xbb\xbf{"_id": 1}\r\n\r\n{"_id": 2}')

    assert import_jsonl(database.marked, path).inserted == 2


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("damage", ["cut", "changed", "other"])
def test_damaged_compression_is_told(database: Any, tmp_path: Path, ending: str, damage: str) -> None:
    path = tmp_path / f"damaged.jsonl{ending}"
    with open_lines(path, "wb") as file:
        file.write(b"".join(b'{"_id": "%s"}\n' % os.urandom(20).hex().encode() for _ in range(2_000)))
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(
        {
            "cut": data[:middle],
            "changed": data[:middle] + bytes(64) + data[middle + 64 :],
            "other": b'{"_id": 1}\n',
        }[damage]
    )

    with pytest.raises(JSONLinesError, match=r"damaged\.jsonl\.\w+, (after )?line \d+: expected"):
        import_jsonl(database.damaged, path)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_no_changed_byte_of_a_compressed_file_reads_as_other_lines(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"changed.jsonl{ending}"
    chance = random.Random(5)
    lines = b"".join(b'{"_id": "%s"}\n' % chance.randbytes(20).hex().encode() for _ in range(50))
    with open_lines(path, "wb") as file:
        file.write(lines)
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :])
        with contextlib.suppress(*damages(path)), open_lines(path, "rb") as file:
            assert file.read() == lines, f"byte {place}"


def test_document_that_is_too_large_is_named_and_leaves_the_others(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with path.open("w") as file:
        file.write('{"_id": 1}\n{"_id": 2, "text": "')
        file.write("x" * (16 << 20))
        file.write('"}\n{"_id": 3}\n')

    found = import_jsonl(database.large, path, skip_errors=True)

    assert (found.inserted, found.failed) == (2, 1)
    assert "large.jsonl, line 2: expected at most 16777216 bytes" in found.problems[0]


def test_line_without_an_end_is_refused_before_it_fills_the_memory(
    database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_LONGEST_LINE", 1 << 21)
    path = tmp_path / "one.jsonl"
    path.write_bytes(b"{}\n" + b"[" * (1 << 22))

    with pytest.raises(JSONLinesError, match=r"one\.jsonl, line 2: .* without an end"):
        import_jsonl(database.one, path)


def test_commands_export_and_import(
    database: Any, standalone: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database.values.insert_many(many(5))
    uri, path = f"{standalone.uri}", str(tmp_path / "copies.jsonl.gz")
    where = ["--database", database.name]

    assert cli.main(["export", uri, "values", "-o", path, "--filter", '{"_id": {"$lt": 3}}', *where]) == 0
    assert cli.main(["import", uri, path, "--drop", *where]) == 0
    assert database.copies.count_documents({}) == 3
    assert cli.main(["import", uri, path, *where]) == 1

    said = capsys.readouterr()
    assert "3 documents written" in said.out
    assert "3 documents inserted" in said.out
    assert "copies.jsonl.gz, line " in said.err


def test_the_command_exports_to_standard_output(
    database: Any, standalone: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    database.values.insert_many(many(3))
    words = ["export", standalone.uri, "values", "--database", database.name, "-o", "-"]

    assert cli.main([*words, "--mode", "relaxed"]) == 0

    said = capsys.readouterr()
    assert [json.loads(line)["_id"] for line in said.out.splitlines()] == [0, 1, 2]
    assert said.err == ""
    for more in (["--resume"], ["--format", "csv"]):
        with pytest.raises(SystemExit):
            cli.main([*words, *more])
        assert "expected the name of a file after -o " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_open_file_is_written_and_not_continued(database: Any) -> None:
    database.values.insert_many(many(2))
    file = io.BytesIO()

    assert export_jsonl(database.values, file).documents == 2
    assert file.getvalue().count(b"\n") == 2
    with pytest.raises(ValueError, match="expected the name of a file for resume, got BytesIO"):
        export_jsonl(database.values, file, resume=True)


def test_progress_says_share_rate_and_time_left() -> None:
    progress = Progress("orders.jsonl", 4_000_000, "bytes")
    progress._begun = 100.0
    progress(0, 0)
    progress(1_000_000, 10)

    assert progress.line(102.0) == (
        "orders.jsonl [######..................]  25 % 10 documents, 1.0 MB, 0.5 MB/s, 0:06 left"
    )


def test_asyncio_exports_and_imports(standalone: Server, database: Any, tmp_path: Path) -> None:
    path, seen = tmp_path / "values.jsonl.gz", []
    database["values"].insert_many(many(6_000))

    async def play() -> None:
        async with AsyncMongoClient[Any](standalone.uri) as client:
            own = client[database.name]
            assert (
                await aexport_jsonl(own["values"], path, progress=lambda *told: seen.append(told))
            ).documents == 6_000
            assert (await aimport_jsonl(own.copies, path)).inserted == 6_000
            # Duplicates are reported as on the other face.
            assert (await aimport_jsonl(own.copies, path, skip_errors=True)).failed == 6_000
            with pytest.raises(JSONLinesError, match="duplicate key"):
                await aimport_jsonl(own.copies, path)

    asyncio.run(play())
    assert seen[-1][1] == 6_000
    assert database.copies.count_documents({}) == 6_000


def test_error_of_the_progress_callback_ends_a_transfer_on_asyncio_too(
    standalone: Server, database: Any, tmp_path: Path
) -> None:
    path = tmp_path / "values.jsonl"
    database["values"].insert_many(many(10))

    def fail(size: int, count: int) -> None:
        raise ZeroDivisionError

    async def play() -> None:
        async with AsyncMongoClient[Any](standalone.uri) as client:
            own = client[database.name]
            with pytest.raises(ZeroDivisionError):
                await aexport_jsonl(own["values"], path, progress=fail)
            with pytest.raises(ZeroDivisionError):
                await aimport_jsonl(own.copies, path, progress=fail)

    asyncio.run(play())


def test_cancelled_import_has_ended_when_its_task_has(
    standalone: Server, database: Any, tmp_path: Path
) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps(document) + "\n" for document in many(60_000)))

    async def play() -> int:
        async with AsyncMongoClient[Any](standalone.uri) as client:
            rows, begun = client[database.name].cancelled, asyncio.Event()
            task = asyncio.create_task(aimport_jsonl(rows, path, threads=1, progress=lambda *_: begun.set()))
            await asyncio.wait_for(begun.wait(), 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return int(await rows.count_documents({}))

    stored = asyncio.run(play())
    assert stored > 0
    assert database.cancelled.count_documents({}) == stored


def test_a_write_concern_that_is_not_reached_is_an_error(
    server: Server, database_name: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"_id": 1}\n{"_id": 2}\n')
    with MongoClient[Any](server.uri) as client:
        # A set of one cannot have two copies.
        rows = client[database_name].get_collection("rows", write_concern=WriteConcern(w=2, wtimeout=50))
        with pytest.raises(BulkWriteError) as raised:
            import_jsonl(rows, path, skip_errors=True)
    assert raised.value.details["writeConcernErrors"]


@pytest.mark.parametrize("work", [export_jsonl, import_jsonl])
def test_zstandard_that_python_cannot_read_says_what_to_install(
    database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Any
) -> None:
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "rows.jsonl.zst").touch()
    with pytest.raises(ImportError, match=r"needs Python 3\.14, or: pip install backports\.zstd"):
        work(database.rows, tmp_path / "rows.jsonl.zst")
