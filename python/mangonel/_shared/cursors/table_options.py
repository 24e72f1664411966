"""The options of tables, by name, for type checkers. Imported by nothing at run time."""

from __future__ import annotations

from typing import TypedDict


class TableOptions(TypedDict, total=False):
    """Options of `to_arrow` and similar methods; a cursor's `to_arrow` describes them."""

    on_invalid: str
    missing: str
    categorical: bool
    parallel: int
    ordered: bool
