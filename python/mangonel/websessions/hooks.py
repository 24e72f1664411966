"""Calls the application's functions about a user's devices. Their failures do not undo what was stored."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

__all__ = ["call_hook"]

log = logging.getLogger("mangonel.websessions")

# A loop keeps only weak references to tasks.
_running: set[asyncio.Future[Any]] = set()


def call_hook(hook: Callable[[Any], Any] | None, value: Any) -> None:
    """Call a function; a coroutine function, for example one that sends a mail, runs concurrently with the response.

    An exception in it is only logged, since it must not fail the request.
    """
    if hook is None:
        return
    try:
        outcome = hook(value)
        if not inspect.iscoroutine(outcome):
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            outcome.close()
            log.error(
                "%r is a coroutine function, and this framework runs in threads: give a plain function", hook
            )
            return
        task = loop.create_task(_logged(outcome))
        _running.add(task)
        task.add_done_callback(_running.discard)
    except Exception:
        log.exception("the function %r failed", hook)


async def _logged(coroutine: Any) -> None:
    try:
        await coroutine
    except Exception:
        log.exception("a function about a user's devices failed")
