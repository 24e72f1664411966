"""Frames of a traceback by the folder of their code, the driver's or the tests'; and the frames that a call enters.

Folders are compared by their full paths, since a checkout may lie below a folder of any name.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import mangonel

__all__ = ["DRIVER", "TESTS", "entered", "frames_below", "frames_outside"]

DRIVER = Path(mangonel.__file__).parent
TESTS = Path(__file__).parent.parent


def frames_below(folder: Path, error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of an error's traceback that run code of a folder."""
    return (frame for frame, is_below in _frames(folder, error) if is_below)


def frames_outside(folder: Path, error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of an error's traceback that run code from other folders."""
    return (frame for frame, is_below in _frames(folder, error) if not is_below)


def _frames(folder: Path, error: BaseException) -> Iterator[tuple[FrameType, bool]]:
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield frame, frame.f_code.co_filename.startswith(f"{folder}{os.sep}")


def entered(act: Callable[[], object], below: Path | None = None) -> list[str]:
    """Return the Python functions that a repeated call enters, except itself.

    A coroutine is entered each time it resumes. With `below`, only the code of that folder counts.
    """
    names: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and (below is None or code.co_filename.startswith(f"{below}{os.sep}")):
            names.append(code.co_qualname)

    act()
    act()
    before = sys.getprofile()
    # A collection would count finalizers of objects that other tests left.
    gc.disable()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
        gc.enable()
    return names[1:] if below is None else names
