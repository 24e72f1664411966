"""Translate an operation's arguments in the format to a method's.

Spec: unified-test-format, "operation". Finds the methods' spelling by their signatures.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from spec.unified import values
from spec.unified.driver import Driver
from spec.unified.entities import Entities

__all__ = ["Arguments"]

# Arguments that a method names differently.
_RENAMED = {
    ("collection", "rename"): {"to": "new_name"},
    ("collection", "distinct"): {"fieldName": "key"},
    ("collection", "dropIndex"): {"name": "index_or_name"},
    ("client", "dropDatabase"): {"database": "name_or_database"},
    ("database", "createCollection"): {"collection": "name"},
    ("database", "dropCollection"): {"collection": "name_or_collection"},
    ("client", "appendMetadata"): {"driverInfoOptions": "driver_info"},
    ("bucket", "download"): {"id": "file_id"},
    ("bucket", "delete"): {"id": "file_id"},
    ("bucket", "rename"): {"id": "file_id"},
}

# Documents whose order matters, as the lists of pairs that every version of the API accepts.
_ORDERED = frozenset(("hint", "keys", "min", "max"))


@functools.cache
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of a function's parameters; cached for thousands of calls of a hundred methods."""
    return frozenset(inspect.signature(function).parameters)


class Arguments:
    """Turns the arguments of one operation into keyword arguments."""

    def __init__(self, driver: Driver, entities: Entities) -> None:
        self._driver = driver
        self._entities = entities

    def for_method(
        self,
        kind: str,
        name: str,
        arguments: Mapping[str, Any],
        method: Callable[..., Any],
    ) -> dict[str, Any]:
        """Return keyword arguments of a method.

        Args:
            kind: what the operation's object is, such as "collection".
            name: of the operation.
            method: read for its parameters only.
        """
        parameters = _parameters(getattr(method, "__func__", method))
        renamed = _RENAMED.get((kind, name), {})
        result = {}
        for key, value in arguments.items():
            spelled = renamed.get(key) or values.snake_case(key)
            # Options that a method only passes on keep the server's spelling.
            result[spelled if spelled in parameters else key] = self._value(name, key, value)
        return result

    def _value(self, name: str, key: str, value: Any) -> Any:
        driver = self._driver
        if key == "session":
            return self._entities.find(value).session
        if key in _ORDERED and isinstance(value, Mapping):
            return list(value.items())
        if key == "sort" and name.startswith("find"):
            return list(value.items())
        if key in ("readConcern", "writeConcern", "readPreference"):
            return next(iter(values.concerns(driver, {key: value}).values()))
        if key == "collation":
            return driver.module("collation").Collation(**value)
        if key in ("requests", "models"):
            return values.write_models(driver, value)
        if key == "returnDocument":
            return getattr(driver.module("").ReturnDocument, value.upper())
        if key == "cursorType":
            return getattr(driver.module("").CursorType, values.snake_case(value).upper())
        if key == "driverInfoOptions":
            return values.driver_info(driver, value)
        return value
