"""Normalises the forms in which users may write index keys and hints. Knows no command."""

from __future__ import annotations

from mangonel._light import ItemsView, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mangonel.typings import _IndexKeyHint, _IndexList

_ASCENDING = 1


def index_list(key_or_list: _IndexKeyHint, direction: int | str | None = None) -> Sequence[Any]:
    """Return (key, direction) pairs for a key, a list of keys, a list of pairs or a mapping.

    Raises:
        TypeError: a direction beside several keys, or `key_or_list` is not a list of keys.
    """
    if direction is not None:
        if not isinstance(key_or_list, str):
            raise TypeError(f"expected one key as str beside a direction, got {type(key_or_list).__name__}")
        return [(key_or_list, direction)]
    if isinstance(key_or_list, str):
        return [(key_or_list, _ASCENDING)]
    if isinstance(key_or_list, Mapping):
        return list(key_or_list.items())
    if isinstance(key_or_list, ItemsView):
        return list(key_or_list)
    if not isinstance(key_or_list, (list, tuple)):
        raise TypeError(
            f"if no direction is specified, key_or_list must be an instance of list, not {type(key_or_list)}"
        )
    return [(item, _ASCENDING) if isinstance(item, str) else item for item in key_or_list]


def bounds(spec: Any) -> dict[str, Any]:
    """Return the document for `min` or `max`: the keys of an index with their bounds.

    Raises:
        TypeError, ValueError: `spec` is not a list of pairs.
    """
    if not isinstance(spec, (list, tuple, Mapping)):
        raise TypeError(f"expected a list of (key, value) pairs, got {type(spec)}")
    try:
        return dict(spec)
    except (TypeError, ValueError) as error:
        # Python raises ValueError for a wrong length, and so does PyMongo.
        raise type(error)(f"expected a list of (key, value) pairs, got {spec!r}") from None


def index_document(keys: _IndexList) -> dict[str, Any]:
    """Return the document `{key: direction}` for pairs, keys or a mapping.

    Raises:
        TypeError: `keys` is not a list of keys, or a key or a direction has the wrong type.
        ValueError: there is no key.
    """
    pairs: Any
    if isinstance(keys, (list, tuple)):
        pairs = keys
    elif isinstance(keys, Mapping):
        pairs = keys.items()
    else:
        raise TypeError(f"must use a dictionary or a list of (key, direction) pairs, not: {keys!r}")
    if not keys:
        raise ValueError("key_or_list must not be empty")
    document: dict[str, Any] = {}
    for pair in pairs:
        try:
            key, direction = (pair, _ASCENDING) if isinstance(pair, str) else pair
        except (TypeError, ValueError) as error:
            raise _no_pair(pair, error) from None
        if not isinstance(key, str):
            raise TypeError(f"expected each key as str, got {type(key).__name__}")
        # Almost all directions are numbers, so this fast check comes before the slow one of Mapping.
        if not isinstance(direction, (str, int)) and not isinstance(direction, Mapping):
            raise TypeError(
                f"expected 1, -1, '2d' or another index specifier for {key!r}, got {type(direction).__name__}"
            )
        document[key] = direction
    return document


def index_name(keys: Sequence[Any]) -> str:
    """Return the name that MongoDB drivers give an index: `a_1_b_-1`."""
    try:
        return "_".join(f"{key}_{direction}" for key, direction in keys)
    except (TypeError, ValueError) as error:
        raise _no_pair(keys, error) from None


def _no_pair(found: Any, error: Exception) -> Exception:
    # Python raises ValueError for a wrong length, and so does PyMongo.
    return type(error)(f"expected each key as str or as a (key, direction) pair, got {found!r}")


def hint_document(hint: _IndexKeyHint | None) -> str | dict[str, Any] | None:
    """Return a hint in the form of commands: an index name or a document."""
    return hint if hint is None or isinstance(hint, str) else index_document(hint)
