"""A bounded part of the matrix framework by store by operation; `matrix.py` plays all of it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import pytest
from applications import FRAMEWORKS
from matrix import MOVERS, TIMES, WRITERS, play

count: Counter[str] = Counter()


@pytest.mark.enough(6)
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", ["memory", "mongodb"])
def test_parallel_requests_give_what_a_serial_order_gives(
    framework: str, name: str, store_url: Callable[[str], str]
) -> None:
    asyncio.run(play(framework, name, store_url(name), 1, 3, time.monotonic() + 60, count))
    assert count.total() > 10
    assert set(count) <= {*MOVERS, *TIMES, *WRITERS, "read"}
