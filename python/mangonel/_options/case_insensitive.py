"""A dict whose keys ignore case, for option names. Knows no option."""

from __future__ import annotations

from mangonel._light import Mapping, MutableMapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class CaseInsensitiveDict(MutableMapping[str, "Any"]):
    """A dict that finds `maxPoolSize` under `MAXPOOLSIZE` too, and keeps the user's spelling.

    Iteration returns names in lower case; `cased_key` returns the user's spelling, and `repr` shows it.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any] | None = None) -> None:
        # Lower-case name -> (spelling, value).
        self._items: dict[str, tuple[str, Any]] = {}
        if isinstance(items, CaseInsensitiveDict):
            self._items.update(items._items)
        elif items:
            for name, value in items.items():
                self[name] = value

    def __getitem__(self, name: str) -> Any:
        return self._items[name.lower()][1]

    def __setitem__(self, name: str, value: Any) -> None:
        self._items[name.lower()] = (name, value)

    def __delitem__(self, name: str) -> None:
        del self._items[name.lower()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(dict(self._items.values()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        if not isinstance(other, CaseInsensitiveDict):
            other = CaseInsensitiveDict(other)
        return {name: self[name] for name in self} == {name: other[name] for name in other}

    __hash__ = None  # type: ignore[assignment]

    def cased_key(self, name: str) -> str:
        """Return the user's spelling of a name."""
        return self._items[name.lower()][0]

    def absorb(self, other: CaseInsensitiveDict) -> None:
        """Add all items of `other` with their spelling; they replace existing ones."""
        self._items.update(other._items)
