"""Merges the stored document into an instance with unsaved changes, after `reload` and `update`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from mangonel import _core
from mangonel.bson import encode
from mangonel.odm.errors import StaleDocument
from mangonel.odm.model.base import Base
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.codec import codec_options
from mangonel.odm.model.convert import UNCERTAIN
from mangonel.odm.model.fetched import key_of_id
from mangonel.odm.model.refs import Refs


class _Unclear(Exception):
    """It is unknown whether elements that were appended to a list are among those found."""


def take_over(document: Any, found: Any, keep_changes: bool = True, refuses: bool = False) -> None:
    """Give a document the found values, except in fields with unsaved changes.

    While it has any, an earlier save of unknown outcome stays in doubt: the found values may be older than that save,
    as in a transaction, or its commit may still arrive. So the next save requires the lists that were found.

    Args:
        document: the document.
        found: an instance with the stored values; afterwards it has those of `document`.
        keep_changes: False: unsaved changes are lost.
        refuses: raise if the changes of a list cannot be told from the found elements, and change nothing. False: they
            stay pending as they are, and the next save of them is refused.

    Raises:
        StaleDocument: they cannot be told apart, and `refuses` is True.
    """
    changes = _core.odm_changes(document) if keep_changes else {}
    is_uncertain = bool(changes and _core.odm_flags(document) & UNCERTAIN)
    kept = {name: (old, held(document, name)) for name, old in changes.items()}
    # Done first, so that an interrupt in between loses nothing.
    for name, (old, value) in kept.items():
        try:
            merged = _merged(old, value, held(found, name), is_uncertain)
        except _Unclear:
            if refuses:
                cls = document.__class__
                raise StaleDocument(
                    f"expected to know whether the elements appended to {cls.__name__}.{name} are stored, since the "
                    f"outcome of a save of {document.id!r} is unknown, got other elements that they may have been; "
                    "reload(), then make the changes again"
                ) from None
            _expect(found, name, old)
            merged = value
        setattr(found, name, merged)
    if is_uncertain and _core.odm_changes(found):
        _core.odm_settle(found, None)
    # A partly loaded document has a hidden class, with the same layout.
    _core.odm_take(document, found)


def _expect(document: Any, name: str, value: Any) -> None:
    """Make a document treat this value of a field as the stored one."""
    model = document.__class__.__model__
    stored = {document.__plan__.fields[name].key: _core.odm_dump(model, name, value)}
    _core.odm_note(document, encode(stored, codec_options=codec_options(False)))


def _merged(old: Any, value: Any, found: Any, is_uncertain: bool) -> Any:
    """Return an unsaved value merged with the found one: what was appended to a list is appended to the found list.

    Args:
        old: the stored value when it was changed.
        value: the program's value.
        found: the value stored now.
        is_uncertain: the value may have been stored already.

    Raises:
        _Unclear: elements cannot be told from those found.
    """
    if all(isinstance(one, (set, frozenset)) for one in (old, value, found)):
        return type(value)((found | (value - old)) - (old - value))
    if isinstance(value, Refs) and isinstance(found, Refs):
        # `old` holds the ids of the former references.
        return _merged_references(old or [], value, found)
    if type(old) is type(value) is type(found) is dict:
        return _merged_keys(old, value, found, is_uncertain)
    if type(old) is type(value) is type(found) and type(value) in (tuple, deque):
        merged = _merged_lists(list(old), list(value), list(found), is_uncertain)
        if merged is None:
            return value
        return tuple(merged) if isinstance(value, tuple) else deque(merged, value.maxlen)
    # A missing list counts as empty, since a save pushes to it.
    old = [] if old is None else old
    if isinstance(old, list) and isinstance(value, list) and isinstance(found, list):
        merged = _merged_lists(old, value, found, is_uncertain)
        return value if merged is None else merged
    return value


def _merged_keys(
    old: dict[str, Any], value: dict[str, Any], found: dict[str, Any], is_uncertain: bool
) -> dict[str, Any]:
    """Return a found dict with the keys that the program set, and without those that it removed."""
    kept = {key: one for key, one in found.items() if key in value or key not in old}
    for key, one in value.items():
        if key not in old or old[key] != one:
            kept[key] = _merged(old.get(key), one, found[key], is_uncertain) if key in found else one
    return kept


def _merged_references(old: list[Any], value: Refs[Any], found: Refs[Any]) -> Refs[Any]:
    """Return found references with those that the program added, and without those that it removed."""
    ids = [id for id in found.ids if id in value.ids or id not in old]
    ids += [id for id in value.ids if id not in old and id not in ids]
    # Keep documents that are not stored yet: a save with `cascade` stores them.
    return Refs([value._loaded.get(key_of_id(id), id) for id in ids], value._maker, found._siblings)


def _merged_lists(old: list[Any], value: list[Any], found: list[Any], is_uncertain: bool) -> list[Any] | None:
    """Return a found list with what the program appended; None: it did not only append."""
    if value[: len(old)] != old:
        return None
    added = value[len(old) :]
    return found + (_not_among(added, _without(found, old)) if is_uncertain else added)


def _without(found: list[Any], old: list[Any]) -> list[Any]:
    """Return the elements of a list without those of its former value, counting duplicates."""
    if found[: len(old)] == old:
        return found[len(old) :]
    rest = list(found)
    for item in old:
        if item in rest:
            rest.remove(item)
    return rest


def _not_among(added: list[Any], others: list[Any]) -> list[Any]:
    """Return the appended elements that are not among the others.

    Raises:
        _Unclear: one is a document or a list, and another element may be its earlier, stored form.
    """
    missing: list[Any] = []
    for item in added:
        if item in others:
            others.remove(item)
        else:
            missing.append(item)
    if others and any(isinstance(item, (Base, Mapping, list)) for item in missing):
        raise _Unclear
    return missing
