"""Every face: blocking in its two paths, asyncio and uvloop."""

from __future__ import annotations

import pytest

from tools.faces import faces

face = faces("fused", "reference", "asyncio", "uvloop")
blocking_face = faces("fused", "reference")
async_face = faces("asyncio", "uvloop")


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_name(request: pytest.FixtureRequest) -> str:
    """The kinds of loop, for tests that make their own."""
    name: str = request.param
    return name
