"""The format "mangonel": collections as batches of Spark, read in parts and written by tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StringType

from mangonel._parts_of_tables import PartReader, TableParts, Target, with_id_types
from mangonel.arrow._lazy.predicates import translate
from mangonel.arrow._lazy.source import has_collation
from mangonel.arrow.schema import Schema
from mangonel.errors import ConfigurationError
from mangonel.spark.filters import node_of
from mangonel.spark.options import Options
from mangonel.spark.types import fields_of, fitted, noted, noted_fields, noted_kinds, stored
from mangonel.spark.workers import settle

__all__ = ["MangonelSource"]

_READING = frozenset({"filter", "sample", "parts", "snapshot", "on_invalid", "pushdown"})
_WRITING = frozenset({"key", "once", "ids"})
# Spark's local property with the number of a stream's batch, which is the same when the batch runs again.
_BATCH = "streaming.sql.batchId"
# How many documents are read to tell ids from text if the user gave the schema.
_SAMPLE = 1_000


class MangonelSource(DataSource):  # type: ignore[misc]  # Spark's class is untyped here
    """A collection: `spark.read.format("mangonel")` and `frame.write.format("mangonel").mode("append")`.

    Options of both: `database`, `collection`, `uri` (for driver and workers, without a password; otherwise set the
    environment variable `MANGONEL_URI`, or the one that `connect` names).

    Options of reading: `filter` (extended JSON), `parts` (how many; by default one for each 64 MiB of the collection),
    `snapshot` ("true": all parts read the data of one moment), `sample` (how many documents the schema is inferred
    from; by default all), `on_invalid` as for `Cursor.to_arrow`, `pushdown` ("true": MongoDB filters where it can, and
    Spark filters again; needs `spark.sql.python.filterPushdown.enabled`). Spark 4.3 reuses the filters of a query for
    later queries without filters on the same `load()`, which then lose rows: with `pushdown`, call `load()` for each
    query. `filter` has no such condition.

    Options of writing, that of streams (`frame.writeStream.format("mangonel")`) included: `key` (columns, separated by
    commas; a row replaces the document with the same values in them), `once` (a unique name of this write: each task
    stores its rows in one transaction and only once; a later write with the same name and partitions stores only the
    missing rows), `ids` (columns of hexadecimal text to store as ObjectIds; by default the ids and UUIDs that this
    source has read as text, nested ones included).

    Example:
        >>> spark.read.format("mangonel").options(database="shop", collection="orders").load().count()
        2
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "mangonel"

    def schema(self) -> Any:
        """Return the schema of the collection, inferred once; from a sample with the option `sample`."""
        options = Options(self.options, _READING)
        with options.client() as client:
            collection = options.collection(client)
            found = collection.infer_schema(options.query(), sample=options.number("sample"))
        if not found.documents:
            raise ConfigurationError(f"expected documents in {collection.full_name}, got none; give a schema")
        return noted(found.schema.fields)

    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader of the columns of a schema."""
        options = Options(self.options, _READING)
        return (_FilteringReader if options.is_set("pushdown") else _Reader)(options, schema)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer.

        Raises:
            ConfigurationError: the mode is "overwrite", or an option names no column.
            InvalidOperation: `once` is the name of another write.
        """
        target, ids = self._target(schema, 'mode "append", got "overwrite"', is_refused=overwrite)
        if (job := target.job()) is not None:
            job.begin()
        return _Writer(target, ids)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802  # Spark's name
        """Return a writer of the batches of a stream.

        Raises:
            ConfigurationError: the output mode is "complete", or an option names no column.
        """
        wanted = 'output mode "append" or "update", got "complete"'
        return _StreamWriter(*self._target(schema, wanted, is_refused=overwrite))

    def _target(self, schema: Any, wanted: str, *, is_refused: bool) -> tuple[Target, dict[str, Any]]:
        """Return the collection to store rows in, and the kinds of columns whose text becomes bytes."""
        if is_refused:
            raise ConfigurationError(f"expected the {wanted}; remove the documents first")
        options = Options(self.options, _WRITING)
        kinds = {field.name: field.dataType for field in schema.fields}
        ids = options.names("ids")
        for option, names in (("key", options.names("key")), ("ids", ids)):
            if unknown := [name for name in names or () if name not in kinds]:
                raise ConfigurationError(
                    f"expected names of the columns {list(kinds)} in the option {option!r}, got {unknown}"
                )
        if others := [name for name in ids or () if not isinstance(kinds[name], StringType)]:
            found = ", ".join(f"{name}: {kinds[name].simpleString()}" for name in others)
            raise ConfigurationError(f"expected columns of text in the option 'ids', got {found}")
        with options.client() as client:
            target = Target(
                options.collection(client),
                key=options.names("key"),
                once=options.text("once"),
                connect=options.connect,
            )
        return target, noted_kinds(schema) if ids is None else dict.fromkeys(ids, "object_id")


