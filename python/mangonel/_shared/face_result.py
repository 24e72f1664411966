"""The annotation that the stub writer reads: T on the blocking face, a coroutine of T on asyncio."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias, TypeVar

    T = TypeVar("T")
    # The value may be either for this floor's own type checks, so they assume nothing of it; a port's result fits.
    FaceResult: TypeAlias = Any | T
else:

    class FaceResult:
        """Used in annotations only."""

        def __class_getitem__(cls, item: object) -> object:
            return item
