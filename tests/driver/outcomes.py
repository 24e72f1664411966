"""Outcomes of two drivers made comparable: a value, or the class, code and details of an exception."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# Fields that differ from one command to the next, with any driver.
_GOSSIP = ("$clusterTime", "operationTime", "opTime", "electionId")


def outcome(action: Callable[[], Any]) -> Any:
    """Return the result or error of `action`, without values that differ between runs."""
    try:
        value = action()
    except Exception as error:
        return (
            type(error).__name__,
            getattr(error, "code", None),
            shape(getattr(error, "details", None)),
        )
    return shape(value)


def shape(value: Any) -> Any:
    """Return a value as plain documents: results by their attributes, namespaces without the collection's name."""
    if isinstance(value, Mapping):
        return {key: shape(item) for key, item in value.items() if key not in _GOSSIP}
    if isinstance(value, (list, tuple)):
        return [shape(item) for item in value]
    if isinstance(value, BaseException):
        return type(value).__name__
    if isinstance(value, str):
        return value.replace("things_of_the_oracle", "things")
    if type(value).__name__ in ("ObjectId", "Int64", "Timestamp"):
        return type(value).__name__
    if hasattr(value, "acknowledged"):
        return {name: _read(value, name) for name in dir(value) if not name.startswith("_")}
    return value


def _read(value: Any, name: str) -> Any:
    try:
        return shape(getattr(value, name))
    except Exception as error:
        return type(error).__name__
