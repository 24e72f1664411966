"""A query with a schema: an engine reads it on demand, with only the columns and rows that the engine needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mangonel import _core
from mangonel.arrow._lazy.predicates import Node, translate
from mangonel.arrow.schema import Schema, fields_of
from mangonel.errors import PyMongoError

_ON_INVALID = ("raise", "null", "string")


class Source:
    """A query and its columns. It can be pickled as a partition can; the pickle holds no secret.

    Args:
        part: the query as one partition.
        schema: names and types of the columns.
        on_invalid: what happens to a value that does not fit its column.
        parallel: how many cursors read at a time.

    Raises:
        ValueError, TypeError: `schema` is not a schema, or an argument has a wrong value.
    """

    def __init__(self, part: Any, schema: Any, *, on_invalid: str = "raise", parallel: int = 1) -> None:
        if on_invalid not in _ON_INVALID:
            raise ValueError(
                f"expected one of {_ON_INVALID} as on_invalid of a lazy source, got {on_invalid!r}"
            )
        if type(parallel) is not int or parallel < 1:
            raise ValueError(f"expected at least 1 cursor as parallel, got {parallel!r}")
        self.part = part
        self.fields = fields_of(schema)
        self.on_invalid = on_invalid
        self.parallel = parallel
        # Whether the collection has a collation; None: not known yet.
        self._has_collation: bool | None = None

    def empty(self) -> _core.ArrowTable:
        """Return an empty table, for its types."""
        return _core.ColumnBuilder(self.fields, self.on_invalid, 1).take()

    def tables(
        self, columns: Sequence[str] | None, node: Node | None, limit: int | None, rows: int | None
    ) -> Iterator[_core.ArrowTable]:
        """Yield tables with all rows that a predicate selects, and perhaps others.

        Args:
            columns: names of the columns. None: all.
            node: the predicate; None: there is none, or no filter can express it.
            limit: the most rows, counted before the predicate; so with a limit, the predicate is not sent.
            rows: how many rows a table has; None: the default of `iter_arrow`.
        """
        if limit is not None and limit < 1:
            return
        fields = [field for field in self.fields if columns is None or field[0] in columns]
        # A table without columns would have no number of rows.
        fields = fields or self.fields[:1]
        part = self.reader()
        cursor = part.find()
        filter = None
        if limit is not None:
            cursor.limit(limit)
        elif node is not None:
            filter = translate(
                node, self.fields, on_invalid=self.on_invalid, has_collation=self.compares_by_rules(cursor)
            )
        if filter is not None:
            base = cursor._query["filter"]
            cursor._query["filter"] = {"$and": [base, filter]} if base else filter
        options = {} if rows is None else {"rows": rows}
        yield from cursor.iter_arrow(
            Schema.of_kinds(fields),
            on_invalid=self.on_invalid,
            parallel=1 if limit is not None else self.parallel,
            **options,
        )

    def reader(self) -> Any:
        """Return the partition with a blocking client: engines read in their own threads."""
        from mangonel._shared.partitions.carry import client_for
        from mangonel.api import MongoClient, Partition

        if isinstance(self.part, Partition):
            return self.part
        return self.part.on(client_for(self.part._carry(), MongoClient))

    def compares_by_rules(self, cursor: Any) -> bool:
        """Return whether the collection has a collation; the server is asked once."""
        if self._has_collation is None:
            self._has_collation = has_collation(cursor.collection)
        return self._has_collation


def has_collation(collection: Any) -> bool:
    """Return whether a collection has a collation; True if the user lacks the right to know."""
    try:
        found = list(collection.database.list_collections(filter={"name": collection.name}))
    except PyMongoError:
        # The user may lack the right to listCollections; then no filter may depend on the order of strings.
        return True
    return any("collation" in each.get("options", {}) for each in found)
