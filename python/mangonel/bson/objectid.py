"""MongoDB's 12-byte document id; the class itself is native. Spec: bson-objectid."""

from __future__ import annotations

from mangonel._core import ObjectId
from mangonel.bson.errors import InvalidId

__all__ = ["InvalidId", "ObjectId"]
