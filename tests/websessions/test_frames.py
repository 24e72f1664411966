"""The number of Python frames that a request's websession enters, which is its cost beyond the store's own work."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from mangonel.websessions import RequestView, WebSessions
from tools.frames import entered

# The fused path is what users have; the reference path takes more steps in Python.
pytestmark = pytest.mark.skipif(
    os.environ.get("MANGONEL_IMPL") == "reference", reason="counts the fused path"
)

# Loading a websession and storing it changed: the whole, and the change with its storing alone.
MOST = {"memory": (20, 11), "sqlite": (24, 13), "mongodb": (25, 14)}


@pytest.mark.parametrize("store", MOST)
def test_a_changed_websession_enters_few_frames(store: str, store_url: Callable[[str], str]) -> None:
    sessions = WebSessions(store_url(store))
    face = sessions.blocking
    first = face.load(RequestView())
    first["n"] = 0
    face.commit(first)
    assert first.state.cookie is not None
    request_view = RequestView(first.state.cookie.partition(";")[0])

    def request() -> None:
        session = face.load(request_view)
        session["n"] += 1
        face.commit(session)

    names = entered(request)
    stored = len(names) - names.index("WebSession.__getitem__")
    face.close()
    most, most_stored = MOST[store]
    assert len(names) <= most, " ".join(names)
    assert stored <= most_stored, " ".join(names)
