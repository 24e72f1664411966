"""The identity map: in a context that asks for it, one stored document is one object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakValueDictionary

from mangonel import _core
from mangonel.odm.connections.touched import is_held, touch
from mangonel.odm.model.convert import PARTIAL, SAVING

_current: ContextVar[IdentityMap | None] = ContextVar("mangonel_odm_identity", default=None)


class IdentityMap:
    """The documents of a context by database, collection and id, as long as the program refers to them."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[Any, str, str], Any] = WeakValueDictionary()

    def take(self, document: Any) -> Any:
        """Return the instance for a document that was just loaded.

        A known instance takes over the loaded values. It keeps its own values if it has changes, if a save of it is
        under way, if another transaction has saved it and has not ended, or if its version is a later one.
        """
        if _core.odm_flags(document) & PARTIAL:
            return document
        # One tenant's document must not be taken for another's.
        key = (_core.odm_origin(document), document.__collection_name__(), repr(document.id))
        known = self._known.get(key)
        if known is None or type(known) is not type(document):
            self._known[key] = document
            return document
        is_under_way = _core.odm_flags(known) & SAVING or is_held(known)
        if not (is_under_way or _core.odm_changes(known) or _is_later(known, document)):
            # The values loaded in a transaction are reverted with the transaction.
            touch(known)
            _core.odm_take(known, document)
        return known

    def __len__(self) -> int:
        return len(self._known)


def _is_later(known: Any, loaded: Any) -> bool:
    """Whether an instance has a later version than a loaded one: it was saved while the other was being read."""
    one, other = _core.odm_version(known), _core.odm_version(loaded)
    return one is not None and other is not None and bool(one[1] > other[1])


@contextmanager
def identity_map() -> Iterator[IdentityMap]:
    """Load each stored document as one object: loading it again inside the block returns the same instance.

    An instance without unsaved changes then gets the loaded values. A query that was sent before another task or the
    loop's body saved the instance may load older ones; only a model with a `Version` recognises them.

    Example:
        >>> with identity_map():
        ...     assert User.get(user.id) is User.get(user.id)
    """
    made = IdentityMap()
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)


@contextmanager
def outside() -> Iterator[None]:
    """Load separate objects in a block, so that their values can be copied into known ones."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


# Returns this context's identity map, or None.
current_map = _current.get
