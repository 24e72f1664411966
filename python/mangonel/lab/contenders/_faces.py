"""What is written once for both faces: coroutines that wait where there is something to wait for.

On a blocking driver nothing in them suspends, so they are carried out at once. Meant for what takes milliseconds; what
is timed by the microsecond is written for each face.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any


def named(path: str) -> Any:
    """Return what a "module:name" stands for."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


async def wait(value: Any) -> Any:
    """Return what an event loop's driver promises, or what a blocking one has returned already."""
    return await value if hasattr(value, "__await__") else value


async def each(found: Any) -> AsyncIterator[Any]:
    """Yield what either face's iterator does."""
    if hasattr(found, "__aiter__"):
        async for one in found:
            yield one
    else:
        for one in found:
            yield one


def at_once(steps: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that has nothing to wait for; RuntimeError: it waited."""
    try:
        steps.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError(f"{steps} waited on a blocking driver")


def play(bench: Any, steps: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine on the face of a bench's contender."""
    return bench.run(steps) if bench.is_async else at_once(steps)


class AtOnce:
    """Makes every coroutine function of a class a plain one."""

    def __init_subclass__(cls) -> None:
        for name, verb in inspect.getmembers(cls, inspect.iscoroutinefunction):
            setattr(cls, name, _plain(verb))


def _plain(verb: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    return lambda *arguments, **options: at_once(verb(*arguments, **options))
