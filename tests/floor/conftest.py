"""Fixtures of the tests that break flows off."""

from __future__ import annotations

import pytest

from mangonel import client_options
from mangonel._shared.client import abandoned_cursors


@pytest.fixture
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is looked at again at once; cursors of cancelled commands are swept when `Way.hurry` says so."""
    monkeypatch.setattr(client_options, "MIN_HEARTBEAT_INTERVAL", 0.002)
    monkeypatch.setattr(abandoned_cursors, "_SWEEP_S", 3600.0)
