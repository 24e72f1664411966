"""Every face: blocking in its two paths, asyncio and uvloop, and a loop that watches no descriptors."""

from __future__ import annotations

import pytest

from tools.faces import LOOPS, faces

face = faces("fused", "reference", *LOOPS)
blocking_face = faces("fused", "reference")
async_face = faces(*LOOPS)


@pytest.fixture(params=LOOPS)
def loop_name(request: pytest.FixtureRequest) -> str:
    """The kinds of loop, for tests that make their own."""
    name: str = request.param
    return name
