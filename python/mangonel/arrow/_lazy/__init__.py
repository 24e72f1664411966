"""Lazy sources: engines pass columns, predicates and limits, and the server sends only the data that they need."""

from __future__ import annotations

from typing import Any

from mangonel.arrow._lazy.source import Source

__all__ = ["Source", "dataset", "scan"]


def scan(source: Source) -> Any:
    """Return the `polars.LazyFrame` of a source. Sends nothing."""
    from mangonel.arrow._lazy.polars_scan import scan_of

    return scan_of(source)


def dataset(source: Source) -> Any:
    """Return the `pyarrow.dataset.Dataset` of a source. Sends nothing."""
    from mangonel.arrow._lazy.arrow_dataset import CollectionDataset

    return CollectionDataset(source)
