"""The documents fetched for the references of one field, by id, and the reasons why others are missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_ABSENT = "leads to no document that lookup() finds: it does not exist, or is marked as deleted or left out"


class Fetched(dict[Any, Any]):
    """The documents fetched for the references of one field, by id; for a `Many`, lists of them by the parent's id.

    The documents of one batch share it.

    Attributes:
        absent: by id, why a reference leads to no document.
        is_included: whether `include()` or `lookup()` fetched them, so that `to_dict()` and responses show them.
        window: for a `Refs` with its own query: whether it is sorted, how many to skip, how many to return.
        is_whole: for a `Many`: whether no condition or window of the query left any out.
    """

    __slots__ = ("absent", "is_included", "is_whole", "window")

    def __init__(self, documents: Any = (), *, is_included: bool = False) -> None:
        super().__init__(documents)
        self.absent: dict[Any, str] = {}
        self.is_included = is_included
        self.window: tuple[bool, int, int | None] | None = None
        self.is_whole = True

    def joined(self, other: Fetched) -> Fetched:
        """Return both fetches as one.

        Args:
            other: the newer fetch, whose documents and reasons win.

        Example:
            >>> Fetched({1: "a"}).joined(Fetched({2: "b"}))
            {1: 'a', 2: 'b'}
        """
        made = Fetched({**self, **other}, is_included=self.is_included or other.is_included)
        made.absent = {key: why for key, why in {**self.absent, **other.absent}.items() if key not in made}
        made.window, made.is_whole = other.window, self.is_whole and other.is_whole
        return made

    def note_absent(self, wanted: Iterable[Any]) -> None:
        """Record the ids for which `lookup()` found no document.

        Args:
            wanted: the ids of references.

        Example:
            >>> fetched = Fetched({1: "a"})
            >>> fetched.note_absent([1, 2])
            >>> list(fetched.absent)
            [2]
        """
        for key in map(key_of_id, wanted):
            if key not in self:
                self.absent[key] = _ABSENT

    def chosen(self, ids: Iterable[Any]) -> list[Any]:
        """Return the documents for these references that the query of `related()` has selected.

        Args:
            ids: ids of one document's references, in order.

        Example:
            >>> Fetched({1: "a", 2: "b"}).chosen([2, 3])
            ['b']
        """
        is_sorted, skip, limit = self.window or (False, 0, None)
        wanted = [key for key in map(key_of_id, ids) if key in self]
        if is_sorted:
            place = {key: index for index, key in enumerate(self)}
            wanted.sort(key=place.__getitem__)
        return [self[key] for key in wanted][skip : None if limit is None else skip + limit]


def key_of_id(id: Any) -> Any:
    """Return an id as a dict key; for an id of several fields, which cannot be hashed, its text.

    Example:
        >>> key_of_id(3)
        3
    """
    try:
        hash(id)
    except TypeError:
        return repr(id)
    return id
