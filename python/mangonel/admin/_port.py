"""The two ways in which the pages wait: in the calling thread, or on an event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


class Port:
    """Calls in the calling thread: terminals of the mapper, and the program's own functions."""

    is_async = False

    async def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function and return its result.

        Args:
            function: a terminal of the mapper, as `query.all`, or a function of the program.
            arguments, options: its arguments.

        Raises:
            TypeError: it is a coroutine function, which only an event loop can run.
        """
        found = function(*arguments, **options)
        if inspect.iscoroutine(found):
            found.close()
            raise TypeError(f"expected a function for WSGI, got the coroutine function {function!r}")
        return found

    async def finish(self, started: Any) -> Any:
        """Return the result of one of the driver's methods for this way of waiting.

        Args:
            started: its result, or on an event loop a coroutine for that.
        """
        return started


class _Loop(Port):
    """Awaits the twins of terminals; the program's functions run in threads unless they are coroutine functions."""

    is_async = True

    async def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if getattr(function, "__is_terminal__", False):
            owner: Any = function.__self__  # type: ignore[attr-defined]
            return await getattr(owner, f"a{function.__name__}")(*arguments, **options)
        if inspect.iscoroutinefunction(function):
            return await function(*arguments, **options)
        found = await asyncio.to_thread(function, *arguments, **options)
        # For example from a lambda, or from an object whose `__call__` is a coroutine function.
        return await found if inspect.iscoroutine(found) else found

    async def finish(self, started: Any) -> Any:
        return await started if inspect.isawaitable(started) else started


BLOCKING, LOOP = Port(), _Loop()
