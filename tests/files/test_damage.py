"""A damaged file of tables is reported, and does not read as other rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.files import TransferError, export_table, import_table
from mangonel.files.formats import format_of
from mangonel.server import Server

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")


def test_no_changed_byte_of_parquet_reads_as_other_rows(standalone: Server, tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    client = MongoClient[Any](standalone.uri)
    database = client.damaged_files
    database.orders.insert_many([{"_id": number, "text": f"{number:x}" * 9} for number in range(100)])
    export_table(database.orders, path)
    made, data, chance = format_of(path, None), path.read_bytes(), random.Random(5)
    rows = pa.concat_tables(made.rows(path, 0, 1_000, None))
    column = pa.parquet.read_metadata(path).row_group(0).column(0)
    told = 0
    for place in range(4, 4 + column.total_compressed_size):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :])
        try:
            found = pa.concat_tables(made.rows(path, 0, 1_000, None))
        except (pa.lib.ArrowException, OSError):
            told += 1
        else:
            assert found == rows, f"byte {place}"
    assert told
    with pytest.raises(TransferError, match=r"orders\.parquet, after row 0: cannot be read: "):
        import_table(database.copies, path)
    client.drop_database(database.name)
    client.close()