@dataclass
class _Part(InputPartition):  # type: ignore[misc]  # Spark's class is untyped here
    part: Any
    reader: PartReader


class _Reader(DataSourceReader):  # type: ignore[misc]  # Spark's class is untyped here
    """Plans the parts, once filters are known, and reads them in any process."""

    def __init__(self, options: Options, schema: Any) -> None:
        self._options = options
        self._schema = schema
        self._queries: list[dict[str, Any]] = []
        self._columns = noted_fields(schema)

    def columns(self, collection: Any) -> list[tuple[str, Any]]:
        """Return the columns. In a user's schema ids are text, so documents show which columns hold ids."""
        if self._columns is None:
            found = collection.infer_schema(sample=self._options.number("sample") or _SAMPLE)
            self._columns = fields_of(self._schema, found.schema.fields)
        return self._columns

    @property
    def on_invalid(self) -> str:
        """What happens to a value that does not fit its column."""
        return self._options.text("on_invalid") or "string"

    def partitions(self) -> list[InputPartition]:
        """Plan the parts."""
        options = self._options
        query = options.query()
        queries = [*([query] if query else []), *self._queries]
        with options.client() as client:
            collection = options.collection(client)
            found = TableParts(
                collection,
                {"$and": queries} if queries else None,
                schema=Schema.of_kinds(self.columns(collection)),
                on_invalid=self.on_invalid,
                count=options.number("parts"),
                snapshot=options.is_set("snapshot"),
                connect=options.connect,
            )
            # Spark pickled this reader earlier, so each part carries the columns.
            reader = found.reader()
            settle()
            return [_Part(part, reader) for part in found.parts]

    def read(self, partition: Any) -> Iterator[Any]:
        """Yield the record batches of a part."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._schema, timezone="UTC")
        for table in partition.reader.tables(partition.part):
            yield from fitted(table, schema).to_batches()
        settle()


class _FilteringReader(_Reader):
    """Pushes filters down. A separate class, since Spark refuses such readers unless its configuration allows them."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  # Spark's name
        """Take the filters that MongoDB can apply; Spark applies all again."""
        with self._options.client() as client:
            collection = self._options.collection(client)
            columns, is_ruled = self.columns(collection), has_collation(collection)
        nodes = [node_of(filter, columns) for filter in filters]
        found = [
            translate(node, columns, on_invalid=self.on_invalid, has_collation=is_ruled) for node in nodes
        ]
        self._queries += [query for query in found if query is not None]
        return filters


@dataclass
class _Stored(WriterCommitMessage):  # type: ignore[misc]  # Spark's class is untyped here
    documents: int


class _Tasks:
    """Stores the rows of tasks."""

    def __init__(self, target: Target, kinds: dict[str, Any]) -> None:
        self._target = target
        self._kinds = kinds

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Store the rows of a task."""
        import pyarrow
        from pyspark import TaskContext

        tables = (with_id_types(stored(batch, self._kinds)) for batch in iterator)
        first = next(tables, None)
        if first is None:
            return _Stored(0)
        context = TaskContext.get()
        batch = self._batch_of(context)
        batches = (each for table in chain([first], tables) for each in table.to_batches())
        reader = pyarrow.RecordBatchReader.from_batches(first.schema, batches)
        # The number is the same when the task runs again.
        told = _Stored(self._target.store(reader, 0 if context is None else context.partitionId(), of=batch))
        settle()
        return told

    def _batch_of(self, context: Any) -> str | None:
        """Return which batch of a stream a task stores; None if there is no stream."""
        return None

    def _complete(self, tasks: int, batch: int | None = None) -> None:
        """Record that all tasks have stored their rows.

        Raises:
            InvalidOperation: an unfinished earlier write with this name had more tasks.
        """
        if (job := self._target.job(batch)) is not None:
            job.complete(tasks)


class _Writer(_Tasks, DataSourceArrowWriter):  # type: ignore[misc]  # Spark's class is untyped here
    """Stores the rows of one write."""

    def commit(self, messages: list[Any]) -> None:
        """Record that the write has ended."""
        self._complete(len(messages))


class _StreamWriter(_Tasks, DataSourceStreamArrowWriter):  # type: ignore[misc]  # Spark's class is untyped here
    """Stores the rows of every batch of a stream."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Record that a batch has ended."""
        self._complete(len(messages), batchId)

    def _batch_of(self, context: Any) -> str | None:
        batch: str | None = None if context is None else context.getLocalProperty(_BATCH)
        if batch is None and self._target.once is not None:
            raise ConfigurationError(
                f'expected the property "{_BATCH}" of a task of a stream, got none; use "key" in place of "once"'
            )
        return batch
