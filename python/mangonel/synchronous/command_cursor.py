"""The blocking cursors of commands, under the name of the module where PyMongo has them for this face."""

from __future__ import annotations

from mangonel.command_cursor import CommandCursor, RawBatchCommandCursor

__all__ = ["CommandCursor", "RawBatchCommandCursor"]
