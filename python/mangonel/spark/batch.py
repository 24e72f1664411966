"""The format "mangonel": collections as batches of Spark, read in parts and written by tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)

from mangonel._parts_of_tables import PartReader, TableParts, Target, arrow_schema
from mangonel._query_argument import query_of as query_of_text
from mangonel.arrow.schema import Schema
from mangonel.errors import ConfigurationError
from mangonel.spark.filters import query_of
from mangonel.spark.options import Options
from mangonel.spark.types import fields_of, fitted, noted, noted_fields
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

    Options of both: `database`, `collection`, `uri` (for driver and workers, without a password; else set the
    environment variable `MANGONEL_URI`, or the one that `connect` names).

    Options of reading: `filter` (extended JSON), `parts` (how many; by default one for 64 MiB of the collection),
    `snapshot` ("true": all parts read one moment), `sample` (how many documents the schema is inferred from; by default
    all), `on_invalid` as for `Cursor.to_arrow`, `pushdown` ("true": MongoDB filters where it can, and Spark filters
    again; needs `spark.sql.python.filterPushdown.enabled`). Spark 4.3 keeps the filters of a query for later ones of
    the same `load()` that have none, and these lose rows: with `pushdown`, call `load()` for each query. `filter` has
    no such condition.

    Options of writing, that of streams (`frame.writeStream.format("mangonel")`) included: `key` (columns with commas
    between them; a row replaces the document with the same values), `once` (a name of this write among all: each task
    stores its rows in one transaction and only once), `ids` (columns of hexadecimal text to store as ObjectIds).

    Example:
        >>> spark.read.format("mangonel").options(database="shop", collection="orders").load().count()
        2
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "mangonel"

    def schema(self) -> Any:
        """Return the schema of the collection, which is looked at once; a sample with the option `sample`."""
        options = Options(self.options, _READING)
        with options.client() as client:
            collection = options.collection(client)
            found = collection.infer_schema(
                query_of_text(options.text("filter")), sample=options.number("sample")
            )
        if not found.documents:
            raise ConfigurationError(f"expected documents in {collection.full_name}, got none; give a schema")
        return noted(found.schema.fields, frozenset(inner.path for inner in found if inner.is_mixed))

    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader of the columns of a schema."""
        options = Options(self.options, _READING)
        return (_FilteringReader if options.is_set("pushdown") else _Reader)(options, schema)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer.

        Raises:
            ConfigurationError: the mode is "overwrite".
        """
        return _Writer(*self._target('mode "append", got "overwrite"', is_refused=overwrite))

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802  # Spark's name
        """Return a writer of the batches of a stream.

        Raises:
            ConfigurationError: the output mode is "complete".
        """
        return _StreamWriter(
            *self._target('output mode "append" or "update", got "complete"', is_refused=overwrite)
        )

    def _target(self, wanted: str, *, is_refused: bool) -> tuple[Target, list[str]]:
        """Return the collection to store rows in, and the columns that become ids."""
        if is_refused:
            raise ConfigurationError(f"expected the {wanted}; remove the documents first")
        options = Options(self.options, _WRITING)
        with options.client() as client:
            target = Target(
                options.collection(client),
                key=options.names("key"),
                once=options.text("once"),
                connect=options.connect,
            )
        return target, options.names("ids") or []


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

    def columns(self, collection: Any) -> tuple[list[tuple[str, Any]], frozenset[str]]:
        """Return the columns and the paths with several types. A user's schema has neither those paths nor ids."""
        if self._columns is None:
            found = collection.infer_schema(sample=self._options.number("sample") or _SAMPLE)
            mixed = frozenset(inner.path for inner in found if inner.is_mixed)
            self._columns = fields_of(self._schema, found.schema.fields), mixed
        return self._columns

    def partitions(self) -> list[InputPartition]:
        """Plan the parts."""
        options = self._options
        query = query_of_text(options.text("filter"))
        queries = [*([query] if query else []), *self._queries]
        with options.client() as client:
            collection = options.collection(client)
            found = TableParts(
                collection,
                {"$and": queries} if queries else None,
                schema=Schema.of_kinds(self.columns(collection)[0]),
                on_invalid=options.text("on_invalid") or "string",
                count=options.number("parts"),
                snapshot=options.is_set("snapshot"),
                connect=options.connect,
            )
            # Spark has pickled this reader before, so the columns go with the parts.
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
    """Pushes filters down. A class of its own: unless Spark's configuration allows it, Spark refuses such readers."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  # Spark's name
        """Take what MongoDB can filter; Spark applies all filters again."""
        with self._options.client() as client:
            columns = self.columns(self._options.collection(client))
        found = [query_of(filter, *columns) for filter in filters]
        self._queries += [query for query in found if query is not None]
        return filters


@dataclass
class _Stored(WriterCommitMessage):  # type: ignore[misc]  # Spark's class is untyped here
    documents: int


class _Tasks:
    """Stores the rows of tasks."""

    def __init__(self, target: Target, ids: list[str]) -> None:
        self._target = target
        self._ids = ids

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Store the rows of a task."""
        import pyarrow
        from pyspark import TaskContext

        first = next(iterator, None)
        if first is None:
            return _Stored(0)
        name = self._name_of(TaskContext.get())
        made = self._with_ids(first)

        def batches() -> Iterator[Any]:
            yield made
            for batch in iterator:
                yield self._with_ids(batch)

        reader = pyarrow.RecordBatchReader.from_batches(made.schema, batches())
        stored = _Stored(self._target.store(reader, name))
        settle()
        return stored

    def _name_of(self, context: Any) -> str:
        """Return the name of a task, which is the same when the task runs again."""
        return "0" if context is None else str(context.partitionId())

    def _with_ids(self, batch: Any) -> Any:
        """Return a batch whose named columns are ids."""
        import pyarrow

        if not self._ids:
            return batch
        field = arrow_schema(Schema({"_id": "objectid"}).fields).field(0)
        columns, fields = list(batch.columns), list(batch.schema)
        for name in self._ids:
            place = batch.schema.get_field_index(name)
            values = [None if text is None else bytes.fromhex(text) for text in columns[place].to_pylist()]
            columns[place] = pyarrow.array(values, pyarrow.binary(12))
            fields[place] = field.with_name(name)
        return pyarrow.RecordBatch.from_arrays(columns, schema=pyarrow.schema(fields))


class _Writer(_Tasks, DataSourceArrowWriter):  # type: ignore[misc]  # Spark's class is untyped here
    """Stores the rows of one write."""


class _StreamWriter(_Tasks, DataSourceStreamArrowWriter):  # type: ignore[misc]  # Spark's class is untyped here
    """Stores the rows of every batch of a stream."""

    def _name_of(self, context: Any) -> str:
        batch = None if context is None else context.getLocalProperty(_BATCH)
        if batch is None and self._target.once is not None:
            raise ConfigurationError(
                f'expected the property "{_BATCH}" of a task of a stream, got none; use "key" in place of "once"'
            )
        return f"{batch}/{super()._name_of(context)}"
