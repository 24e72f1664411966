"""The stores on which the contract is tested; the fixture of each name starts one."""

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
    """Return parameters of which a sample plays a few and the rest plays all."""
    return [pytest.param(name, marks=() if name in few else pytest.mark.no_sample) for name in names]
