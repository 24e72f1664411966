"""`dataset`: a query as a `pyarrow.dataset.Dataset`, which DuckDB, Polars and pyarrow read lazily."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import pyarrow
import pyarrow.dataset

from mangonel.arrow._lazy.arrow_predicates import columns_of, node_of
from mangonel.arrow._lazy.groups import DatasetGroups
from mangonel.arrow._lazy.source import Source


class CollectionDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]  # comes without types
    """The documents of a query as a dataset. Made by `Collection.dataset`.

    Each scan sends its own query. Engines pass columns and predicates to `scanner`, `to_table`, `to_batches`, `head`
    and `count_rows`. Predicates are sent if they mean the same to MongoDB as to the engine, and are always applied
    again to the documents that arrive.
    """

    def __init__(self, source: Source, expression: Any = None) -> None:
        self._source = source
        self._schema = pyarrow.table(source.empty()).schema
        # The expression passed to `filter`; every scan returns only rows that match it.
        self._expression = expression

    def __reduce__(self) -> tuple[object, ...]:
        return CollectionDataset, (self._source, self._expression)

    def __repr__(self) -> str:
        return f"<CollectionDataset of {self._source.part.namespace}>\n{self._schema}"

    @property
    def schema(self) -> Any:
        """The schema of the columns."""
        return self._schema

    @property
    def partition_expression(self) -> Any:
        """The expression that holds for every row: true."""
        return pyarrow.compute.scalar(True)

    def scanner(
        self,
        columns: Sequence[str] | dict[str, Any] | None = None,
        filter: Any | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> Any:
        """Return a `pyarrow.dataset.Scanner` of one scan.

        Args:
            columns: names, in the order of the result, or a mapping of names and expressions. None: all.
            filter: an expression; rows for which it is null or false are left out.
            batch_size: the most rows of a batch.
            options: pyarrow's options for files, which have no effect; `use_threads` and `memory_pool` are passed on.
        """
        filter = self._with(filter)
        wanted = self._wanted(columns, filter)
        fields = (
            self._schema if wanted is None else pyarrow.schema([self._schema.field(name) for name in wanted])
        )
        batches = self._batches(wanted, fields, filter, None, batch_size)
        passed: dict[str, Any] = {
            name: options[name] for name in ("use_threads", "memory_pool") if name in options
        }
        if batch_size is not None:
            passed["batch_size"] = batch_size
        return pyarrow.dataset.Scanner.from_batches(
            batches, schema=fields, columns=columns, filter=filter, **passed
        )

    def to_table(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """Return the rows as a `pyarrow.Table`; arguments as for `scanner`."""
        return self.scanner(columns, filter, **options).to_table()

    def to_batches(self, columns: Any = None, filter: Any = None, **options: Any) -> Iterator[Any]:
        """Yield the rows as record batches; arguments as for `scanner`."""
        yield from self.scanner(columns, filter, **options).to_batches()

    def head(self, num_rows: int, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """Return the first rows as a `pyarrow.Table`; other arguments as for `scanner`.

        Without a filter, the server sends only these rows.
        """
        if self._with(filter) is None:
            wanted = self._wanted(columns, None)
            names = self._schema.names if wanted is None else wanted
            fields = pyarrow.schema([self._schema.field(name) for name in names])
            batches = self._batches(wanted, fields, None, num_rows, None)
            return pyarrow.dataset.Scanner.from_batches(batches, schema=fields, columns=columns).to_table()
        return self.scanner(columns, filter, **options).head(num_rows)

    def take(self, indices: Any, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """Return the rows at these positions as a `pyarrow.Table`; every row is read."""
        return self.to_table(columns, filter, **options).take(indices)

    def filter(self, expression: Any) -> CollectionDataset:
        """Return the rows that an expression keeps, as a dataset of the same columns. Sends nothing.

        Args:
            expression: as for `scanner`.
        """
        return CollectionDataset(self._source, self._with(expression))

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """Return the rows in an order, as a `pyarrow.dataset.InMemoryDataset`. Every row is read.

        Args:
            sorting, options: as for `pyarrow.Table.sort_by`.
        """
        return pyarrow.dataset.InMemoryDataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: Any, keys: Any, *arguments: Any, **options: Any) -> Any:
        """Return the join with other rows, as a `pyarrow.dataset.InMemoryDataset`. Every row of both is read.

        Args:
            right_dataset: a dataset or a table.
            keys, arguments, options: as for `pyarrow.Table.join`.
        """
        joined = self.to_table().join(_table_of(right_dataset), keys, *arguments, **options)
        return pyarrow.dataset.InMemoryDataset(joined)

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """Return the join with the nearest of other rows, as a `pyarrow.dataset.InMemoryDataset`.

        Every row of both is read.

        Args:
            right_dataset: a dataset or a table.
            arguments, options: as for `pyarrow.Table.join_asof`.
        """
        joined = self.to_table().join_asof(_table_of(right_dataset), *arguments, **options)
        return pyarrow.dataset.InMemoryDataset(joined)

    def group_by(self, keys: str | Sequence[str], use_threads: bool = True) -> DatasetGroups:
        """Return the rows in groups, for `aggregate`, as `pyarrow.Table.group_by` does. Sends nothing.

        Args:
            keys: names of columns.
            use_threads: the server decides.
        """
        return DatasetGroups(self, self._source, keys, is_whole=self._expression is None)

    def count_rows(self, filter: Any = None, **options: Any) -> int:
        """Return the number of rows that a filter keeps. Reads the filter's columns; without a filter, one column."""
        wanted = self._wanted([], self._with(filter)) or self._schema.names[:1]
        return int(self.scanner(wanted, filter, **options).to_table().num_rows)

    def get_fragments(self, filter: Any = None) -> NoReturn:
        """Raise NotImplementedError: a query has no files."""
        raise NotImplementedError(
            "expected a dataset of files, got one of documents; use collection.partitions()"
        )

    def replace_schema(self, schema: Any) -> Any:
        """Return the same query with other columns.

        Args:
            schema: as for `Collection.dataset`.
        """
        source = self._source
        made = Source(source.part, schema, on_invalid=source.on_invalid, parallel=source.parallel)
        return CollectionDataset(made, self._expression)

    def _with(self, filter: Any) -> Any:
        """Return the expression for the rows of a scan with a filter."""
        if self._expression is None or filter is None:
            return self._expression if filter is None else filter
        return self._expression & filter

    def _wanted(self, columns: Any, filter: Any) -> list[str] | None:
        """Return the columns that a scan reads, in the order of the schema; None: all."""
        if columns is None or isinstance(columns, dict):
            return None
        names = {name if isinstance(name, str) else None for name in columns}
        if filter is not None:
            extra = columns_of(filter)
            if extra is None:
                return None
            names |= extra
        unknown = names - set(self._schema.names)
        if unknown:
            raise KeyError(f"expected names of columns {self._schema.names}, got {sorted(map(str, unknown))}")
        return [name for name in self._schema.names if name in names]

    def _batches(
        self, wanted: list[str] | None, fields: Any, filter: Any, limit: int | None, rows: int | None
    ) -> Iterator[Any]:
        node = None if filter is None else node_of(filter)
        for table in self._source.tables(wanted, node, limit, rows):
            made = pyarrow.table(table)
            yield from made.select(fields.names).to_batches()


def _table_of(dataset: Any) -> Any:
    return dataset.to_table() if isinstance(dataset, pyarrow.dataset.Dataset) else dataset
