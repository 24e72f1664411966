"""Index directions, and the choice of the document that find_one_and_* returns; exported by `mangonel` itself."""

from __future__ import annotations

__all__ = [
    "ASCENDING",
    "DESCENDING",
    "GEO2D",
    "GEOSPHERE",
    "HASHED",
    "TEXT",
    "ReturnDocument",
]

ASCENDING = 1
DESCENDING = -1
#: Index for plane geometry.
GEO2D = "2d"
#: Index for geometry on a sphere.
GEOSPHERE = "2dsphere"
#: Index over hashes, for shard keys.
HASHED = "hashed"
#: Index over words.
TEXT = "text"


class ReturnDocument:
    """Values for `return_document` of find_one_and_replace and find_one_and_update."""

    #: The document before the change, or None if it was inserted.
    BEFORE = False
    #: The document after the change.
    AFTER = True
