"""The BSON value that sorts after every other value. Spec: bson, type 0x7F."""

from __future__ import annotations

from mangonel.bson import schema_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class MaxKey:
    """The BSON MaxKey: greater than any value but itself."""

    __slots__ = ()
    _type_marker = 127

    # An empty state, because protocols 0 and 1 cannot otherwise pickle objects without a dict.
    def __getstate__(self) -> Any:
        return {}

    def __setstate__(self, state: Any) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MaxKey)

    def __hash__(self) -> int:
        return self._type_marker

    def __lt__(self, other: Any) -> bool:
        return False

    def __le__(self, other: Any) -> bool:
        return isinstance(other, MaxKey)

    def __gt__(self, other: Any) -> bool:
        return not isinstance(other, MaxKey)

    def __ge__(self, other: Any) -> bool:
        return True

    def __repr__(self) -> str:
        return "MaxKey()"

    __get_pydantic_core_schema__ = classmethod(schema_of)
