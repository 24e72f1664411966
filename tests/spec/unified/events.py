"""The events of a client's listeners, compared with those that a case expects.

Spec: unified-test-format, "expectedEvent". Knows no operations.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from spec.unified.driver import Driver
from spec.unified.matching import Matcher

__all__ = ["EventLog", "check_events", "event_matches", "make_listener"]

_LISTENERS = {
    "CommandListener": "started succeeded failed",
    "ConnectionPoolListener": (
        "pool_created pool_ready pool_cleared pool_closed connection_created connection_ready"
        " connection_closed connection_check_out_started connection_check_out_failed"
        " connection_checked_out connection_checked_in"
    ),
    "ServerListener": "opened description_changed closed",
    "ServerHeartbeatListener": "started succeeded failed",
    "TopologyListener": "opened description_changed closed",
}

# Hidden unless a client asks for them: they carry secrets.
_SENSITIVE = frozenset(
    (
        "authenticate",
        "saslstart",
        "saslcontinue",
        "getnonce",
        "createuser",
        "updateuser",
        "copydbgetnonce",
        "copydbsaslstart",
        "copydb",
    )
)


class EventLog:
    """The events of one client, oldest first. Listeners add from any thread."""

    def __init__(
        self, observed: Iterable[str], ignored_commands: Iterable[str], *, shows_secrets: bool
    ) -> None:
        self._observed = frozenset(name.lower() for name in observed)
        self._ignored = frozenset(name.lower() for name in ignored_commands) | {"configurefailpoint"}
        self._shows_secrets = shows_secrets
        self._lock = threading.Lock()
        self._events: list[Any] = []

    def add(self, event: Any) -> None:
        """Keep an event if the client observes its kind and command."""
        if _name(event).lower() in self._observed and not self._is_ignored(event):
            with self._lock:
                self._events.append(event)

    def clear(self) -> None:
        """Forget the events so far."""
        with self._lock:
            self._events.clear()

    def events(self, kind: str | None = None) -> list[Any]:
        """Return the events so far; with a kind, such as "cmap", only its own."""
        with self._lock:
            seen = list(self._events)
        return [event for event in seen if kind is None or _kind(event) == kind]

    def count(self, name: str) -> int:
        """Return how many events of that name occurred."""
        return sum(_name(event) == name for event in self.events())

    def _is_ignored(self, event: Any) -> bool:
        command = getattr(event, "command_name", None)
        if command is None:
            return False
        if command.lower() in self._ignored:
            return True
        if self._shows_secrets:
            return False
        if command.lower() in ("hello", "ismaster"):
            # A hello with speculative authentication appears empty.
            return not getattr(event, "command", None) and not getattr(event, "reply", None)
        return command.lower() in _SENSITIVE


def make_listener(driver: Driver, log: EventLog) -> Any:
    """Return a listener of every kind that passes all events to the log."""
    monitoring = driver.module("monitoring")
    methods = {name for names in _LISTENERS.values() for name in names.split()}
    bases = tuple(getattr(monitoring, name) for name in _LISTENERS)
    body = {name: lambda self, event: log.add(event) for name in methods}
    return type("Listener", bases, body)()


def check_events(matcher: Matcher, expected: Mapping[str, Any], log: EventLog) -> None:
    """Raise AssertionError when a client's events differ from the expected ones."""
    kind = expected.get("eventType", "command")
    seen = log.events(kind)
    wanted = expected["events"]
    if not expected.get("ignoreExtraEvents"):
        assert len(seen) == len(wanted), (
            f"expected {len(wanted)} {kind} events of {expected['client']}"
            f" ({', '.join(_shown_wish(one) for one in wanted)}), got {len(seen)}: {_shown(seen)}"
        )
    assert len(seen) >= len(wanted), f"expected {wanted}, got {_shown(seen)}"
    for number, (one, event) in enumerate(zip(wanted, seen, strict=False)):
        _check_event(matcher, one, event, f"event {number} of {_shown(seen)}\n")


def event_matches(matcher: Matcher, expected: Mapping[str, Any], event: Any) -> bool:
    """Return whether an event is one of those that an operation waits for or counts."""
    try:
        _check_event(matcher, expected, event, "event")
    except AssertionError:
        return False
    return True


def _check_event(matcher: Matcher, expected: Mapping[str, Any], event: Any, at: str) -> None:
    name, fields = next(iter(expected.items()))
    assert _name(event) == name, f"{at}: expected {name}, got {_name(event)}"
    for field, value in fields.items():
        if field in ("hasServiceId", "hasServerConnectionId"):
            attribute = "service_id" if field == "hasServiceId" else "server_connection_id"
            found = getattr(event, attribute)
            assert (found is not None) == value, f"{at}: {attribute} is {found!r}"
        elif field in ("command", "reply"):
            found = _as_case_says(value, getattr(event, field))
            matcher.match(value, found, is_root=True, at=f"{at}.{field}")
        elif field in ("previousDescription", "newDescription"):
            _check_description(value, getattr(event, _snake(field)), f"{at}.{field}")
        elif field == "awaited":
            assert event.awaited == value, f"{at}: awaited is {event.awaited}"
        else:
            attribute = {"interruptInUseConnections": "interrupt_connections"}.get(field, _snake(field))
            matcher.match(value, getattr(event, attribute), at=f"{at}.{field}")


def _as_case_says(expected: Any, document: Any) -> Any:
    """Return a command as a case of downloads expects it: GridFS asks for an id by `$eq`, as PyMongo 4.20 does.

    So an id that is a document is never read as operators. PyMongo's copies of the cases have `$eq` too, and are
    compared unchanged.
    """
    if not str(document.get("find", "")).endswith((".files", ".chunks")):
        return document
    wanted = expected.get("filter", {})
    filter = {
        name: value["$eq"]
        if name in ("_id", "files_id") and _is_eq(value) and not _is_eq(wanted.get(name))
        else value
        for name, value in document["filter"].items()
    }
    return {**document, "filter": filter}


def _is_eq(value: Any) -> bool:
    return isinstance(value, Mapping) and "$eq" in value


def _check_description(expected: Mapping[str, Any], description: Any, at: str) -> None:
    if "type" not in expected:
        return
    # A topology's type is a name, while servers give theirs as a number.
    found = getattr(description, "topology_type_name", None) or description.server_type_name
    wanted = {"Primary": "RSPrimary"}.get(expected["type"], expected["type"])
    assert found == wanted, f"{at}: expected {wanted}, got {found}"


def _kind(event: Any) -> str:
    name = type(event).__name__
    if name.startswith("Command"):
        return "command"
    return "cmap" if name.startswith(("Pool", "Connection")) else "sdam"


def _name(event: Any) -> str:
    name = type(event).__name__
    name = {"TopologyOpenedEvent": "TopologyOpeningEvent"}.get(name, name)
    return name[0].lower() + name[1:]


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _shown_wish(expected: Mapping[str, Any]) -> str:
    name, fields = next(iter(expected.items()))
    command = fields.get("commandName") or next(iter(fields.get("command", {})), "")
    return f"{name} {command}".strip()


def _shown(events: list[Any]) -> str:
    parts = []
    for event in events:
        command = getattr(event, "command_name", "")
        parts.append(f"{_name(event)} {command}".strip())
    return ", ".join(parts) or "none"
