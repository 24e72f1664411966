"""The bases that give classes their asyncio twins: at run time all are `Twins`; `_twins.pyi` has their types."""

from __future__ import annotations

from mangonel.odm._terminal import Twins


def __getattr__(name: str) -> type[Twins]:
    if name.endswith("Twins"):
        return Twins
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
