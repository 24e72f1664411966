"""CSV: rows with more or fewer columns than the header are refused by their number; dates of every year are kept."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from mangonel import cli
from mangonel.bson import ObjectId
from mangonel.files import TransferError, import_table
from mangonel.server import Server

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("threads", [1, 3])
def test_csv_rows_of_another_width_are_counted_when_errors_are_skipped(
    database: Any, tmp_path: Path, threads: int
) -> None:
    path = tmp_path / "rows.csv"
    lines = [f"{number},x{number}" for number in range(1, 40_001)]
    # A block of pyarrow is a megabyte, and a piece has 10 000 rows. Empty lines are no rows.
    for number, text in ((1, "1"), (3, "3,x,3"), (20_000, '"a\nb",c,d'), (20_001, ""), (40_000, "none")):
        lines[number - 1] = text
    path.write_text("_id,text\n" + "\n".join(lines) + "\n" + ",,,\n")
    database.copies.insert_many([{"_id": 2}, {"_id": 39_999}])

    told = import_table(database.copies, path, skip_errors=True, threads=threads)

    assert (told.rows, told.inserted, told.failed) == (40_000, 39_993, 7)
    width = "expected 2 columns, as in the header, got"
    rows = [problem.partition("rows.csv, row ")[2] for problem in told.problems]
    assert [row if width in row else row.partition(" collection")[0] for row in rows] == [
        f"1: {width} 1",
        "2: E11000 duplicate key error",
        f"3: {width} 3",
        f"20000: {width} 3",
        "39998: E11000 duplicate key error",
        f"39999: {width} 1",
        f"40000: {width} 4",
    ]
    assert database.copies.count_documents({}) == 39_995


def test_csv_rows_of_another_width_are_told_once_across_a_break(database: Any, tmp_path: Path) -> None:
    path, kept = tmp_path / "rows.csv", tmp_path / "progress"
    lines = [f"{number},x" for number in range(1, 25_001)]
    for number in (1, 10_001, 10_002, 10_003, 24_999, 25_000):
        lines[number - 1] = "none"
    path.write_text("n,text\n" + "\n".join(lines) + "\n")

    def broken_off(_: int, rows: int) -> None:
        if rows == 10_000:
            raise KeyboardInterrupt

    def play(**options: Any) -> Any:
        return import_table(database.rows, path, skip_errors=True, resume=kept, **options)

    with pytest.raises(KeyboardInterrupt):
        play(progress=broken_off)
    told = play()
    # The first piece ends with row 10 004, and told of four refused rows.
    assert [problem.partition(":")[0] for problem in told.problems] == [
        "rows.csv, row 24999",
        "rows.csv, row 25000",
    ]
    assert told.failed == 2
    assert sorted(database.rows.distinct("n")) == [
        number for number in range(1, 25_001) if lines[number - 1] != "none"
    ]
    assert database.rows.count_documents({}) == 24_994


def test_a_csv_row_of_another_width_ends_an_import_with_its_number(
    database: Any, standalone: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("_id,text\n1,a\n\n2,b,c\n3,d\n")
    command = ["import", standalone.uri, str(path), "--database", database.name]
    problem = "mangonel import: rows.csv, row 2: expected 2 columns, as in the header, got 3\n"

    assert cli.main(command) == 1
    assert capsys.readouterr() == ("", problem)
    assert cli.main([*command, "--skip-errors"]) == 1
    out, err = capsys.readouterr()
    assert out == f"2 documents inserted into {database.name}.rows\n"
    assert err.endswith(problem)


def test_csv_with_no_row_of_the_header_s_width_inserts_nothing(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("_id,text\n1\n2\n")

    told = import_table(database.rows, path, skip_errors=True)

    assert (told.rows, told.inserted, told.failed) == (2, 0, 2)
    assert import_table(database.rows, path, schema={"_id": int}, skip_errors=True).failed == 2


def test_a_wrong_text_of_csv_is_told_with_its_row_behind_refused_rows(database: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("_id\n" + "6" * 24 + "\n1,2\nno\n")

    with pytest.raises(TransferError, match=r"rows\.csv, row 3: .* in the column '_id'"):
        import_table(database.rows, path, schema={"_id": ObjectId}, skip_errors=True)


@pytest.mark.parametrize("behind", [1, 60_000], ids=["first-rows", "later"])
@pytest.mark.parametrize("zone", ["Z", ""])
def test_csv_keeps_dates_of_every_year_without_a_schema(
    database: Any, tmp_path: Path, zone: str, behind: int
) -> None:
    path = tmp_path / "rows.csv"
    common, odd = (
        f"2026-10-25 00:30:00.123{zone}",
        [f"{year}-01-01 00:00:00.001{zone}" for year in ("0001", "9999")],
    )
    path.write_text("\n".join(["at,text", *[f"{common},a"] * behind, *(f"{at},b" for at in odd)]) + "\n")

    told = import_table(database.copies, path)
    assert told.guessed == {"at": f"timestamp[us{', tz=UTC' if zone else ''}]"}
    assert database.copies.distinct("at") == [
        datetime.datetime(1, 1, 1, microsecond=1000),
        datetime.datetime(2026, 10, 25, 0, 30, 0, 123_000),
        datetime.datetime(9999, 1, 1, microsecond=1000),
    ]
