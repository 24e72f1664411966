"""Files of tables on asyncio: threads read, convert and write; the loop sends and receives documents."""

from __future__ import annotations

import os
from typing import Any

from mangonel.files.reading import ImportedTable, import_table
from mangonel.files.writing import ExportedTable, export_table
from mangonel.jsonl.in_thread import run_in_thread

__all__ = ["aexport_table", "aimport_table"]


async def aexport_table(collection: Any, target: str | os.PathLike[str], **options: Any) -> ExportedTable:
    """Like `export_table`, on the asyncio face. When cancelled, it ends after the current batches; parts are kept.

    Args:
        collection: a collection of the asyncio face.
        target, options: as for `export_table`; `progress` is called in the loop.

    Raises:
        TypeError: a collection of the blocking face, or an option that `export_table` lacks. Nothing was sent.
        TransferError, ColumnError, ImportError, OSError, OperationFailure, AutoReconnect: as for `export_table`.
    """
    return await run_in_thread(export_table, collection, target, **options)


async def aimport_table(collection: Any, source: str | os.PathLike[str], **options: Any) -> ImportedTable:
    """Like `import_table`, on the asyncio face. When cancelled, it ends after the inserts in flight.

    Args:
        collection: a collection of the asyncio face.
        source, options: as for `import_table`; `progress` is called in the loop.

    Raises:
        TypeError: a collection of the blocking face, or an option that `import_table` lacks. Nothing was sent.
        TransferError, ImportError, OSError, OperationFailure, AutoReconnect: as for `import_table`.
    """
    return await run_in_thread(import_table, collection, source, **options)
