"""Tables of columns as what other libraries have of them, imported when they are asked for."""

from __future__ import annotations

from typing import Any

__all__ = ["arrow_of", "numpy_of", "pandas_of", "polars_of"]


def arrow_of(table: Any) -> Any:
    """Return a `pyarrow.Table`, without copying."""
    import pyarrow

    return pyarrow.table(table)


def polars_of(table: Any) -> Any:
    """Return a `polars.DataFrame`."""
    import polars

    return polars.DataFrame(table)


def pandas_of(table: Any) -> Any:
    """Return a `pandas.DataFrame`."""
    return arrow_of(table).to_pandas(split_blocks=True)


def numpy_of(table: Any) -> dict[str, Any]:
    """Return an array for each column."""
    found = arrow_of(table)
    return {name: found[name].to_numpy() for name in found.column_names}
