"""Interrupt this process as a terminal does, and interrupt a call at each place where a signal handler may run."""

from __future__ import annotations

import _thread
import dis
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

# The interpreter runs a signal handler after a call into C, at a loop's end and at a function's start.
_CHECKED = {
    number
    for name, number in dis.opmap.items()
    if name.startswith(("CALL", "RESUME", "JUMP_BACKWARD")) and "NO_INTERRUPT" not in name
}


def press_ctrl_c() -> None:
    """Interrupt the main thread, from any thread."""
    if sys.platform == "win32":
        # On Windows `os.kill` would end the process.
        _thread.interrupt_main()
    else:
        os.kill(os.getpid(), signal.SIGINT)


def interrupt(act: Callable[[], Any], at: int, folders: tuple[str, ...]) -> bool:
    """Run `act`, interrupted at one of the places where a signal handler may run; return whether that place exists.

    Args:
        act: what is run.
        at: the number of the place, from one.
        folders: the places are those in the Python code of these folders, without finalizers, where Python drops the
            exception.
    """
    try:
        places(act, folders, at)
    except KeyboardInterrupt:
        return True
    return False


def places(act: Callable[[], Any], folders: tuple[str, ...], at: int = 0, in_finalizers: bool = False) -> int:
    """Run `act`, as `interrupt` does; return how many such places it passed. Raise KeyboardInterrupt at place `at`.

    `in_finalizers`: the places are only those in finalizers; an exception there ends nothing but the finalizer.
    """
    passed = 0
    last: tuple[FrameType, int] | None = None

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal passed, last
        if not frame.f_code.co_filename.startswith(folders) or _is_finalizing(frame) is not in_finalizers:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before, last = last, (frame, frame.f_code.co_code[frame.f_lasti])
            if before is not None and before[0] is frame and before[1] in _CHECKED:
                passed += 1
                if passed == at:
                    raise KeyboardInterrupt
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(former)
        # The exception would keep the frame and its objects alive.
        last = None
    return passed


def _is_finalizing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None
