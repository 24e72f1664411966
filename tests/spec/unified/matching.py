"""Compare an actual value with the expected one, with the operators of the format. Knows neither clients nor
operations.

Spec: unified-test-format, "evaluating matches".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from spec.unified.driver import Driver

__all__ = ["ABSENT", "Matcher"]

ABSENT = type("Absent", (), {"__repr__": lambda self: "nothing"})()


class Matcher:
    """Compares values; `find_entity` resolves names in operators."""

    def __init__(self, driver: Driver, find_entity: Callable[[str], Any]) -> None:
        self._find_entity = find_entity
        self._types = _bson_types(driver)

    def match(self, expected: Any, actual: Any, *, is_root: bool = False, at: str = "$") -> None:
        """Raise AssertionError, which names the place, when the value is not the expected one.

        Args:
            is_root: further keys are allowed in the document itself, or in each document of an array.
            at: where the value stands.
        """
        if isinstance(expected, Mapping):
            if len(expected) == 1 and (name := next(iter(expected))).startswith("$$"):
                self._match_operator(name, expected[name], actual, is_root, at)
                return
            self._match_document(expected, actual, is_root, at)
        elif isinstance(expected, list):
            assert isinstance(actual, list | tuple), f"{at}: expected an array, got {actual!r}"
            assert len(expected) == len(actual), f"{at}: expected {expected!r}, got {actual!r}"
            for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
                self.match(one, other, is_root=is_root, at=f"{at}[{number}]")
        else:
            assert actual is not ABSENT, f"{at}: expected {expected!r}, got nothing"
            assert _is_same(expected, actual), f"{at}: expected {expected!r}, got {actual!r}"

    def _match_document(self, expected: Mapping[str, Any], actual: Any, is_root: bool, at: str) -> None:
        assert isinstance(actual, Mapping), f"{at}: expected {dict(expected)!r}, got {actual!r}"
        for key, value in expected.items():
            self.match(value, actual.get(key, ABSENT), at=f"{at}.{key}")
        if not is_root:
            more = [key for key in actual if key not in expected]
            assert not more, f"{at}: expected {dict(expected)!r} and no key {more}, got {actual!r}"

    def _match_operator(self, name: str, operand: Any, actual: Any, is_root: bool, at: str) -> None:
        if name == "$$exists":
            assert (actual is not ABSENT) == operand, f"{at}: expected exists to be {operand}, got {actual!r}"
        elif name == "$$unsetOrMatches":
            if actual is not ABSENT and actual is not None:
                self.match(operand, actual, is_root=is_root, at=at)
        elif name == "$$type":
            names = [operand] if isinstance(operand, str) else operand
            assert any(self._is_type(one, actual) for one in names), (
                f"{at}: expected type {operand}, got {actual!r}"
            )
        elif name == "$$matchesEntity":
            self.match(self._find_entity(operand), actual, is_root=is_root, at=at)
        elif name == "$$sessionLsid":
            wanted = self._find_entity(operand).lsid
            if isinstance(actual, str):
                # A span shows only the number.
                wanted = str(uuid.UUID(bytes=bytes(wanted["id"])))
            assert actual == wanted, f"{at}: expected the id of {operand}, {wanted!r}, got {actual!r}"
        elif name == "$$matchesHexBytes":
            assert actual is not ABSENT, f"{at}: expected bytes, got nothing"
            assert bytes(actual) == bytes.fromhex(operand), f"{at}: expected {operand}, got {actual!r}"
        elif name == "$$lte":
            assert actual is not ABSENT, f"{at}: expected at most {operand}, got nothing"
            assert actual <= operand, f"{at}: expected at most {operand}, got {actual!r}"
        elif name == "$$matchAsDocument":
            self.match(operand, self._parse(actual, at), is_root=False, at=at)
        elif name == "$$matchAsRoot":
            assert isinstance(actual, Mapping), f"{at}: expected a document, got {actual!r}"
            self.match(operand, actual, is_root=True, at=at)
        else:
            raise NotImplementedError(f"operator {name}")

    def _parse(self, text: Any, at: str) -> Any:
        assert isinstance(text, str), f"{at}: expected extended JSON, got {text!r}"
        return self._types["json"](text)

    def _is_type(self, name: str, actual: Any) -> bool:
        if actual is ABSENT:
            return False
        if name in ("int", "long", "number", "double") and isinstance(actual, bool):
            return False
        return isinstance(actual, self._types[name])


def _is_same(expected: Any, actual: Any) -> bool:
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, int | float):
        # Integers and doubles of the same value match, regardless of type.
        return isinstance(actual, int | float) and expected == actual
    return bool(expected == actual)


def _bson_types(driver: Driver) -> dict[str, Any]:
    import datetime

    decimal = driver.bson("decimal128").Decimal128
    return {
        "double": float,
        "string": str,
        "object": Mapping,
        "array": list,
        "binData": bytes,
        "objectId": driver.bson("objectid").ObjectId,
        "bool": bool,
        "date": datetime.datetime,
        "null": type(None),
        "regex": driver.bson("regex").Regex,
        "javascript": driver.bson("code").Code,
        # Python has one integer type, and the original BSON type is not known.
        "int": int,
        "long": int,
        "timestamp": driver.bson("timestamp").Timestamp,
        "decimal": decimal,
        "number": (int, float, decimal),
        "minKey": driver.bson("min_key").MinKey,
        "maxKey": driver.bson("max_key").MaxKey,
        "json": driver.bson("json_util").loads,
    }
