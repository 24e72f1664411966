"""The BSON value that sorts before every other value. Spec: bson, type 0xFF."""

from __future__ import annotations

from mangonel.bson import schema_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class MinKey:
    """The BSON MinKey: less than any value but itself."""

    __slots__ = ()
    _type_marker = 255

    # An empty state, because protocols 0 and 1 cannot otherwise pickle objects without a dict.
    def __getstate__(self) -> Any:
        return {}

    def __setstate__(self, state: Any) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MinKey)

    def __hash__(self) -> int:
        return self._type_marker

    def __lt__(self, other: Any) -> bool:
        return not isinstance(other, MinKey)

    def __le__(self, other: Any) -> bool:
        return True

    def __gt__(self, other: Any) -> bool:
        return False

    def __ge__(self, other: Any) -> bool:
        return isinstance(other, MinKey)

    def __repr__(self) -> str:
        return "MinKey()"

    __get_pydantic_core_schema__ = classmethod(schema_of)
