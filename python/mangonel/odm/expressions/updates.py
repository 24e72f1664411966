"""Update operators as functions of class attributes: `inc(User.age)`, `push(User.tags, "a")`."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import uuid
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar, overload

from mangonel._arguments import without_none
from mangonel.bson import ObjectId, Timestamp
from mangonel.odm.expressions.changes import Update, ValueOfAnotherType
from mangonel.odm.expressions.computed import Arithmetic
from mangonel.odm.expressions.conditions import elem
from mangonel.odm.expressions.expr import Where
from mangonel.odm.expressions.paths import path_of, update_of_path

T = TypeVar("T")

_Neither: TypeAlias = (
    bytes
    | dt.date
    | ObjectId
    | uuid.UUID
    | list[Any]
    | tuple[Any, ...]
    | set[Any]
    | dict[str, Any]
    | re.Pattern[str]
)
_Number: TypeAlias = float | decimal.Decimal
# Values that no text or number field accepts.
_NoNumber: TypeAlias = str | _Neither
_NoText: TypeAlias = _Number | _Neither


@overload
def set_(field: _Number | None, value: _NoNumber) -> ValueOfAnotherType: ...
@overload
def set_(field: str | None, value: _NoText) -> ValueOfAnotherType: ...
@overload
def set_(field: T, value: T | Arithmetic[T]) -> Update[Any]: ...
def set_(field: Any, value: Any) -> Any:
    """Set a field.

    Args:
        field: an attribute of the model, such as `User.name`.
        value: the new value: one of the field's type, another field as `F(User.name)`, or one that the server computes
            from fields, such as `F(Order.net) + F(Order.tax)`. The update is a pipeline then, in which every field has
            its value from before.

    Raises:
        ValidationError: the value does not fit the field, or a computed value may be None while the field may not.
        TypeError: the server cannot compute with these types.

    Example:
        >>> User.find(User.name == "Ada").update(set_(User.age, 37))
        1
        >>> User.find(User.name == "Ada").update(set_(User.age, F(User.age) * 2 + 1))
        1
    """
    return update_of_path(field, "set", value)


def unset(field: object) -> Update:
    """Remove a key.

    Args:
        field: an attribute of the model, such as `User.name`.

    Raises:
        ValidationError: the field must have a value, so a document without the key would not load.

    Example:
        >>> User.find(User.name == "Ada").update(unset(User.address))
        1
    """
    return update_of_path(field, "unset")


@overload
def set_on_insert(field: _Number | None, value: _NoNumber) -> ValueOfAnotherType: ...
@overload
def set_on_insert(field: str | None, value: _NoText) -> ValueOfAnotherType: ...
@overload
def set_on_insert(field: T, value: T) -> Update[Any]: ...
def set_on_insert(field: Any, value: Any) -> Any:
    """Set a field if an upsert inserts.

    Args:
        field: an attribute of the model, such as `User.name`.
        value: the new value.

    Example:
        >>> User.find(User.name == "Max").update(inc(User.age), set_on_insert(User.status, "new"), upsert=True)
        1
    """
    path = path_of(field)
    return Update("$setOnInsert", path._key, path._stored(value))


@overload
def inc(field: int | None, by: int = 1) -> Update: ...
@overload
def inc(field: float | None, by: float = 1) -> Update: ...
def inc(field: Any, by: Any = 1) -> Update:
    """Add to a number.

    Args:
        field: an attribute of the model, such as `User.name`.
        by: the number to add; negative to subtract.

    Example:
        >>> User.find(User.name == "Ada").update(inc(User.age))
        1
    """
    path = path_of(field)
    return Update("$inc", path._key, path._amount(by))


@overload
def mul(field: int | None, by: int) -> Update: ...
@overload
def mul(field: float | None, by: float) -> Update: ...
def mul(field: Any, by: Any) -> Update:
    """Multiply a number.

    Args:
        field: an attribute of the model, such as `User.name`.
        by: the factor.

    Example:
        >>> User.find(User.name == "Ada").update(mul(User.age, 2))
        1
    """
    path = path_of(field)
    return Update("$mul", path._key, path._amount(by))


@overload
def min_(field: _Number | None, value: _NoNumber) -> ValueOfAnotherType: ...
@overload
def min_(field: str | None, value: _NoText) -> ValueOfAnotherType: ...
@overload
def min_(field: T, value: T) -> Update[Any]: ...
def min_(field: Any, value: Any) -> Any:
    """Set a field to `value` if that is smaller.

    Args:
        field: an attribute of the model, such as `User.name`.
        value: the new value if the field is larger.

    Example:
        >>> User.find(User.name == "Ada").update(min_(User.age, 30))
        1
    """
    path = path_of(field)
    return Update("$min", path._key, path._stored(value))


@overload
def max_(field: _Number | None, value: _NoNumber) -> ValueOfAnotherType: ...
@overload
def max_(field: str | None, value: _NoText) -> ValueOfAnotherType: ...
@overload
def max_(field: T, value: T) -> Update[Any]: ...
def max_(field: Any, value: Any) -> Any:
    """Set a field to `value` if that is larger.

    Args:
        field: an attribute of the model, such as `User.name`.
        value: the new value if the field is smaller.

    Example:
        >>> User.find(User.name == "Ada").update(max_(User.age, 40))
        1
    """
    path = path_of(field)
    return Update("$max", path._key, path._stored(value))


def bit(
    field: int | None, *, and_: int | None = None, or_: int | None = None, xor: int | None = None
) -> Update:
    """Change bits of an integer.

    Args:
        field: an attribute of the model, such as `User.name`.
        and_: the mask for a bitwise and.
        or_: the mask for a bitwise or.
        xor: the mask for a bitwise exclusive or.

    Example:
        >>> bit(User.age, and_=0b1111)
        Update('$bit', 'age', {'and': 15})
    """
    given = {"and": and_, "or": or_, "xor": xor}
    return Update("$bit", path_of(field)._key, without_none(given))


def rename(field: object, to: object) -> Update:
    """Rename a key.

    Args:
        field: an attribute of the model, such as `User.name`.
        to: the new key, or an attribute.

    Raises:
        ValidationError: the field must have a value, so a document without the key would not load.

    Example:
        >>> User.find().update(rename(User.status, "state"))
        2
    """
    path = path_of(field)
    path._check_removable("rename")
    return Update("$rename", path._key, to if isinstance(to, str) else path_of(to)._key)


def current_date(field: object, kind: str = "date") -> Update:
    """Set a field to the server's current time: "date" or "timestamp".

    Args:
        field: an attribute of the model, such as `User.name`.
        kind: "date" or "timestamp".

    Raises:
        ValidationError: the field's type is neither, so the document would not load.

    Example:
        >>> class Visit(Document):
        ...     seen: datetime.datetime | None = None
        >>> Visit().save() and Visit.find().update(current_date(Visit.seen))
        1
    """
    path = path_of(field)
    # Checked like a value that is set; a date field takes the day of the time.
    now = dt.datetime.now(dt.UTC)
    day = now.date() if path._field().type is dt.date else now
    path._stored(Timestamp(0, 1) if kind == "timestamp" else day)
    return Update("$currentDate", path._key, {"$type": kind})


def push(
    field: list[T] | None,
    *values: T,
    position: int | None = None,
    slice: int | None = None,
    sort: Any = None,
) -> Update:
    """Append to a list.

    Args:
        field: a list field of the model.
        values: the new elements.
        position: index to insert at. None: the end.
        slice: keep this many elements of the list, the last ones if negative.
        sort: sort the whole list: 1, -1, or a document of keys.

    Example:
        >>> User.find(User.name == "Ada").update(push(User.tags, "new", slice=-10))
        1
        >>> User.get(user.id).tags
        ['admin', 'new']
    """
    path = path_of(field)
    items = [path._stored(value, True) for value in values]
    if len(items) == 1 and position is None and slice is None and sort is None:
        return Update("$push", path._key, items[0])
    change = {"$each": items, "$position": position, "$slice": slice, "$sort": sort}
    return Update("$push", path._key, without_none(change))


def add_to_set(field: list[T] | set[T] | frozenset[T] | None, *values: T) -> Update:
    """Append values to a list unless it has them already.

    Args:
        field: an attribute of the model, such as `User.name`.
        values: the elements.

    Example:
        >>> User.find(User.name == "Ada").update(add_to_set(User.tags, "admin", "owner"))
        1
    """
    path = path_of(field)
    items = [path._stored(value, True) for value in values]
    return Update("$addToSet", path._key, items[0] if len(items) == 1 else {"$each": items})


def pull(field: list[T] | set[T] | frozenset[T] | None, *values: T) -> Update:
    """Remove every element of a list that equals one of these values.

    Args:
        field: an attribute of the model, such as `User.tags`.
        values: the elements. An embedded document equals a stored one with the same values in its fields; the order of
            keys, and keys that the model does not know, are ignored.

    Example:
        >>> User.find(User.name == "Ada").update(pull(User.tags, "admin"))
        1
    """
    path = path_of(field)
    stored = [path._dump(value, True) for value in values]
    if not any(isinstance(value, dict) for value in stored):
        return Update("$pullAll", path._key, stored)
    conditions = [
        _fields_of(item, value) if isinstance(item, dict) else {"$eq": item}
        for item, value in zip(stored, values, strict=True)
    ]
    return Update("$pull", path._key, conditions[0] if len(conditions) == 1 else {"$or": conditions})


def _fields_of(stored: dict[str, Any], value: Any) -> dict[str, Any]:
    """Return the condition that an element has these values, in any order of keys."""
    found: dict[str, Any] = {}
    left = [("", stored)]
    for prefix, document in left:
        for key, item in document.items():
            if isinstance(item, dict) and item and not any("." in name or name[:1] == "$" for name in item):
                left.append((f"{prefix}{key}.", item))
            else:
                found[prefix + key] = {"$eq": item}
    plan = getattr(type(value), "__plan__", None)
    # A field that an embedded document does not store is null or missing in its equals.
    return found | {
        key: {"$eq": None} for key in (plan.by_key if plan is not None else ()) if key not in stored
    }


def pull_where(field: Iterable[T] | None, condition: Callable[[T], Where]) -> Update:
    """Remove the elements of a list that meet a condition, written as for `elem`.

    Args:
        field: an attribute of the model, such as `User.name`.
        condition: a function from an element to a condition.

    Example:
        >>> Post.find().update(pull_where(Post.comments, lambda comment: comment.likes < 5))
        1
    """
    query = elem(field, condition).query
    return Update("$pull", path_of(field)._key, next(iter(query.values()))["$elemMatch"])


def pop(field: Iterable[Any] | None, *, first: bool = False) -> Update:
    """Remove the last element of a list, or the first.

    Args:
        field: an attribute of the model, such as `User.name`.
        first: True: the first element.

    Example:
        >>> User.find(User.name == "Ada").update(pop(User.tags))
        1
    """
    return Update("$pop", path_of(field)._key, -1 if first else 1)
