"""How the rows of `codec.py`, `mapper.py` and `everyday.py` are played: where counting begins and where it ends.

Counting starts at a call of getppid and stops at one of getsid: C library functions that callgrind knows in every
build.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

TIMES = 20


def play(rows: Mapping[str, tuple[Callable[[Any], object], Any]]) -> None:
    """Call each row's function repeatedly with its argument; print the names of the rows and the numbers of calls."""
    # Whether the garbage collector runs inside a row depends on all earlier allocations.
    gc.disable()
    for name, (call, argument) in rows.items():
        # Now the caches of keys and shapes are full, and the interpreter has specialised the loop.
        for _ in range(TIMES):
            call(argument)
        os.getppid()
        for _ in range(TIMES):
            call(argument)
        os.getsid(0)
        print(name, TIMES)


async def play_on_loop(rows: Mapping[str, Callable[[], Awaitable[object]]]) -> None:
    """Do the same as `play` with functions whose results the running task awaits."""
    gc.disable()
    for name, call in rows.items():
        for _ in range(TIMES):
            await call()
        os.getppid()
        for _ in range(TIMES):
            await call()
        os.getsid(0)
        print(name, TIMES)
