"""Converts single stored values to their fields' types, for `values`, `distinct`, `min` and `max`."""

from __future__ import annotations

import collections
import datetime as dt
import types
from typing import Any, Union, get_origin

from mangonel import _core, bson
from mangonel.bson import ObjectId
from mangonel.odm.errors import ValidationError
from mangonel.odm.expressions.paths import Path
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.codec import codec_options
from mangonel.odm.model.refs import Refs

# Types that the driver and the mapper decode in the same way.
_SAME = (str, int, float, bool, bytes, dt.datetime, ObjectId, Any, object)


def load_all(field: Any, model: Any, values: list[Any], origin: Any = None) -> list[Any]:
    """Return stored values in the field's type; a value that does not fit stays as stored.

    References among them are siblings: fetching the document of one fetches the documents of all.

    Args:
        field: an attribute, or its name.
        model: the model of the attribute.
        values: the stored values.
        origin: the connection that they come from.
    """
    owner, found = target(field, model)
    if found is None or (found.type in _SAME and found.target is None):
        return values
    kind = get_origin(found.type) or found.type
    if found.is_list or kind is Refs:
        # Elements, as from `distinct`, are put into a list for the conversion.
        is_part = [value is not None and not isinstance(value, list) for value in values]
        stored = [[value] if part else value for value, part in zip(values, is_part, strict=True)]
        made = _load(owner, found, stored, origin)
        return [next(iter(value)) if part else value for value, part in zip(made, is_part, strict=True)]
    if kind not in _CONTAINERS and any(isinstance(value, list) for value in values):
        # The path leads through a list.
        rows = [value if isinstance(value, list) else [value] for value in values]
        parts = iter(_load(owner, found, [part for row in rows for part in row], origin))
        return [[next(parts) for _ in value] if isinstance(value, list) else next(parts) for value in values]
    return _load(owner, found, values, origin)


# The containers that a stored list may belong to.
_CONTAINERS = (list, tuple, set, frozenset, collections.deque, Union, types.UnionType)


def _load(owner: Any, found: Any, values: list[Any], origin: Any) -> list[Any]:
    options = codec_options(owner.__tz_aware__)
    index = list(owner.__plan__.fields).index(found.name)
    data = [bson.encode({found.key: value}, codec_options=options) for value in values if value is not None]
    try:
        made = iter(_core.odm_decode_all(owner.__model__, b"".join(data), False, [index], False, origin))
        return [None if value is None else held(next(made), found.name) for value in values]
    except (ValidationError, TypeError):
        # A value that cannot be hashed is no element of a set.
        if len(values) == 1:
            return values
        return [_load(owner, found, [value], origin)[0] for value in values]


def target(field: Any, model: Any) -> tuple[Any, Any]:
    """Return the model and the field at the end of a path, or None without a field."""
    if isinstance(field, Path):
        return (field._owner, None) if field._is_element else (field._owner, field._field())
    owner, found = model, None
    for part in str(field).split("."):
        owner = model if found is None else found.model
        if owner is None:
            return None, None
        found = owner.__plan__.fields.get(part) or owner.__plan__.by_key.get(part)
        if found is None:
            return None, None
    return owner, found
