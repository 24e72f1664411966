"""The format "mangonel": collections as batches of Spark, read in parts and written by tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from mangonel._parts_of_tables import PartReader, TableParts, Target, arrow_schema
from mangonel._query_argument import query_of as query_of_text
from mangonel.arrow.schema import Schema
from mangonel.errors import ConfigurationError
from mangonel.spark.filters import query_of
from mangonel.spark.options import Options
from mangonel.spark.types import fields_of, fitted, struct_of

__all__ = ["MangonelSource"]

_READING = frozenset({"filter", "sample", "parts", "snapshot", "on_invalid", "pushdown"})
_WRITING = frozenset({"key", "once", "ids"})
# Documents that tell ids from text where the user gave the schema.
_SAMPLE = 1_000


class MangonelSource(DataSource):  # type: ignore[misc]  # Spark's class is untyped here
    """A collection: `spark.read.format("mangonel")` and `frame.write.format("mangonel").mode("append")`.

    Options of both: `database`, `collection`, `uri` (without a password; else set the environment variable
    `MANGONEL_URI`, or the one that `connect` names).

    Options of reading: `filter` (extended JSON), `parts` (how many), `snapshot` ("true": all parts read one moment),
    `sample` (documents that tell the schema; by default all), `on_invalid` as for `Cursor.to_arrow`,
    `pushdown` ("true": MongoDB filters where it can, and Spark filters again; needs
    `spark.sql.python.filterPushdown.enabled`). Spark 4.3 keeps the filters of a query for later ones of the same
    `load()` that have none, and these lose rows: with `pushdown`, call `load()` for each query. `filter` has no such
    condition.

    Options of writing: `key` (columns with commas between them; a row replaces the document with the same values),
    `once` (a name of this write among all: each task stores its rows in one transaction and only once), `ids` (columns
    of hexadecimal text to store as ObjectIds).

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
        return struct_of(found.schema.fields)

    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader of the columns of a schema."""
        options = Options(self.options, _READING)
        return (_FilteringReader if options.is_set("pushdown") else _Reader)(options, schema)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer.

        Raises:
            ConfigurationError: the mode is "overwrite".
        """
        if overwrite:
            raise ConfigurationError(
                'expected the mode "append", got "overwrite"; remove the documents first'
            )
        options = Options(self.options, _WRITING)
        with options.client() as client:
            target = Target(
                options.collection(client),
                key=options.names("key"),
                once=options.text("once"),
                connect=options.connect,
            )
        return _Writer(target, options.names("ids") or [])


@dataclass
class _Part(InputPartition):  # type: ignore[misc]  # Spark's class is untyped here
    part: Any


class _Reader(DataSourceReader):  # type: ignore[misc]  # Spark's class is untyped here
    """Plans the parts, once filters are known, and reads them in any process."""

    def __init__(self, options: Options, schema: Any) -> None:
        self._options = options
        self._schema = schema
        with options.client() as client:
            # What the user's schema does not tell: ids, and paths with several types.
            size = options.number("sample") or _SAMPLE
            found = options.collection(client).infer_schema(sample=size)
        self._fields = fields_of(schema, found.schema.fields)
        self._mixed = frozenset(inner.path for inner in found if inner.is_mixed)
        self._queries: list[dict[str, Any]] = []
        self._reader = PartReader(self._fields, options.text("on_invalid") or "string", "null")

    def partitions(self) -> list[InputPartition]:
        """Plan the parts."""
        options = self._options
        query = query_of_text(options.text("filter"))
        queries = [*([query] if query else []), *self._queries]
        with options.client() as client:
            found = TableParts(
                options.collection(client),
                {"$and": queries} if queries else None,
                schema=self._reader_schema(),
                count=options.number("parts"),
                snapshot=options.is_set("snapshot"),
                connect=options.connect,
            )
            return [_Part(part) for part in found.parts]

    def _reader_schema(self) -> Any:
        return Schema.of_kinds(self._fields)

    def read(self, partition: Any) -> Iterator[Any]:
        """Yield the record batches of a part."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._schema, timezone="UTC")
        for table in self._reader.tables(partition.part):
            yield from fitted(table, schema).to_batches()


class _FilteringReader(_Reader):
    """Pushes filters down. A class of its own: unless Spark's configuration allows it, Spark refuses such readers."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  # Spark's name
        """Take what MongoDB can filter; Spark applies all filters again."""
        for filter in filters:
            query = query_of(filter, self._fields, self._mixed)
            if query is not None:
                self._queries.append(query)
        return filters


@dataclass
class _Stored(WriterCommitMessage):  # type: ignore[misc]  # Spark's class is untyped here
    documents: int


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]  # Spark's class is untyped here
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
        context = TaskContext.get()
        made = self._with_ids(first)

        def batches() -> Iterator[Any]:
            yield made
            for batch in iterator:
                yield self._with_ids(batch)

        reader = pyarrow.RecordBatchReader.from_batches(made.schema, batches())
        return _Stored(self._target.store(reader, 0 if context is None else context.partitionId()))

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
