"""Files of tables: writes a collection to Parquet, Arrow IPC or CSV in parallel parts, and reads such files back.

    >>> export_table(client.shop.orders, "orders.parquet").documents
    2
    >>> import_table(client.shop.copies, "orders.parquet").inserted
    2

Documents become columns, and columns documents, without Python objects in between; memory is bounded. With `resume`,
both continue after a kill, and no document is lost or doubled. `aexport_table` and `aimport_table` are for asyncio.
`mangonel.jsonl` does the same for JSON lines, which keep all types. Needs pyarrow: `pip install "mangonel[arrow]"`.
"""

from mangonel.files.aio import aexport_table, aimport_table
from mangonel.files.errors import TransferError
from mangonel.files.reading import ImportedTable, import_table
from mangonel.files.writing import ExportedTable, export_table

__all__ = [
    "ExportedTable",
    "ImportedTable",
    "TransferError",
    "aexport_table",
    "aimport_table",
    "export_table",
    "import_table",
]
