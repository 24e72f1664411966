"""The stored form of values in queries and updates."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

from mangonel import _core
from mangonel.bson import ObjectId
from mangonel.odm._registry import is_document, is_embedded_instance
from mangonel.odm.errors import ValidationError
from mangonel.odm.expressions.geo import Geometry


def dump(owner: Any, field: Any, value: Any, is_element: bool = False) -> Any:
    """Return the BSON form of a query operand.

    A value of the field's type takes its stored form; for a list, so does a value of its elements' type. Any other
    value stays unchanged, since the server may compare across types.
    """
    if value is None:
        return None
    if (
        isinstance(value, dt.datetime)
        and value.tzinfo is None
        and field.type is dt.datetime
        and owner.__tz_aware__
    ):
        raise ValidationError(
            f"expected a datetime with a time zone, as of datetime.now(UTC), to compare {field.key!r} with, got one "
            "without"
        )
    try:
        compared = _core.odm_compared(owner.__model__, field.name, value, is_element)
        if compared is not NotImplemented:
            return compared
    except (ValidationError, TypeError):
        # The program's own type raises these for a value that it cannot store.
        pass
    if is_document(value):
        if isinstance(field.target, type) and not isinstance(value, field.target):
            raise ValidationError(
                f"expected a {field.target.__name__} to compare {field.key!r} with, got {type(value).__name__}"
            )
        if getattr(field.type, "__is_any_ref__", False):
            return dump(owner, field, field.type(value), is_element)
        return value.id
    if getattr(type(value), "__is_ref__", False):
        wanted = owner if field.key == "_id" else field.target
        its = None if value._maker is None else value._maker.target
        if isinstance(wanted, type) and isinstance(its, type) and not issubclass(its, wanted):
            raise ValidationError(
                f"expected a {wanted.__name__} to compare {field.key!r} with, got a reference to {its.__name__}"
            )
        return value.id
    if is_embedded_instance(value):
        return value.to_bson()
    if isinstance(value, Geometry):
        return value.to_geojson()
    if isinstance(value, str) and field.type is not str and not field.is_list:
        return _from_text(field, value)
    return value


def checked(owner: Any, field: Any, value: Any, is_element: bool, key: str) -> Any:
    """Return the BSON form of a value that an update stores in a field.

    Raises:
        ValidationError: the value does not fit the field.
    """
    if isinstance(value, str) and field.type is not str and not field.is_list:
        value = _from_text(field, value)
    if is_document(value):
        if field.target is not None and not isinstance(value, field.target):
            raise ValidationError(
                f"expected a {field.target.__name__}, got {type(value).__name__} at $.{key}"
            )
        value = value.id
    if field.type is decimal.Decimal and type(value) is int:
        value = decimal.Decimal(value)
    if value is None and not is_element:
        if field.nullable or field.type in (Any, object):
            return None
        raise ValidationError(f"expected {type_name(field)}, got None at $.{key}")
    try:
        return _core.odm_dump(owner.__model__, field.name, value, is_element)
    except (ValidationError, TypeError) as error:
        fault = str(error).rpartition(" at $")[0] or str(error)
        raise ValidationError(f"{fault} at $.{key}") from None


def type_name(field: Any) -> str:
    """Return the name of a field's type for errors."""
    return getattr(field.type, "__name__", str(field.type))


def _from_text(field: Any, value: str) -> Any:
    """Convert an id given as text, as in URLs, for a field of ObjectIds or references."""
    if (field.type is ObjectId or field.target is not None) and ObjectId.is_valid(value):
        return ObjectId(value)
    return value


def field_named(name: str, model: Any) -> Any:
    """Return a field of a model or of its family, by attribute or by key."""
    found = model.__plan__.fields.get(name) or model.__plan__.by_key.get(name)
    if found is not None:
        return found
    for child in model.__tagged__():
        found = child.__plan__.fields.get(name) or child.__plan__.by_key.get(name)
        if found is not None:
            return found
    return None
