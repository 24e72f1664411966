"""The log messages of a client, compared with those that a case expects.

Spec: unified-test-format, "expectedLogMessage".
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Mapping
from typing import Any

from spec.unified.driver import Driver
from spec.unified.matching import ABSENT, Matcher

__all__ = ["MessageLog", "check_messages"]

COMPONENTS = ("command", "topology", "serverSelection", "connection")
# Both spellings in use.
_LONGEST = ("MONGODB_LOG_MAX_DOCUMENT_LENGTH", "MONGOB_LOG_MAX_DOCUMENT_LENGTH")
# The detail of a failed command that may be shown when the rest of it is secret.
_OPEN_FIELDS = frozenset(("code", "codeName", "errorLabels"))


class MessageLog(logging.Handler):
    """Collects the structured messages of the driver's loggers, of all clients, during a case."""

    def __init__(self, driver: Driver, observed: Mapping[str, str]) -> None:
        super().__init__(logging.DEBUG)
        self._driver = driver
        self._names = {f"{driver.name}.{component}": component for component in observed}
        self._messages: list[dict[str, Any]] = []
        self._levels: dict[str, int] = {}

    def __enter__(self) -> MessageLog:
        # Whole documents: a truncated one cannot be parsed.
        self._environment = {name: os.environ.get(name) for name in _LONGEST}
        os.environ.update(dict.fromkeys(_LONGEST, "100000"))
        for name in self._names:
            logger = logging.getLogger(name)
            self._levels[name] = logger.level
            logger.setLevel(logging.DEBUG)
            logger.addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        for name, level in self._levels.items():
            logger = logging.getLogger(name)
            logger.setLevel(level)
            logger.removeHandler(self)
        for name, value in self._environment.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message; called by the driver's loggers."""
        self._messages.append(
            {
                "level": record.levelname.lower(),
                "component": self._names[record.name],
                "data": json.loads(record.getMessage()),
            }
        )

    def messages(self, topology_ids: Collection[Any]) -> list[dict[str, Any]]:
        """Return the messages of the clients with these ids."""
        json_util = self._driver.bson("json_util")
        wanted = [json.loads(json_util.dumps(id)) for id in topology_ids]
        return [message for message in list(self._messages) if message["data"].get("clientId") in wanted]


def check_messages(
    matcher: Matcher, driver: Driver, expected: Mapping[str, Any], log: MessageLog, ids: Collection[Any]
) -> None:
    """Raise AssertionError when a client's messages differ from the expected ones."""
    ignored = expected.get("ignoreMessages", ())
    seen = [
        _with_types(driver, message)
        for message in log.messages(ids)
        if not any(_is_match(matcher, driver, one, message) for one in ignored)
    ]
    wanted = expected["messages"]
    shown = ", ".join(f"{one['component']}: {one['data'].get('message')}" for one in seen)
    if not expected.get("ignoreExtraMessages"):
        assert len(seen) == len(wanted), (
            f"expected {len(wanted)} messages ({[one['data'].get('message') for one in wanted]}), got {shown}"
        )
    assert len(seen) >= len(wanted), f"expected {wanted}, got {shown}"
    for number, (one, message) in enumerate(zip(wanted, seen, strict=False)):
        _check(matcher, one, message, f"message {number} of {shown}\n")


def _is_match(matcher: Matcher, driver: Driver, expected: Mapping[str, Any], message: Any) -> bool:
    try:
        _check(matcher, expected, _with_types(driver, message), "message")
    except AssertionError:
        return False
    return True


def _with_types(driver: Driver, message: dict[str, Any]) -> dict[str, Any]:
    # Messages show BSON types as extended JSON.
    json_util = driver.bson("json_util")
    return {**message, "data": json_util.loads(json.dumps(message["data"]))}


def _check(matcher: Matcher, expected: Mapping[str, Any], message: Mapping[str, Any], at: str) -> None:
    assert expected["level"] == message["level"], f"{at}: level {message['level']}"
    assert expected["component"] == message["component"], f"{at}: component {message['component']}"
    data = message["data"]
    if "failureIsRedacted" in expected:
        failure = data.get("failure", ABSENT)
        assert failure is not ABSENT, f"{at}: no failure"
        if expected["failureIsRedacted"]:
            found = json.loads(failure) if isinstance(failure, str) else failure
            assert set(found) <= _OPEN_FIELDS, f"{at}: {failure!r} is not redacted"
        else:
            assert failure, f"{at}: failure is empty"
    matcher.match(expected["data"], data, is_root=True, at=f"{at}.data")
