"""An integer that is always written as a BSON int64. Spec: bson, type 0x12."""

from __future__ import annotations

from mangonel._core import plain_int_class
from mangonel.bson import schema_of

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

    __get_pydantic_core_schema__ = classmethod(schema_of)
