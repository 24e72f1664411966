"""How the rows of `codec.py` and `mapper.py` are played: where counting begins and where it ends.

It begins with a call of getppid and ends with one of getsid: names of the C library, which callgrind knows in every
build.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from typing import Any

TIMES = 20


def play(rows: Mapping[str, tuple[Callable[[Any], object], Any]]) -> None:
    """Call each row's function with its argument so many times; print the names of the rows and how often they ran."""
    # Whether the collector runs inside of a row depends on all that was allocated before.
    gc.disable()
    for name, (call, argument) in rows.items():
        # What is kept of keys and shapes is filled, and the interpreter has specialised the loop.
        for _ in range(TIMES):
            call(argument)
        os.getppid()
        for _ in range(TIMES):
            call(argument)
        os.getsid(0)
        print(name, TIMES)
