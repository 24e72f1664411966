"""Fixtures of the tests that interrupt flows."""

from __future__ import annotations

import pytest

from mangonel import client_options
from mangonel._shared.client import abandoned_cursors


@pytest.fixture
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver checks servers again at once; it sweeps cursors of cancelled commands when `Way.hurry` asks for it."""
    monkeypatch.setattr(client_options, "MIN_HEARTBEAT_INTERVAL", 0.002)
    monkeypatch.setattr(abandoned_cursors, "_SWEEP_S", 3600.0)
