"""The BSON value that sorts before every other value. Spec: bson, type 0xFF."""

from __future__ import annotations

from mangonel.bson import schema_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Extreme:
    """Base of MinKey and MaxKey: sorts beyond all other values, and equals only its own kind."""

    __slots__ = ()
    _type_marker: int
    _is_least: bool

    # An empty state, because protocols 0 and 1 cannot otherwise pickle objects without a dict.
    def __getstate__(self) -> Any:
        return {}

    def __setstate__(self, state: Any) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Extreme) and other._is_least == self._is_least

    def __hash__(self) -> int:
        return self._type_marker

    def __lt__(self, other: Any) -> bool:
        return self._is_least and self != other

    def __le__(self, other: Any) -> bool:
        return self._is_least or self == other

    def __gt__(self, other: Any) -> bool:
        return not self._is_least and self != other

    def __ge__(self, other: Any) -> bool:
        return not self._is_least or self == other

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    __get_pydantic_core_schema__ = classmethod(schema_of)


class MinKey(_Extreme):
    """The BSON MinKey: less than any value but itself."""

    __slots__ = ()
    _type_marker = 255
    _is_least = True
