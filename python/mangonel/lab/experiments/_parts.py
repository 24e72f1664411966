"""Parts as rows of a table, since most differ by a name, a flag and two figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from mangonel.lab.contender import ASYNCIO, BLOCKING
from mangonel.lab.experiment import Part, Size

__all__ = ["FACES", "Figure", "rows"]

# Of the short form, the full one, and perhaps the brief one; or the same for all.
Figure: TypeAlias = "int | tuple[int, int] | tuple[int, int, int]"

# Part, words and flag of either face.
FACES = (("blocking", "blocking", BLOCKING), ("asyncio", "event loop", ASYNCIO))


def rows(size: Size, table: Iterable[Sequence[Any]], **shared: Any) -> list[Part]:
    """Return the parts of a table.

    Args:
        table: id, title, a flag or several, operations, samples; last may come what else this part alone has.
        shared: what all have.
    """
    made = []
    for name, title, needs, operations, samples, *more in table:
        flags = frozenset([needs] if isinstance(needs, str) else needs)
        options = {**shared, **(more[0] if more else {})}
        made.append(Part(name, title, flags, _chosen(size, operations), _chosen(size, samples), **options))
    return made


def _chosen(size: Size, figure: Figure) -> int:
    return figure if isinstance(figure, int) else size.choose(*figure)
