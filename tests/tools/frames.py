"""Frames of a traceback by where their code lies: the driver's, or the tests'.

Both are told by their folders' full paths, since a checkout may lie below a folder of any name.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import mangonel

__all__ = ["DRIVER", "TESTS", "frames_below", "frames_outside"]

DRIVER = Path(mangonel.__file__).parent
TESTS = Path(__file__).parent.parent


def frames_below(folder: Path, error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of an error's traceback that run code of a folder."""
    return (frame for frame, is_below in _frames(folder, error) if is_below)


def frames_outside(folder: Path, error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of an error's traceback that run code from elsewhere."""
    return (frame for frame, is_below in _frames(folder, error) if not is_below)


def _frames(folder: Path, error: BaseException) -> Iterator[tuple[FrameType, bool]]:
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield frame, frame.f_code.co_filename.startswith(f"{folder}{os.sep}")
