"""Groups of a dataset: the server groups if its result equals pyarrow's; otherwise pyarrow groups the rows.

The pipeline also counts the values that it treats differently from a column: values of other types, numbers that the
column converts, NaN under min and max. If it counts any, the server's result is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow
import pyarrow.compute as pc

from mangonel.arrow._lazy.source import Source
from mangonel.arrow.errors import ColumnError
from mangonel.read_concern import ReadConcern

# Kind of a column -> the BSON types that the server and the column read as the same values.
_FITTING = {
    "int32": ["int"],
    "int64": ["int", "long"],
    "double": ["double", "int"],
    "string": ["string"],
    "bool": ["bool"],
    "date": ["date"],
    "naive_date": ["date"],
}
_EMPTY = ["null", "missing", "undefined"]
_KEYS = frozenset(_FITTING) - {"double"}
_NUMBERS = frozenset(["int32", "int64", "double"])
_COMPARED = _NUMBERS | {"date", "naive_date"}


class DatasetGroups:
    """Rows of a dataset in groups: returned by a dataset's `group_by`, like `pyarrow.TableGroupBy` by a table's."""

    def __init__(
        self, dataset: Any, source: Source, keys: str | Sequence[str], *, is_whole: bool = True
    ) -> None:
        self._dataset, self._source = dataset, source
        # Whether the groups include all rows of the source.
        self._is_whole = is_whole
        self._keys = [keys] if isinstance(keys, str) else list(keys)
        self._kinds: dict[str, Any] = dict(source.fields)

    def aggregate(self, aggregations: Sequence[Any]) -> Any:
        """Return a `pyarrow.Table` with a row for each group, in no order.

        `sum`, `mean`, `min`, `max`, `count` and `count_all` are sent, for columns and keys whose values MongoDB groups
        and compares as pyarrow does. pyarrow computes the others from the columns that they need. Sums of doubles may
        differ in their last digits: the server rounds less.

        Args:
            aggregations: tuples of a column and a function, as for `pyarrow.TableGroupBy.aggregate`.

        Raises:
            ColumnError: a value does not fit its column.
            KeyError: no such column.
            OperationFailure, AutoReconnect: as for `aggregate`.
        """
        for name in [*self._keys, *(each[0] for each in aggregations if isinstance(each[0], str))]:
            if name not in self._kinds:
                raise KeyError(f"expected a column of {list(self._kinds)}, got {name!r}")
        found = self._sent(aggregations) if self._can_send(aggregations) else None
        return self._computed(aggregations) if found is None else found

    def _computed(self, aggregations: Sequence[Any]) -> Any:
        names: list[str] = [*self._keys]
        for column, *_ in aggregations:
            names += [column] if isinstance(column, str) else column
        table = self._dataset.to_table(columns=list(dict.fromkeys(names)))
        return table.group_by(self._keys).aggregate(list(aggregations))

    def _can_send(self, aggregations: Sequence[Any]) -> bool:
        if not self._is_whole:
            return False
        for name in self._keys:
            if self._kinds[name] not in _KEYS or not _is_plain(name):
                return False
        for each in aggregations:
            if len(each) != 2:
                return False
            column, function = each
            if function == "count_all":
                if column:
                    return False
                continue
            kind = self._kinds.get(column) if isinstance(column, str) else None
            wanted = {
                "sum": _NUMBERS,
                "mean": _NUMBERS,
                "min": _COMPARED,
                "max": _COMPARED,
                "count": set(_FITTING),
            }
            # A list or struct has no hash.
            if not isinstance(kind, str) or kind not in wanted.get(function, ()) or not _is_plain(column):
                return False
        return True

    def _sent(self, aggregations: Sequence[Any]) -> Any:
        """Return the server's groups, or None if one of their values might differ from pyarrow's."""
        cursor = self._source.reader().find()
        if self._source.compares_by_rules(cursor):
            return None
        query, collection = cursor._query, cursor.collection
        if (concern := query.get("readConcern")) is not None:
            collection = collection.with_options(read_concern=ReadConcern(concern["level"]))
        pipeline, schema = self._pipeline(aggregations)
        if query["filter"]:
            pipeline.insert(0, {"$match": query["filter"]})
        try:
            found = pyarrow.table(collection.aggregate(pipeline, allowDiskUse=True).to_arrow(schema))
        except ColumnError:
            # A sum of integers overflowed to a double.
            return None
        if pc.sum(found["odd"]).as_py():
            return None
        if not self._keys and not found.num_rows:
            found = pyarrow.table(
                {name: [0 if name[0] == "c" else None] for name in found.column_names}, schema=found.schema
            )
        try:
            return self._finished(found, aggregations)
        except pyarrow.ArrowInvalid:
            # No double holds this sum exactly: pyarrow computes the mean with its own rounding.
            return None

    def _pipeline(self, aggregations: Sequence[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        keys = {f"k{place}": {"$ifNull": [f"${name}", None]} for place, name in enumerate(self._keys)}
        schema: dict[str, Any] = {
            f"k{place}": self._dataset.schema.field(name).type for place, name in enumerate(self._keys)
        }
        group: dict[str, Any] = {}
        odd = {name: _is_other(f"${name}", _FITTING[self._kinds[name]]) for name in self._keys}
        for place, (column, function) in enumerate(aggregations):
            if function == "count_all":
                group[f"c{place}"], schema[f"c{place}"] = {"$sum": 1}, int
                continue
            path, kind = f"${column}", self._kinds[column]
            fitting = _FITTING[kind]
            odd.setdefault(column, _is_other(path, fitting))
            group[f"c{place}"] = {"$sum": {"$cond": [{"$in": [{"$type": path}, fitting]}, 1, 0]}}
            schema[f"c{place}"] = int
            if function in ("sum", "mean"):
                group[f"v{place}"] = {"$sum": path}
                schema[f"v{place}"] = float if kind == "double" else int
            elif function in ("min", "max"):
                group[f"v{place}"] = {f"${function}": path}
                schema[f"v{place}"] = self._dataset.schema.field(column).type
                if kind == "double":
                    odd[f"{column} NaN"] = {"$cond": [{"$eq": [path, math.nan]}, 1, 0]}
        group["odd"], schema["odd"] = {"$sum": {"$add": [0, *odd.values()]}}, int
        shown = {"_id": 0, **{name: f"$_id.{name}" for name in keys}, **dict.fromkeys(group, 1)}
        return [{"$group": {"_id": keys or None, **group}}, {"$project": shown}], schema

    def _finished(self, found: Any, aggregations: Sequence[Any]) -> Any:
        names, columns = list(self._keys), [found[f"k{place}"] for place in range(len(self._keys))]
        for place, (column, function) in enumerate(aggregations):
            if function == "count_all":
                names.append(function)
                columns.append(found[f"c{place}"])
                continue
            names.append(f"{column}_{function}")
            counted = found[f"c{place}"]
            if function == "count":
                columns.append(counted)
                continue
            value = found[f"v{place}"]
            if function == "mean":
                value = pc.divide(value.cast(pyarrow.float64()), counted.cast(pyarrow.float64()))
            if function in ("sum", "mean"):
                # The server's sum of no values is 0.
                value = pc.if_else(pc.greater(counted, 0), value, pyarrow.scalar(None, value.type))
            columns.append(value)
        return pyarrow.table(columns, names=names)


def _is_plain(name: str) -> bool:
    """Return whether an expression can name a field."""
    return bool(name) and not any(each in name for each in ".$\0")


def _is_other(path: str, fitting: list[str]) -> dict[str, Any]:
    return {"$cond": [{"$in": [{"$type": path}, [*fitting, *_EMPTY]]}, 0, 1]}
