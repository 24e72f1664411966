"""PyMongoArrow's functions on this driver's columns: change the import, keep the calls.

    >>> find_arrow_all(client.shop.orders, {}, schema=Schema({"_id": int, "total": float})).num_rows
    2

As in PyMongoArrow, a value that does not fit its column becomes null. `cursor.to_arrow()` and similar methods have an
argument to change that, and `to_arrow` needs no other package. All functions take collections of the blocking face.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mangonel.arrow.errors import ColumnError, SchemaError
from mangonel.arrow.frames import arrow_of, numpy_of, pandas_of, polars_of
from mangonel.arrow.inferred import InferredField, InferredSchema
from mangonel.arrow.schema import Schema

__all__ = [
    "ColumnError",
    "InferredField",
    "InferredSchema",
    "Schema",
    "SchemaError",
    "aggregate_arrow_all",
    "aggregate_numpy_all",
    "aggregate_pandas_all",
    "aggregate_polars_all",
    "find_arrow_all",
    "find_numpy_all",
    "find_pandas_all",
    "find_polars_all",
    "write",
]


def _found(collection: Any, query: Any, schema: Any, options: dict[str, Any]) -> Any:
    return collection.find(query, **options).to_arrow(schema, on_invalid="null")


def _aggregated(collection: Any, pipeline: Any, schema: Any, options: dict[str, Any]) -> Any:
    return collection.aggregate(pipeline, **options).to_arrow(schema, on_invalid="null")


def find_arrow_all(collection: Any, query: Mapping[str, Any], *, schema: Any = None, **kwargs: Any) -> Any:
    """Return the documents of a query as a `pyarrow.Table`.

    Args:
        collection: a collection of the blocking face.
        query: query document.
        schema: a Schema; None: inferred.
        **kwargs: arguments of `collection.find`.

    Raises:
        ImportError: pyarrow is not installed.
        OperationFailure, AutoReconnect: as for `find`.

    Example:
        >>> find_arrow_all(client.shop.orders, {}, schema=Schema({"_id": int, "total": float})).num_rows
        2
    """
    return arrow_of(_found(collection, query, schema, kwargs))


def aggregate_arrow_all(
    collection: Any, pipeline: Sequence[Mapping[str, Any]], *, schema: Any = None, **kwargs: Any
) -> Any:
    """Return the documents of a pipeline as a `pyarrow.Table`.

    Args:
        collection: a collection of the blocking face.
        pipeline: the stages.
        schema: a Schema; None: inferred.
        **kwargs: arguments of `collection.aggregate`.

    Raises:
        ImportError: pyarrow is not installed.
        OperationFailure, AutoReconnect: as for `aggregate`.

    Example:
        >>> schema = Schema({"_id": int, "total": float})
        >>> aggregate_arrow_all(client.shop.orders, [{"$match": {}}], schema=schema).num_rows
        2
    """
    return arrow_of(_aggregated(collection, pipeline, schema, kwargs))


def find_pandas_all(collection: Any, query: Mapping[str, Any], *, schema: Any = None, **kwargs: Any) -> Any:
    """Return the documents of a query as a `pandas.DataFrame`.

    Args:
        collection, query, schema, **kwargs: as for `find_arrow_all`.

    Raises:
        ImportError: pandas or pyarrow is not installed.
        OperationFailure, AutoReconnect: as for `find`.

    Example:
        >>> find_pandas_all(client.shop.orders, {}, schema=Schema({"_id": int, "total": float})).shape
        (2, 2)
    """
    return pandas_of(_found(collection, query, schema, kwargs))


def aggregate_pandas_all(
    collection: Any, pipeline: Sequence[Mapping[str, Any]], *, schema: Any = None, **kwargs: Any
) -> Any:
    """Return the documents of a pipeline as a `pandas.DataFrame`.

    Args:
        collection, pipeline, schema, **kwargs: as for `aggregate_arrow_all`.

    Raises:
        ImportError: pandas or pyarrow is not installed.
        OperationFailure, AutoReconnect: as for `aggregate`.

    Example:
        >>> schema = Schema({"_id": int, "total": float})
        >>> aggregate_pandas_all(client.shop.orders, [{"$match": {}}], schema=schema).shape
        (2, 2)
    """
    return pandas_of(_aggregated(collection, pipeline, schema, kwargs))


def find_numpy_all(
    collection: Any, query: Mapping[str, Any], *, schema: Any = None, **kwargs: Any
) -> dict[str, Any]:
    """Return the documents of a query as a dict with a `numpy.ndarray` for each column.

    Args:
        collection, query, schema, **kwargs: as for `find_arrow_all`.

    Raises:
        ImportError: numpy or pyarrow is not installed.
        OperationFailure, AutoReconnect: as for `find`.

    Example:
        >>> find_numpy_all(client.shop.orders, {}, schema=Schema({"_id": int, "total": float}))["_id"].shape
        (2,)
    """
    return numpy_of(_found(collection, query, schema, kwargs))


def aggregate_numpy_all(
    collection: Any, pipeline: Sequence[Mapping[str, Any]], *, schema: Any = None, **kwargs: Any
) -> dict[str, Any]:
    """Return the documents of a pipeline as a dict with a `numpy.ndarray` for each column.

    Args:
        collection, pipeline, schema, **kwargs: as for `aggregate_arrow_all`.

    Raises:
        ImportError: numpy or pyarrow is not installed.
        OperationFailure, AutoReconnect: as for `aggregate`.

    Example:
        >>> schema = Schema({"_id": int, "total": float})
        >>> aggregate_numpy_all(client.shop.orders, [{"$match": {}}], schema=schema)["_id"].shape
        (2,)
    """
    return numpy_of(_aggregated(collection, pipeline, schema, kwargs))


def find_polars_all(collection: Any, query: Mapping[str, Any], *, schema: Any = None, **kwargs: Any) -> Any:
    """Return the documents of a query as a `polars.DataFrame`.

    Args:
        collection, query, schema, **kwargs: as for `find_arrow_all`.

    Raises:
        ImportError: polars is not installed.
        OperationFailure, AutoReconnect: as for `find`.

    Example:
        >>> find_polars_all(client.shop.orders, {}, schema=Schema({"_id": int, "total": float})).shape
        (2, 2)
    """
    return polars_of(_found(collection, query, schema, kwargs))


def aggregate_polars_all(
    collection: Any, pipeline: Sequence[Mapping[str, Any]], *, schema: Any = None, **kwargs: Any
) -> Any:
    """Return the documents of a pipeline as a `polars.DataFrame`.

    Args:
        collection, pipeline, schema, **kwargs: as for `aggregate_arrow_all`.

    Raises:
        ImportError: polars is not installed.
        OperationFailure, AutoReconnect: as for `aggregate`.

    Example:
        >>> schema = Schema({"_id": int, "total": float})
        >>> aggregate_polars_all(client.shop.orders, [{"$match": {}}], schema=schema).shape
        (2, 2)
    """
    return polars_of(_aggregated(collection, pipeline, schema, kwargs))


def write(collection: Any, tabular: Any, *, exclude_none: bool = False) -> dict[str, int]:
    """Insert the rows of a table as documents.

    Args:
        collection: a collection of the blocking face.
        tabular: a table, a data frame or a dict of arrays, as for `collection.insert_arrow`.
        exclude_none: leave out fields that are null.

    Returns:
        The number of inserted documents: `{"insertedCount": 2}`.

    Raises:
        BulkWriteError: a row was refused; the rows before it are stored.
        ColumnError, TypeError: a row or a column cannot be stored.
        OperationFailure, AutoReconnect: as for `insert_many`.

    Example:
        >>> write(client.shop.copies, client.shop.orders.find().to_arrow())
        {'insertedCount': 2}
    """
    result = collection.insert_arrow(tabular, exclude_none=exclude_none)
    return {"insertedCount": result.inserted_count}
