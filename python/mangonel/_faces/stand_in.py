"""The port of databases and collections of an in-memory client: it runs flows, and has no server to send to."""

from __future__ import annotations

from mangonel._core import run_now
from mangonel.errors import InvalidOperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any


class StandInPort:
    """The port of an in-memory client's databases and collections, which override all methods that would send."""

    is_async = False
    is_encrypting = False
    timeout = None
    limit = None
    distance = 0.0

    def flow(self, steps: Coroutine[Any, Any, Any]) -> Any:
        """Run a flow to its end."""
        return run_now(steps)

    async def call(self, callback: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a blocking function."""
        return callback(*args, **options)

    def __getattr__(self, name: str) -> Any:
        raise InvalidOperation(
            f"expected a client of this driver for {name!r}, got a stand-in that only has the name of one"
        )
