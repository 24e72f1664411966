"""Interrupting this process as a terminal does."""

from __future__ import annotations

import _thread
import os
import signal
import sys


def press_ctrl_c() -> None:
    """Have the main thread interrupted, from any thread."""
    if sys.platform == "win32":
        # `os.kill` would end the process there.
        _thread.interrupt_main()
    else:
        os.kill(os.getpid(), signal.SIGINT)
