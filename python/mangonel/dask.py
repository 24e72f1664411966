"""Dask on this driver: `read` makes a DataFrame from a collection's parts, `write` stores one.

    frame = read(client.shop.orders)
    write(frame, client.shop.copies, key="_id")

Each part is one partition of the DataFrame, read by Dask's workers straight into Arrow; if columns are selected, only
those are fetched. Credentials are never pickled: workers get them from the environment variable `MANGONEL_URI` or from
`connect=`. Needs `pip install "mangonel[dask]"`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mangonel._parts_of_tables import PartReader, TableParts, Target, arrow_schema, with_id_types

__all__ = ["read", "write"]


def read(
    collection: Any,
    filter: Mapping[str, Any] | None = None,
    *,
    schema: Any = None,
    sample: int | None = None,
    on_invalid: str | None = None,
    parts: int | None = None,
    snapshot: bool = False,
    connect: Callable[[], object] | str | None = None,
) -> Any:
    """Return the documents of a query as a `dask.dataframe.DataFrame`. Columns have pandas' Arrow types.

    The documents are read each time the frame is computed. Two frames never share rows; `persist()` a frame to read it
    once.

    Args:
        collection: a collection of the blocking face.
        filter: query document. None: all documents.
        schema: names and types of columns, as for `Cursor.to_arrow`. None: those of `collection.infer_schema()`, which
            reads every document.
        sample: infer the schema from this many documents; fields that none of them has are not read.
        on_invalid: as for `Cursor.to_arrow`. None: "string" without a schema, otherwise "raise".
        parts: how many parts; each is a partition of Dask. None: one for each 64 MiB of the collection.
        snapshot, connect: as for `Collection.partitions`. A partition that is computed again gives the same rows only
            with `snapshot`, for as long as the server keeps that moment's data.

    Raises:
        TypeError: a collection of the asyncio face.
        ConfigurationError: MANGONEL_URI names another deployment, and no `connect` is given.
        ImportError: dask is not installed.
        SnapshotUnavailable, OperationFailure, AutoReconnect: as for `partitions`.

    Example:
        >>> len(read(client.shop.orders))
        2
    """
    from dask.dataframe import from_map

    found = TableParts(
        collection,
        filter,
        schema=schema,
        sample=sample,
        on_invalid=on_invalid,
        count=parts,
        snapshot=snapshot,
        connect=connect,
    )
    meta = _pandas_of(arrow_schema(found.fields).empty_table())
    return from_map(_ReadPart(found.reader()), found.parts, meta=meta, label="mangonel")


class _ReadPart:
    """Reads a part as a pandas DataFrame; Dask finds the argument `columns` and passes a selection."""

    def __init__(self, reader: PartReader) -> None:
        self._reader = reader
        # Unique to this read: Dask returns stored rows for a frame of the same name, and documents may have changed.
        self._token = os.urandom(16).hex()

    def __call__(self, part: Any, columns: Sequence[str] | None = None) -> Any:
        return _pandas_of(self._reader.table(part, columns))

    def __dask_tokenize__(self) -> Any:
        return self._token


def _pandas_of(table: Any) -> Any:
    import pandas
    import pyarrow

    for place, column in enumerate(table.columns):
        # pandas has no class for Arrow's extension types.
        if isinstance(column.type, pyarrow.BaseExtensionType):
            chunks = [chunk.storage for chunk in column.chunks]
            plain = pyarrow.chunked_array(chunks, column.type.storage_type)
            table = table.set_column(place, table.field(place).name, plain)
    return table.to_pandas(types_mapper=pandas.ArrowDtype)


def write(
    frame: Any,
    collection: Any,
    *,
    key: str | Sequence[str] | None = None,
    once: str | None = None,
    connect: Callable[[], object] | str | None = None,
) -> int:
    """Store a `dask.dataframe.DataFrame`, one insert for each partition; return how many documents were written.

    Dask computes a partition again if its worker was lost. That stores rows twice, unless `key` or `once` is given.
    Columns of 12 bytes are stored as ObjectIds, columns of 16 bytes as UUIDs. The index is not stored.

    Args:
        frame: the DataFrame.
        collection: a collection of the blocking face.
        key: a column, or several; a row replaces the document with the same values in them, as for `insert_arrow`.
        once: a unique name of this write. Each partition is stored in one transaction, and only once; a later write
            with the same name stores only the partitions that are missing. Needs a replica set or sharded cluster.
        connect: as for `Collection.partitions`.

    Raises:
        TypeError: a collection of the asyncio face, or no frame of Dask.
        ConfigurationError: MANGONEL_URI names another deployment, and no `connect` is given.
        InvalidOperation: `once` is the name of another write, or the partitions differ from those of an unfinished
            earlier write with this name. Stored partitions stay.
        BulkWriteError, ColumnError, OperationFailure, AutoReconnect: as for `insert_arrow`.

    Example:
        >>> write(read(client.shop.orders), client.shop.copies, key="_id")
        2
    """
    import dask

    if not hasattr(frame, "to_delayed"):
        kind = type(frame)
        raise TypeError(
            f"expected a dask.dataframe.DataFrame, got {kind.__module__}.{kind.__qualname__}; store a table with "
            "collection.insert_arrow()"
        )
    target = Target(collection, key=key, once=once, connect=connect)
    job = target.job()
    if job is not None and not job.begin(frame.npartitions):
        return 0
    # With a fixed name, the task graph has no random part, and a task that runs again is the same.
    store = dask.delayed(_store)
    stored = [store(target, part, place) for place, part in enumerate(frame.to_delayed())]
    written = sum(dask.compute(*stored))
    if job is not None:
        job.complete(frame.npartitions)
    return written


def _store(target: Target, frame: Any, place: int) -> int:
    import pyarrow

    if not len(frame):
        return 0
    return target.store(with_id_types(pyarrow.Table.from_pandas(frame, preserve_index=False)), place)
