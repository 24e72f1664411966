"""Kills the server cursors of dropped cursor objects, behind the user's back."""

from __future__ import annotations

from mangonel import _core
from mangonel._faces.background import Background


class Housekeeper:
    """Tidies up after one client."""

    def __init__(self, core: _core.Core) -> None:
        self._background = Background(core)

    def abandon_cursor(self, server: str, database: str, collection: str, id: int) -> None:
        """Leave a note that the cursor `id`, which `server` has open, has lost its owner. Safe in a finalizer."""
        self._background.run_later(lambda: _kill_cursor(server, database, collection, id))

    def retire(self) -> None:
        """Take no more notes: in a forked child, where the cursors of that time are the parent's."""
        self._background.retire()


def _kill_cursor(server: str, database: str, collection: str, id: int) -> _core.Operation:
    from mangonel.bson.codec_options import DEFAULT_CODEC_OPTIONS

    # An error leaves the cursor to the server's own time-out.
    return _core.Operation(
        database,
        {"killCursors": collection, "cursors": [id]},
        _core.Codec(DEFAULT_CODEC_OPTIONS),
        _core.KIND_WRITE,
        _core.READ_UNCHECKED,
        server=server,
    )
