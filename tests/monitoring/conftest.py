"""The faces of `tests/faces`, and listeners that record events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from faces.conftest import face
from mangonel import monitoring
from mangonel.server import Server
from tools.faces import Face

__all__ = ["Connect", "Heard", "face"]


class Heard(monitoring.CommandListener):
    """Keeps every event of commands, in order."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.events.append(event)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        self.events.append(event)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        self.events.append(event)

    @property
    def story(self) -> list[str]:
        """Return the events as texts such as "started find"."""
        return [f"{kind(event)} {event.command_name}" for event in self.events]

    def of(self, name: str) -> list[Any]:
        """The events of one command."""
        return [event for event in self.events if event.command_name == name]


def kind(event: Any) -> str:
    """Return the kind of a command's event, named like its listener's method."""
    return type(event).__name__.removeprefix("Command").removesuffix("Event").lower()


Connect = Callable[..., Any]


@pytest.fixture
def connect(face: Face, server: Server) -> Connect:
    """Return a client of the shared replica set, on the face under test, with these listeners."""

    def made(*listeners: Any, **options: Any) -> Any:
        return face.client(server.uri, event_listeners=list(listeners), **options)

    return made
