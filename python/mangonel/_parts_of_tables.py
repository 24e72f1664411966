"""The common base of the sources and targets for Ray, Dask and Spark: reads parts with one schema, stores tables.

Knows none of these engines. pyarrow is imported on demand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mangonel import _core
from mangonel._jobs import Job
from mangonel._shared.partitions.carry import ENVIRONMENT, Carried, carried, check_connect, client_for
from mangonel.arrow.schema import Schema, fields_of
from mangonel.errors import ConfigurationError, OperationFailure

# Bytes of a part, for which an engine runs one task, and rows of a table.
_PART, _ROWS = 64 << 20, 65_536
_MOST_PARTS = 1_000
# Widths of columns that this package always reads as ids and UUIDs.
_EXTENSIONS = {12: "pymongoarrow.objectid", 16: "arrow.uuid"}


class TableParts:
    """The parts of a query with their common columns: planned once, read in any process.

    Args:
        collection: a collection of the blocking face.
        filter, projection, snapshot, connect: as for `Collection.partitions`.
        schema: as for `Cursor.to_arrow`. None: inferred from the whole collection, which is read once for this.
        sample: infer the schema from this many documents.
        on_invalid: as for `Cursor.to_arrow`. None: "string" without a schema, otherwise "raise".
        count: how many parts. None: one for each 64 MiB of the collection, at most 1000; one for a view or time series.

    Raises:
        TypeError: `collection` is of the asyncio face.
        ValueError: `schema`, `on_invalid` or `missing` is not one of these values.
        ConfigurationError: workers would find another deployment in their environment.
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
        count: int | None = None,
        snapshot: bool = False,
        connect: Callable[[], object] | str | None = None,
    ) -> None:
        if collection._port.is_async:
            raise TypeError(
                "expected a collection of the blocking face, got one of asyncio; workers have no event loop"
            )
        self.on_invalid = on_invalid or ("string" if schema is None else "raise")
        self.missing = missing
        found = sizes_of(collection)
        self.size = found.whole
        if connect is None:
            _check_environment(collection.database.client)
        if count is None:
            count = min(max(-(-self.size // _PART), 1), _MOST_PARTS) if found.has_parts else 1
        # Planned before the schema is inferred, so that the snapshot is not newer than the columns.
        self.parts: list[Any] = collection.partitions(count, filter, snapshot=snapshot, connect=connect)
        if schema is None:
            self.fields = collection.infer_schema(filter, sample=sample).schema.fields
        else:
            self.fields = fields_of(schema)
        # Raises for wrong arguments here, not in each worker.
        _core.ColumnBuilder(self.fields, self.on_invalid, 1, missing)

    def schema(self) -> Any:
        """Return the `pyarrow.Schema` of every table."""
        return arrow_schema(self.fields, self.missing)

    def reader(self) -> PartReader:
        """Return an object that reads one part. It can be pickled."""
        return PartReader(self.fields, self.on_invalid, self.missing)


class PartReader:
    """Reads parts as tables of the same columns; can be pickled."""

    def __init__(self, fields: list[tuple[str, Any]], on_invalid: str, missing: str) -> None:
        self.fields, self.on_invalid, self.missing = fields, on_invalid, missing

    def tables(self, part: Any, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the rows of a part as `pyarrow.Table`s, at least one.

        Args:
            part: a partition.
            columns: names of columns; only these are fetched. None: all.
        """
        import pyarrow

        fields = self.fields
        if columns is not None:
            kinds = dict(fields)
            fields = [(name, kinds[name]) for name in columns]
        found = part.iter_arrow(
            Schema.of_kinds(fields), rows=_ROWS, on_invalid=self.on_invalid, missing=self.missing
        )
        empty = True
        for table in found:
            empty = False
            yield pyarrow.table(table)
        if empty:
            yield arrow_schema(fields, self.missing).empty_table()

    def table(self, part: Any, columns: Sequence[str] | None = None) -> Any:
        """Return the rows of a part as one `pyarrow.Table`."""
        import pyarrow

        return pyarrow.concat_tables(list(self.tables(part, columns)))


class Target:
    """A collection for tables from other processes; can be pickled, without secrets.

    Args:
        collection: a collection of the blocking face.
        key, once: as for `Collection.insert_arrow`; `once` names the whole job.
        connect: as for `Collection.partitions`.

    Raises:
        TypeError: `collection` is of the asyncio face.
        ConfigurationError: workers would find another deployment in their environment.
    """

    def __init__(
        self,
        collection: Any,
        *,
        key: str | Sequence[str] | None = None,
        once: str | None = None,
        connect: Callable[[], object] | str | None = None,
    ) -> None:
        if collection._port.is_async:
            raise TypeError("expected a collection of the blocking face, got one of asyncio")
        client = collection._client
        check_connect(connect)
        if connect is None:
            # After a command, the client knows its deployment completely.
            collection.database.command("ping")
            _check_environment(client)
        self._kind: type[Any] = type(client)
        self._carried: Carried = carried(client, connect)
        self._names = collection.database.name, collection.name
        self._concern = collection.write_concern
        self.key = key if key is None or isinstance(key, str) else tuple(key)
        self.once = once

    def job(self, of: object = None) -> Job | None:
        """Return the job that parts are stored for; None without `once`.

        Args:
            of: distinguishes several jobs of one name, for example by the number of a stream's batch.
        """
        if self.once is None:
            return None
        return Job(self.collection(), self.once if of is None else f"{self.once}/{of}")

    def collection(self) -> Any:
        """Return the collection, with this process's client."""
        client = client_for(self._carried, self._kind)
        return client[self._names[0]].get_collection(self._names[1], write_concern=self._concern)

    def store(self, table: Any, part: int, *, of: object = None) -> int:
        """Store the rows of a part; return the number of written documents, 0 if the part or job was stored before.

        Args:
            table: a `pyarrow.Table` or `RecordBatchReader`.
            part: the part's number in the job, the same each time it is stored.
            of: as for `job`.

        Raises:
            InvalidOperation: an earlier run has stored other rows as the part with this number.
        """
        job = self.job(of)
        if job is not None and job.is_complete:
            return 0
        name = None if job is None else f"{job.name}/{part}"
        result = self.collection().insert_arrow(table, key=self.key, once=name)
        return int(result.inserted_count + result.upserted_count + result.matched_count)


def arrow_schema(fields: list[tuple[str, Any]], missing: str = "null") -> Any:
    """Return the `pyarrow.Schema` of columns."""
    import pyarrow

    return pyarrow.table(_core.ColumnBuilder(fields, "raise", 1, missing).take()).schema


def with_id_types(table: Any) -> Any:
    """Return a table in which columns of 12 bytes are ids and of 16 bytes UUIDs: engines lose these types."""
    import pyarrow

    fields = [_marked(field) for field in table.schema]
    schema = pyarrow.schema(fields)
    return table if schema.equals(table.schema, check_metadata=True) else with_schema(table, schema, _of_type)


def with_schema(table: Any, schema: Any, convert: Callable[[Any, Any], Any]) -> Any:
    """Return a table with this pyarrow schema. `convert` converts a chunk to another type."""
    import pyarrow

    columns = [
        pyarrow.chunked_array([convert(chunk, field.type) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pyarrow.Table.from_arrays(columns, schema=schema)


def _of_type(chunk: Any, kind: Any) -> Any:
    """Return the same values with a type that differs only in the names of extension types."""
    import pyarrow

    if chunk.type.equals(kind, check_metadata=True):
        return chunk
    # Metadata of fields is part of the type; the buffers are shared.
    plain = getattr(chunk, "storage", chunk)
    return pyarrow.Array._import_from_c_capsule(kind.__arrow_c_schema__(), plain.__arrow_c_array__()[1])


def _marked(field: Any) -> Any:
    import pyarrow

    kind = field.type
    if pyarrow.types.is_struct(kind):
        inner = [_marked(kind.field(place)) for place in range(kind.num_fields)]
        return pyarrow.field(field.name, pyarrow.struct(inner), field.nullable, field.metadata)
    if pyarrow.types.is_list(kind):
        return pyarrow.field(
            field.name, pyarrow.list_(_marked(kind.value_field)), field.nullable, field.metadata
        )
    width = kind.byte_width if pyarrow.types.is_fixed_size_binary(kind) else None
    name = _EXTENSIONS.get(width) if width else None
    if name is None or b"ARROW:extension:name" in (field.metadata or {}):
        return field
    return field.with_metadata({"ARROW:extension:name": name, "ARROW:extension:metadata": ""})


def _check_environment(client: Any) -> None:
    """Raise if this process's MANGONEL_URI, which workers inherit, is for another deployment than the client's."""
    uri = os.environ.get(ENVIRONMENT)
    if uri is None:
        return
    from mangonel.uri_parser import SRV_SCHEME, parse_uri, split_uri

    own = client._options.srv
    is_srv = uri.startswith(SRV_SCHEME)
    if is_srv and own is not None and split_uri(uri)["fqdn"] == own.name:
        # With srvMaxHosts, both may use different routers of one cluster.
        return
    remedy = (
        f'set it to the same deployment, or pass connect="{ENVIRONMENT}" if it is the same by other names'
    )
    known = {*client._options.seeds, *client.topology_description.server_descriptions()}
    try:
        named = set(map(_without_alias, parse_uri(uri)["nodelist"]))
    except ConfigurationError as error:
        if not is_srv:
            raise
        raise ConfigurationError(
            f"expected a server of this client's deployment {_shown(known)} in {ENVIRONMENT}, which workers use, got "
            f"{split_uri(uri)['fqdn']}, whose SRV records were not found: {error}; {remedy}"
        ) from error
    if not named & set(map(_without_alias, known)):
        raise ConfigurationError(
            f"expected a server of this client's deployment {_shown(known)} in {ENVIRONMENT}, which workers use, "
            f"got {_shown(named)}; {remedy}"
        )


def _without_alias(address: tuple[str, int | None]) -> tuple[str, int | None]:
    host, port = address
    return ("127.0.0.1" if host in ("localhost", "::1") else host), port


def _shown(addresses: set[tuple[str, int | None]]) -> str:
    return ", ".join(sorted(f"{host}:{port}" for host, port in addresses))


class Sizes(NamedTuple):
    """The sizes of a collection in bytes, reported by the server; 0 if it reports none, as for a view."""

    whole: int = 0
    average: int = 0
    """The average size of a document."""
    has_parts: bool = False
    """Whether several parts can be read. A time series, for example, has no index on `_id`."""


def sizes_of(collection: Any) -> Sizes:
    """Return the sizes of a collection, reported by the server."""
    try:
        found = collection.database.command({"collStats": collection.name})
    except OperationFailure:
        return Sizes()
    return Sizes(int(found.get("size", 0)), int(found.get("avgObjSize", 0)), "timeseries" not in found)
