"""The stores that every rule of the contract is held to; each is started by the fixture of its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

STORES = (
    "memory",
    "mongodb",
    "redis",
    "memcached",
    "mysql",
    "postgresql",
    "sqlite",
    "directory",
    "single_file",
)


def sampled(names: Iterable[str], *few: str) -> list[Any]:
    """Return parameters of which a sample plays a few; the rest plays all of them."""
    return [pytest.param(name, marks=() if name in few else pytest.mark.no_sample) for name in names]
