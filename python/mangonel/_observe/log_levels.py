"""Notifies clients at once when the level of one of the driver's loggers changes; needs `logging` to be loaded.

A change to a parent logger, as by `logging.basicConfig`, is noticed at the next heartbeat. Holds no client.
"""

from __future__ import annotations

import logging
import weakref

from mangonel._observe import logger_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_watchers: weakref.WeakSet[Callable[[], None]] = weakref.WeakSet()


class WatchedLogger(logging.Logger):
    """A logger of the driver that notifies clients of its level."""

    def setLevel(self, level: int | str) -> None:  # noqa: N802
        """Set the level, and make every client look for listeners again."""
        super().setLevel(level)
        for look in tuple(_watchers):
            look()


def watch(look: Callable[[], None], components: Iterable[str]) -> None:
    """Call `look`, held weakly, whenever the level of one of the driver's loggers changes."""
    for name in (logger_names.root, *map(logger_names.logger_name, components)):
        logger = logging.getLogger(name)
        # Not a logger that the program made with its own class.
        if type(logger) is logging.Logger:
            logger.__class__ = WatchedLogger
    _watchers.add(look)
