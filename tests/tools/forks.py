"""Runs a function in a forked child."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["in_child"]


def in_child(work: Callable[[], Any]) -> Any:
    """Run `work` in a forked child and return its result; fail when the child fails."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            try:
                answer: Any = (True, work())
            except BaseException:
                answer = (False, traceback.format_exc())
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(answer, pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        succeeded, answer = pickle.load(pipe)
    os.waitpid(pid, 0)
    assert succeeded, answer
    return answer
