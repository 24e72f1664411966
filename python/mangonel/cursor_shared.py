"""Kinds of cursors, for the `cursor_type` argument of find.

Spec: crud (find options).
"""

from __future__ import annotations

__all__ = ["CursorType"]


class CursorType:
    """Values for `cursor_type`: what happens at the end of the data."""

    #: The cursor ends.
    NON_TAILABLE = 0
    #: On a capped collection: the cursor stays open at the end of the data, and a later read continues from there.
    TAILABLE = 2
    #: Like TAILABLE, but the server waits a few seconds for new data before it answers.
    TAILABLE_AWAIT = 34
    #: The server sends all batches after a single request. Not with mongos before 7.1, and not with a limit.
    EXHAUST = 64
