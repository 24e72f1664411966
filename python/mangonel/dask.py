"""Dask on this driver: `read` makes a DataFrame of a collection's parts, `write` stores one.

    frame = read(client.shop.orders)
    write(frame, client.shop.copies, key="_id")

Each part is one partition of the DataFrame, read by Dask's workers straight into Arrow; a selection of columns is
fetched alone. Credentials are never pickled: workers have them from the environment variable `MANGONEL_URI` or from
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

    The documents are read whenever the frame is computed. Two frames never share rows; `persist()` one to read it once.

    Args:
        collection: a collection of the blocking face.
        filter: query document. None: all documents.
        schema: names and types of columns, as for `Cursor.to_arrow`. None: those of `collection.infer_schema()`, which
            looks at every document.
        sample: look at this many documents for the schema; fields that none of them has are not read.
        on_invalid: as for `Cursor.to_arrow`. "string" without a schema, else "raise".
        parts: how many parts, which are Dask's partitions. None: one for 64 MiB of the collection.
        snapshot, connect: as for `Collection.partitions`. A partition that is computed again gives the same rows with
            `snapshot` only, while the server keeps the moment.

    Raises:
        TypeError: a collection of the asyncio face.
        ConfigurationError: MANGONEL_URI is of another deployment, and no `connect` is given.
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
        # Of this read alone: for frames of one name, Dask returns rows that it holds, and documents may have changed.
        self._token = os.urandom(16).hex()

    def __call__(self, part: Any, columns: Sequence[str] | None = None) -> Any:
        return _pandas_of(self._reader.table(part, columns))

    def __dask_tokenize__(self) -> Any:
        return self._token


def _pandas_of(table: Any) -> Any:
    import pandas
    import pyarrow

    for place, column in enumerate(table.columns):
        # pandas has no class for extension types.
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

    Dask computes a partition again when its worker was lost. Then rows are doubled, unless `key` or `once` is given.
    Columns of 12 bytes are stored as ObjectIds, of 16 bytes as UUIDs. The index is not stored.

    Args:
        frame: the DataFrame.
        collection: a collection of the blocking face.
        key: a column, or several; a row replaces the document with the same values, as for `insert_arrow`.
        once: a name of this write among all. Each partition is stored in one transaction, and only once; a later write
            of the name stores the missing rows, or none. Needs a replica set or sharded cluster.
        connect: as for `Collection.partitions`.

    Raises:
        TypeError: a collection of the asyncio face, or no frame of Dask.
        ConfigurationError: MANGONEL_URI is of another deployment, and no `connect` is given.
        InvalidOperation: `once` is the name of another write, or this frame has other partitions than the earlier write
            of the name, which did not end. Partitions that were stored stay.
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
    # With a name, the graph of a task has no random part, and a task that is run again is the same.
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
