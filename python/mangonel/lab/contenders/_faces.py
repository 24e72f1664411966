"""Code for both faces: coroutines that suspend only on an asynchronous driver.

On a blocking driver they run to the end at once. For work that takes milliseconds; work timed in microseconds is
written for each face.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any


def named(path: str) -> Any:
    """Return the object of a "module:name"."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


async def wait(value: Any) -> Any:
    """Return the result of an awaitable, or the value itself."""
    return await value if hasattr(value, "__await__") else value


async def each(found: Any) -> AsyncIterator[Any]:
    """Yield the items of either face's iterator."""
    if hasattr(found, "__aiter__"):
        async for one in found:
            yield one
    else:
        for one in found:
            yield one


def at_once(steps: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that never suspends; RuntimeError if it does."""
    try:
        steps.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError(f"{steps} waited on a blocking driver")


def play(bench: Any, steps: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine, run on the face of a bench's contender."""
    return bench.run(steps) if bench.is_async else at_once(steps)


class AtOnce:
    """Turns every coroutine function of a class into a plain one."""

    def __init_subclass__(cls) -> None:
        for name, verb in inspect.getmembers(cls, inspect.iscoroutinefunction):
            setattr(cls, name, _plain(verb))


def _plain(verb: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    return lambda *arguments, **options: at_once(verb(*arguments, **options))
