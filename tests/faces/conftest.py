"""Every face: blocking with both implementations, asyncio, uvloop, and a loop that watches no descriptors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mangonel._faces import monitors
from tools.faces import LOOPS, faces

face = faces("fused", "reference", *LOOPS)
blocking_face = faces("fused", "reference")
async_face = faces(*LOOPS)


@pytest.fixture
def observers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that counts the driver's threads started from now on; earlier ones may end at any moment."""
    known: list[list[int]] = []
    start = monitors._start

    def watched(started: list[int], *args: Any) -> None:
        known.append(started)
        start(started, *args)

    monkeypatch.setattr(monitors, "_start", watched)
    return lambda: sum(id(started) in monitors._running for started in known)


@pytest.fixture(params=LOOPS)
def loop_name(request: pytest.FixtureRequest) -> str:
    """The kinds of loop, for tests that create loops themselves."""
    name: str = request.param
    return name
