"""An ordered dict that compares its order too. For code written when dicts had no order.

A plain dict serves equally well everywhere in this package.
"""

from __future__ import annotations

from mangonel._light import TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _plain(value: Any) -> Any:
    """Return `value` with every SON and mapping in it, also those in lists, as a plain dict."""
    from mangonel._light import Mapping

    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


class SON(dict[_Key, _Value]):
    """An ordered dict: two SONs are equal if they have equal items in the same order.

    Args:
        data: a mapping, or pairs of key and value. None: empty.
        **kwargs: more items, after those of `data`.

    Example:
        >>> SON([("a", 1), ("b", 2)]) == SON([("b", 2), ("a", 1)])
        False
        >>> SON([("a", 1), ("b", 2)]) == {"b": 2, "a": 1}
        True
    """

    def __init__(
        self,
        data: Mapping[_Key, _Value] | Iterable[tuple[_Key, _Value]] | None = None,
        **kwargs: Any,
    ) -> None:
        # Most SONs are created empty: MongoEngine, for example, makes one for each document.
        if data is not None:
            self.update(data)
        if kwargs:
            self.update(kwargs)

    def __repr__(self) -> str:
        return f"SON({list(self.items())!r})"

    def update(self, other: Any | None = None, **kwargs: _Value) -> None:
        """Add the items of a mapping or of pairs, then the keyword arguments; None adds nothing.

        Args:
            other: a mapping, or pairs.
            kwargs: further items.

        Raises:
            TypeError, ValueError: `other` is neither a mapping nor pairs.

        Example:
            >>> son = SON([("a", 1)])
            >>> son.update({"b": 2}, c=3)
            >>> list(son)
            ['a', 'b', 'c']
        """
        if other is not None:
            try:
                super().update(other)
            except (TypeError, ValueError) as error:
                # Python raises ValueError for a wrong length, and so does PyMongo.
                raise type(error)(f"expected a mapping or pairs, got {other!r}") from None
        if kwargs:
            super().update(kwargs)  # type: ignore[arg-type]

    def copy(self) -> SON[_Key, _Value]:
        """Return a shallow copy."""
        other: SON[_Key, _Value] = SON()
        dict.update(other, self)
        return other

    def values(self) -> list[_Value]:  # type: ignore[override]
        """Return the values as a list."""
        return list(super().values())

    def popitem(self) -> tuple[_Key, _Value]:
        """Remove and return the *first* item.

        Raises:
            KeyError: the SON is empty.
        """
        for key in self:
            return key, self.pop(key)
        raise KeyError("popitem(): the SON is empty")

    def setdefault(self, key: _Key, default: _Value) -> _Value:
        """Return the value of `key`; a missing key is stored with `default` first.

        Example:
            >>> SON([("a", 1)]).setdefault("b", 2)
            2
        """
        return super().setdefault(key, default)

    def has_key(self, key: _Key) -> bool:
        """Deprecated: use `in`.

        Args:
            key: the key.

        Example:
            >>> SON([("a", 1)]).has_key("a")
            True
        """
        _warn("has_key", "the in operator")
        return key in self

    def iterkeys(self) -> Iterator[_Key]:
        """Deprecated: use `keys()`."""
        _warn("iterkeys", "keys()")
        return iter(self)

    def itervalues(self) -> Iterator[_Value]:
        """Deprecated: use `values()`."""
        _warn("itervalues", "values()")
        return iter(self.values())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SON):
            return list(self.items()) == list(other.items())
        return bool(self.to_dict() == other)

    __hash__ = None

    def __ne__(self, other: object) -> bool:
        return not self == other

    def to_dict(self) -> dict[_Key, _Value]:
        """Return a plain dict; nested mappings, also those in lists, become plain dicts too."""
        return {key: _plain(value) for key, value in self.items()}


def _warn(name: str, instead: str) -> None:
    import warnings

    warnings.warn(f"SON.{name}() is deprecated: use {instead}", DeprecationWarning, stacklevel=3)
