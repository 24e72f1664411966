"""Tells clients at once that one of the driver's loggers got another level; loaded only where `logging` is.

A level that is set above them, as by `logging.basicConfig`, is heard of at the next check of a server. Holds no client.
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
    """A logger of the driver, which tells the clients of its level."""

    def setLevel(self, level: int | str) -> None:  # noqa: N802
        """Set the level, and let every client look who listens now."""
        super().setLevel(level)
        for look in tuple(_watchers):
            look()


def watch(look: Callable[[], None], components: Iterable[str]) -> None:
    """Call `look`, which is held weakly, whenever one of the driver's loggers gets a level."""
    for name in (logger_names.root, *map(logger_names.logger_name, components)):
        logger = logging.getLogger(name)
        # Not one that the program made of a class of its own.
        if type(logger) is logging.Logger:
            logger.__class__ = WatchedLogger
    _watchers.add(look)
