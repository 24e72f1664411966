"""Converts tables of columns to and from the types of other libraries, which are imported on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mangonel.arrow.errors import ColumnError

# Doubles hold every integer up to this one exactly.
_EXACT = 2**53

__all__ = ["arrow_of", "names_of", "numpy_of", "pandas_of", "polars_of", "table_of"]


def arrow_of(table: Any) -> Any:
    """Return a `pyarrow.Table` without copying."""
    import pyarrow

    return pyarrow.table(table)


def polars_of(table: Any) -> Any:
    """Return a `polars.DataFrame`."""
    import polars

    return polars.DataFrame(table)


def pandas_of(table: Any) -> Any:
    """Return a `pandas.DataFrame`."""
    import pyarrow

    found = arrow_of(table)
    for at, column in enumerate(found.columns):
        # With split blocks, pyarrow would look for a pandas class for this type, which does not exist.
        if isinstance(column.type, pyarrow.UuidType):
            bare = pyarrow.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
            found = found.set_column(at, found.field(at).name, bare)
    frame = found.to_pandas(split_blocks=True)
    for name in _rounded(found):
        column = found[name]
        whole = pyarrow.types.is_int64(column.type)
        frame[name] = column.to_pandas(types_mapper=_nullable_integers) if whole else _objects(column)
    return frame


def _rounded(table: Any) -> list[str]:
    """Return the columns in which pandas and NumPy would round an integer: beside nulls, integers become doubles."""
    return [name for name, column in zip(table.column_names, table.columns, strict=True) if _rounds(column)]


def _rounds(column: Any) -> bool:
    import pyarrow
    import pyarrow.compute

    kind = column.type
    if pyarrow.types.is_struct(kind):
        return any(map(_rounds, column.flatten()))
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        return _rounds(pyarrow.compute.list_flatten(column))
    if not pyarrow.types.is_int64(kind) or not column.null_count:
        return False
    ends = pyarrow.compute.min_max(column).as_py().values()
    return any(end is not None and abs(end) > _EXACT for end in ends)


def _nullable_integers(_: Any) -> Any:
    import pandas

    return pandas.Int64Dtype()


def _objects(column: Any) -> Any:
    """Return an array of the values as Python objects."""
    import numpy

    return numpy.fromiter(column.to_pylist(), dtype=object, count=len(column))


def numpy_of(table: Any) -> dict[str, Any]:
    """Return a dict with an array for each column."""
    found = arrow_of(table)
    arrays = {name: found[name].to_numpy() for name in found.column_names}
    return arrays | {name: _objects(found[name]) for name in _rounded(found)}


def table_of(found: Any) -> Any:
    """Return an object with Arrow's interface: the object itself, or a `pyarrow.Table` made of a frame or of arrays.

    Raises:
        ImportError: the conversion needs pyarrow, which is not installed.
        TypeError: the object is not a table, or has a type that Arrow cannot represent.
        ColumnError: the name of a column contains a NUL.
    """
    table = _with_interface(found)
    _check_columns(table)
    return table


def names_of(table: Any) -> list[str]:
    """Return the column names of a result of `table_of`.

    Raises:
        TypeError: the object has no column names.
    """
    for found in (
        getattr(table, "column_names", None),
        getattr(getattr(table, "schema", None), "names", None),
        getattr(table, "columns", None),
    ):
        names = found() if callable(found) else found
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
    raise TypeError(
        f"expected a table that tells the names of its columns, got {type(table).__name__}; make a pyarrow.Table of it"
    )


def _with_interface(found: Any) -> Any:
    kind = type(found)
    if kind.__module__.partition(".")[0] == "pandas":
        import pyarrow

        # pandas' own Arrow interface would export the index as a column.
        return pyarrow.Table.from_pandas(found, preserve_index=False)
    if hasattr(found, "__arrow_c_stream__") or hasattr(found, "__arrow_c_array__"):
        return found
    if isinstance(found, dict):
        arrays = found
    elif getattr(getattr(found, "dtype", None), "names", None):
        arrays = {name: found[name] for name in found.dtype.names}
    else:
        raise TypeError(
            "expected a table with Arrow's interface, a frame, a structured array or a dict of arrays, "
            f"got {kind.__name__}"
        )
    import pyarrow

    return pyarrow.table(arrays)


def _check_columns(table: Any) -> None:
    """Refuse names with a NUL, and types whose Arrow form does not hold their value.

    Arrow's interface would truncate such names, and Polars would abort the process.
    """
    kinds = [("", getattr(table, each)) for each in ("schema", "type", "dtype") if hasattr(table, each)]
    while kinds:
        path, kind = kinds.pop()
        for name, inner in _columns_of(kind):
            if "\0" in name:
                raise ColumnError(
                    f"expected a column's name without a NUL, got {name!r} at {path or '$'}; rename it"
                )
            place = f"{path}.{name}" if path else name
            if why := _not_a_value(inner):
                raise TypeError(f"expected a type that BSON has, got {why} in column $.{place}")
            kinds.append((place, inner))


def _not_a_value(kind: Any) -> str | None:
    """Return the name of a type that reaches Arrow as a number or an address, with the remedy; None for others."""
    module = type(kind).__module__.partition(".")[0]
    name = getattr(kind, "__name__", type(kind).__name__)
    if (module == "polars" or getattr(kind, "__module__", "").startswith("polars.")) and name == "Object":
        return "Polars' Object, of which Arrow has only addresses; make another column of it"
    if getattr(kind, "extension_name", None) == "pandas.period":
        return "pandas' period, of which Arrow has only a number; convert it with .dt.to_timestamp()"
    return None


def _columns_of(kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a schema, or the parts of a type, of pyarrow or Polars."""
    if isinstance(kind, Mapping):
        yield from kind.items()
    elif hasattr(kind, "num_fields"):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        yield from ((field.name, field.type) for field in fields)
    elif hasattr(kind, "names"):
        yield from zip(kind.names, kind.types, strict=True)
    elif hasattr(kind, "fields"):
        yield from ((field.name, field.dtype) for field in kind.fields)
    elif hasattr(kind, "inner"):
        yield "item", kind.inner
