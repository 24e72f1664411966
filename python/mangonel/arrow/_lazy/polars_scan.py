"""`scan_polars`: a query as a `polars.LazyFrame`, through Polars' interface for sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mangonel.arrow._lazy.polars_predicates import node_of
from mangonel.arrow._lazy.source import Source


class _PolarsSource:
    """The function that Polars calls. It can be pickled, since a LazyFrame can."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: Any | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[Any]:
        import polars

        node = columns = None
        if predicate is not None:
            node = node_of(predicate)
        if with_columns is not None:
            wanted = {*with_columns, *(predicate.meta.root_names() if predicate is not None else ())}
            columns = [name for name, _ in self._source.fields if name in wanted]
        found = False
        for table in self._source.tables(columns, node, n_rows, batch_size):
            found = True
            yield self._finished(polars.DataFrame(table), with_columns, predicate)
        if not found:
            yield self._finished(polars.DataFrame(self._source.empty()), with_columns, predicate)

    def _finished(self, frame: Any, with_columns: list[str] | None, predicate: Any | None) -> Any:
        if predicate is not None:
            frame = frame.filter(predicate)
        return frame if with_columns is None else frame.select(with_columns)


def scan_of(source: Source) -> Any:
    """Return the LazyFrame of a source. Sends nothing.

    Raises:
        ImportError: polars is not installed.
    """
    import polars
    from polars.io.plugins import register_io_source

    schema = polars.DataFrame(source.empty()).schema
    return register_io_source(_PolarsSource(source), schema=schema)
