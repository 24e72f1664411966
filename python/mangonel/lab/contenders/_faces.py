"""Verbs that are written once for both faces: coroutines that wait where there is something to wait for.

A blocking class carries its coroutines out when they are called, since nothing in them suspends. Meant for verbs that
take milliseconds; those that are timed by the microsecond are written for each face.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["AtOnce", "wait"]


async def wait(value: Any) -> Any:
    """Return what an event loop's driver promises, or what a blocking one has returned already."""
    return await value if hasattr(value, "__await__") else value


class AtOnce:
    """Makes every coroutine function of a class a plain one."""

    def __init_subclass__(cls) -> None:
        for name, verb in inspect.getmembers(cls, inspect.iscoroutinefunction):
            setattr(cls, name, _carried_out(verb))


def _carried_out(verb: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    def carry_out(*arguments: Any, **options: Any) -> Any:
        try:
            verb(*arguments, **options).send(None)
        except StopIteration as end:
            return end.value
        raise RuntimeError(f"{verb.__qualname__} waited on a blocking driver")

    return carry_out
