"""An integer that is always written as a BSON int64. Spec: bson, type 0x12."""

from __future__ import annotations

from mangonel._core import plain_int_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@plain_int_class
class Int64(int):
    """An int that is stored in 64 bits even if 32 would suffice.

    A plain int that fits is stored as int32. Arithmetic returns plain ints.

    Example:
        >>> Int64(5) + 1
        6
    """

    __slots__ = ()
    _type_marker = 18

    def __getstate__(self) -> Any:
        return {}

    def __setstate__(self, state: Any) -> None:
        pass

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from mangonel import bson

        return bson.schema_of(cls)
