"""Ray Data on this driver: a source that reads a collection in parts, and a target that stores blocks.

    ray.data.read_datasource(Source(client.shop.orders))
    dataset.write_datasink(Sink(client.shop.copies, key="_id"))

The process that makes the source plans the parts once, and Ray's workers read them straight into Arrow. Credentials are
never pickled: workers get them from the environment variable `MANGONEL_URI` or from `connect=`. Needs
`pip install "mangonel[ray]"`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ray.data.block import BlockMetadata
from ray.data.datasource import Datasink, Datasource, ReadTask

from mangonel._parts_of_tables import TableParts, Target, with_id_types

__all__ = ["Sink", "Source"]


class Source(Datasource):  # type: ignore[misc]  # Ray comes without types
    """The documents of a query as a source of Ray Data: `ray.data.read_datasource(Source(collection))`.

    Every execution of the dataset reads the same parts, which are planned when the source is made. A part whose worker
    was killed is read again; only with `snapshot` are the rows then surely the same.

    Args:
        collection: a collection of the blocking face.
        filter: query document. None: all documents.
        schema: names and types of columns, as for `Cursor.to_arrow`. None: those of `collection.infer_schema()`, which
            reads every document.
        sample: infer the schema from this many documents; fields that none of them has are not read.
        on_invalid, missing: as for `Cursor.to_arrow`. `on_invalid=None`: "string" without a schema, otherwise "raise".
        parts: how many parts, which are Ray's read tasks. None: one for each 64 MiB of the collection.
        snapshot, connect: as for `Collection.partitions`.

    Raises:
        TypeError: `collection` is of the asyncio face.
        ConfigurationError: MANGONEL_URI is for another deployment, and `connect` is None.
        SnapshotUnavailable, OperationFailure, AutoReconnect: as for `partitions`.

    Example:
        >>> ray.data.read_datasource(Source(client.shop.orders)).count()
        2
    """

    def __init__(
        self,
        collection: Any,
        filter: Mapping[str, Any] | None = None,
        *,
        schema: Any = None,
        sample: int | None = None,
        on_invalid: str | None = None,
        missing: str = "null",
        parts: int | None = None,
        snapshot: bool = False,
        connect: Callable[[], object] | str | None = None,
    ) -> None:
        super().__init__()
        self._found = TableParts(
            collection,
            filter,
            schema=schema,
            sample=sample,
            on_invalid=on_invalid,
            missing=missing,
            count=parts,
            snapshot=snapshot,
            connect=connect,
        )

    def get_name(self) -> str:
        """Return the name that Ray shows."""
        return "Mangonel"

    def estimate_inmemory_data_size(self) -> int | None:
        """Return the size of the collection in bytes, or None if it is unknown."""
        return self._found.size or None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Return a task for each part.

        Args:
            parallelism: the number that Ray prefers; ignored, since the parts are already planned.
            per_task_row_limit: the most rows that a task returns.
            data_context: not used.
        """
        parts, schema, reader = self._found.parts, self._found.schema(), self._found.reader()
        size = self._found.size // max(len(parts), 1) or None
        metadata = BlockMetadata(num_rows=None, size_bytes=size, exec_stats=None, input_files=None)
        return [
            ReadTask(partial(reader.tables, part), metadata, schema, per_task_row_limit) for part in parts
        ]


class Sink(Datasink):  # type: ignore[misc]  # Ray comes without types
    """A collection as a target of Ray Data: `dataset.write_datasink(Sink(collection))`.

    Ray runs a task again if its worker was killed. This duplicates rows, unless `key` or `once` is set.
    Columns of 12 bytes are stored as ObjectIds, of 16 bytes as UUIDs.

    Args:
        collection: a collection of the blocking face.
        key: a column, or several; a row replaces the document with the same values, as for `insert_arrow`.
        once: a unique name for this write. Each task stores its rows in one transaction, and only once; a later write
            with the same name stores nothing. If the earlier write did not end, a later one raises InvalidOperation,
            unless Ray keeps the order of blocks (`execution_options.preserve_order`). Needs blocks that are the same if
            they are computed again, and a replica set or sharded cluster.
        connect: as for `Collection.partitions`.

    Raises:
        TypeError: `collection` is of the asyncio face.
        ConfigurationError: MANGONEL_URI is for another deployment, and `connect` is None.

    Example:
        >>> dataset.write_datasink(Sink(client.shop.copies, key="_id"))
    """

    def __init__(
        self,
        collection: Any,
        *,
        key: str | Sequence[str] | None = None,
        once: str | None = None,
        connect: Callable[[], object] | str | None = None,
    ) -> None:
        self._target = Target(collection, key=key, once=once, connect=connect)

    def on_write_start(self, schema: Any = None) -> None:
        """Record that the write begins; Ray calls this once, before its tasks.

        Args:
            schema: not used.

        Raises:
            InvalidOperation: `once` names another write, or an earlier one whose tasks had other numbers.
        """
        job = self._target.job()
        if job is not None:
            from ray.data import DataContext

            is_ordered = DataContext.get_current().execution_options.preserve_order
            job.begin(is_numbered_anew=not is_ordered)

    def on_write_complete(self, write_result: Any) -> None:
        """Record that all tasks have stored their rows.

        Args:
            write_result: holds the result of each task.

        Raises:
            InvalidOperation: an earlier write with this name had more tasks and did not end.
        """
        job = self._target.job()
        if job is not None:
            job.complete(len(write_result.write_returns))

    def write(self, blocks: Iterable[Any], ctx: Any) -> int:
        """Store the blocks of a task; return how many documents were written.

        Args:
            blocks: tables.
            ctx: the task, whose number is the number of its part.
        """
        import pyarrow
        from ray.data.block import BlockAccessor

        tables = [with_id_types(BlockAccessor.for_block(block).to_arrow()) for block in blocks]
        tables = [table for table in tables if len(table)]
        if not tables:
            return 0
        return self._target.store(pyarrow.concat_tables(tables, promote_options="default"), ctx.task_idx)
