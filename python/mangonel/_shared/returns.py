"""The annotation that the stub writer reads: T on the blocking face, a coroutine of T on asyncio."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias, TypeVar

    T = TypeVar("T")
    # To this floor's own checks the value may be either, so nothing is assumed of it; a port's answer fits as it is.
    Returns: TypeAlias = Any | T
else:

    class Returns:
        """Stands in annotations only."""

        def __class_getitem__(cls, item: object) -> object:
            return item
