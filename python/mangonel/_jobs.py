"""Jobs: writes in many parts, by several processes, stored once. Records a job's parts, and whether it has ended.

`Collection.insert_arrow(once=...)` stores each part under the job's name and the part's number. The job has its own
document too, so that another run of it is noticed. Knows no engine and no table.
"""

from __future__ import annotations

import re
from typing import Any

from mangonel._shared.collection.arrow import MARKERS
from mangonel.errors import DuplicateKeyError, InvalidOperation
from mangonel.read_preferences import ReadPreference
from mangonel.write_concern import WriteConcern

__all__ = ["Job"]

_REMEDY = "give this one another name, or remove its rows and the documents of its name in mangonel_once"


class Job:
    """The document of a job in the collection of names.

    Args:
        collection: the collection for the job's rows, of the blocking face.
        name: the name of the job.
    """

    def __init__(self, collection: Any, name: str) -> None:
        self._target = collection.name
        self.name = name
        self._names = collection.database.get_collection(
            MARKERS, read_preference=ReadPreference.PRIMARY, write_concern=WriteConcern("majority")
        )

    @property
    def is_complete(self) -> bool:
        """Whether a run of the job has ended, so that all its rows are stored."""
        found = self._names.find_one({"_id": self.name, "is_complete": True}, {"_id": 1})
        return found is not None

    def begin(self, parts: int | None = None, *, is_numbered_anew: bool = False) -> bool:
        """Record that a run begins; return whether there is something to store.

        Args:
            parts: how many parts the job has. None: not known yet.
            is_numbered_anew: each run numbers its parts differently, so a later run cannot continue an earlier one.

        Raises:
            InvalidOperation: the name was used for another collection or for a single table; or an earlier run did not
                end, and this one would divide the rows differently. Nothing was stored.
        """
        made = {"_id": self.name, "collection": self._target, "parts": parts, "is_complete": False}
        try:
            self._names.insert_one(made)
        except DuplicateKeyError:
            found = self._names.find_one({"_id": self.name}) or made
        else:
            return True
        if (other := found.get("collection")) != self._target or "is_complete" not in found:
            kind = "a job" if "is_complete" in found else "a table"
            raise InvalidOperation(
                f"expected a new name for once=, got {self.name!r}, by which {kind} was stored in "
                f"{self._names.database.name}.{other}; nothing was stored, give this one another name"
            )
        if found["is_complete"]:
            return False
        earlier = found["parts"]
        if parts is not None and earlier is not None and parts != earlier:
            raise InvalidOperation(
                f"expected the {earlier} parts of the earlier run of {self.name!r}, which did not end, got {parts}; "
                f"nothing was stored: {_REMEDY}"
            )
        if is_numbered_anew:
            raise InvalidOperation(
                f"expected a job that has not begun, got {self.name!r}, whose earlier run did not end, and whose parts "
                f"now have other numbers; nothing was stored: {_REMEDY}"
            )
        return True

    def complete(self, parts: int) -> None:
        """Record that a run has stored all its parts, unless an earlier run is recorded.

        Args:
            parts: how many parts the run has, numbered from 0.

        Raises:
            InvalidOperation: an earlier run has stored a part beyond these, so some rows are stored twice.
        """
        if self.is_complete:
            # No task of this run has stored anything.
            return
        named = {"_id": {"$regex": f"^{re.escape(self.name)}/[0-9]+$"}}
        last = max(
            (int(each["_id"].rpartition("/")[2]) for each in self._names.find(named, {"_id": 1})), default=0
        )
        if last >= max(parts, 1):
            raise InvalidOperation(
                f"expected the parts of the earlier run of {self.name!r}, which did not end, at least {last + 1}, got "
                f"{parts}; rows may be stored twice: {_REMEDY}"
            )
        self._names.update_one(
            {"_id": self.name},
            {"$set": {"parts": parts, "is_complete": True}, "$setOnInsert": {"collection": self._target}},
            upsert=True,
        )
