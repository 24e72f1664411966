"""From the core's events to those who hear of them. Holds no client: the core holds this.

Nothing here is loaded while nobody listens. Spec: command-logging-and-monitoring and the other monitoring ones.
"""

from __future__ import annotations

import sys

from mangonel import _command_events as commands
from mangonel import monitoring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mangonel._command_events import Facts

COMMANDS = 1
POOLS = 2
TOPOLOGY = 4


class Publisher:
    """The listeners of one client; the core calls a method for each event, in order."""

    def __init__(self, listeners: Sequence[Any]) -> None:
        self._commands = [heard for heard in listeners if isinstance(heard, monitoring.CommandListener)]

    @property
    def interests(self) -> int:
        """The kinds of events that somebody wants, as bits."""
        return COMMANDS if self._commands else 0

    def command_started(self, facts: Facts, command: bytes) -> None:
        """Tell that a command is about to be sent."""
        event = commands.started(facts, command)
        for listener in self._commands:
            _tell(listener.started, event)

    def command_succeeded(self, facts: Facts, micros: int, reply: bytes) -> None:
        """Tell that a command was answered."""
        event = commands.succeeded(facts, micros, reply)
        for listener in self._commands:
            _tell(listener.succeeded, event)

    def command_failed(self, facts: Facts, micros: int, failure: bytes | tuple[str, str]) -> None:
        """Tell that a command was refused or not answered."""
        event = commands.failed(facts, micros, failure)
        for listener in self._commands:
            _tell(listener.failed, event)


def _tell(method: Callable[[Any], None], event: Any) -> None:
    try:
        method(event)
    except Exception:
        if sys.stderr is not None:
            import traceback

            traceback.print_exc()
    except KeyboardInterrupt:
        # Raised from here it would be lost in the core; so the operation is interrupted a moment later.
        import _thread

        _thread.interrupt_main()


def publisher_for(options: Any) -> Publisher | None:
    """Return the publisher of a client with these options; None when nobody wants to hear of it."""
    listeners = [*monitoring._registered, *options.event_listeners]
    publisher = Publisher(listeners)
    return publisher if publisher.interests else None
