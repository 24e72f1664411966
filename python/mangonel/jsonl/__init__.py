"""JSON lines: writes a collection to a file with one document of extended JSON per line, and reads it back.

    >>> export_jsonl(client.shop.orders, "orders.jsonl.gz").documents
    2
    >>> import_jsonl(client.shop.copies, "orders.jsonl.gz").inserted
    2

Lines become BSON, and BSON lines, without Python objects in between. Files named `.gz` or `.zst` are compressed. With
`resume`, both continue an interrupted transfer. `aimport_jsonl` and `aexport_jsonl` are for asyncio.
"""

from mangonel.jsonl.aio import aexport_jsonl, aimport_jsonl
from mangonel.jsonl.errors import JSONLinesError
from mangonel.jsonl.reading import Imported, import_jsonl
from mangonel.jsonl.writing import Exported, export_jsonl

__all__ = [
    "Exported",
    "Imported",
    "JSONLinesError",
    "aexport_jsonl",
    "aimport_jsonl",
    "export_jsonl",
    "import_jsonl",
]
