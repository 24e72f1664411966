"""Single values as their fields have them: what `values`, `distinct`, `min` and `max` hand out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from mangonel import _core, bson
from mangonel.bson import ObjectId
from mangonel.odm.errors import ValidationError
from mangonel.odm.expressions.paths import Path
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.codec import codec_options

# Types whose values the driver makes as the mapper does.
_SAME = (str, int, float, bool, bytes, dt.datetime, ObjectId, Any, object)


def loader(field: Any, model: Any) -> Callable[[Any], Any] | None:
    """Return what makes a stored value what the field says, or None where the driver's values are that already.

    References stay ids, and what does not fit its field stays as it is stored.
    """
    owner, found = target(field, model)
    if found is None or found.type in _SAME or found.target is not None:
        return None
    index = list(owner.__plan__.fields).index(found.name)
    options = codec_options(owner.__tz_aware__)

    def load(value: Any) -> Any:
        if value is None:
            return None
        # An element of a list, as `distinct` has them.
        is_element = found.is_list and not isinstance(value, list)
        try:
            data = bson.encode({found.key: [value] if is_element else value}, codec_options=options)
            made = held(_core.odm_decode_all(owner.__model__, data, False, [index])[0], found.name)
        except ValidationError:
            return value
        return next(iter(made)) if is_element else made

    return load


def target(field: Any, model: Any) -> tuple[Any, Any]:
    """The model and the field at the end of a path, or None for what no field has."""
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
