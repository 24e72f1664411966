"""Every test of the codec runs with both ways of making dicts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mangonel import _core


@pytest.fixture(scope="module", params=["layout", "public"], autouse=True)
def layout(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Switch the use of the interpreter's dict layout; yield whether it is on."""
    wanted = request.param == "layout"
    if _core._set_dict_layout(wanted) != wanted:
        pytest.skip("this CPython release is not verified for the dict layout")
    yield wanted
    _core._set_dict_layout(True)
