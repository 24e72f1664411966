"""The annotation that the stub writer reads: T on the blocking face, a coroutine of T on asyncio."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias, TypeVar

    T = TypeVar("T")
    # Here the value may be either, so type checks of this floor assume nothing; any port's result fits.
    FaceResult: TypeAlias = Any | T
else:

    class FaceResult:
        """Used only in annotations."""

        def __class_getitem__(cls, item: object) -> object:
            return item
