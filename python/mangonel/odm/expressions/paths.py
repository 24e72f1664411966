"""Fields as class attributes return them: paths that are compared, computed with and changed.

Knows models only by their names and fields; sends nothing.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from mangonel import _core
from mangonel.bson import Decimal128
from mangonel.odm._registry import is_document_class
from mangonel.odm.errors import ValidationError
from mangonel.odm.expressions.changes import Computing, Update
from mangonel.odm.expressions.computed import Arithmetic, Computed, fitted, operand
from mangonel.odm.expressions.expr import Expr, Operand
from mangonel.odm.expressions.matching import Matching, _named
from mangonel.odm.expressions.orders import Order
from mangonel.odm.expressions.values import checked, dump, field_named, type_name

T = TypeVar("T")


def condition_of(field: Any, name: str, *args: Any, **kwargs: Any) -> Expr:
    """Return the result of a method of a field's path, even if its embedded document has a field of that name."""
    path = path_of(field)
    return getattr(type(path), name).__get__(path)(*args, **kwargs)


def made_again(kind: Any, arguments: tuple[Any, ...], owner: Any, keys: Any, is_element: bool) -> Any:
    """Rebuild a pickled path."""
    made = kind(*arguments)
    made._owner, made._keys, made._is_element = owner, keys, is_element
    return made


def update_of_path(field: Any, name: str, *args: Any) -> Update:
    """Return the update from a method of a field's path, even if an embedded field hides the method."""
    path = path_of(field)
    return getattr(type(path), name).__get__(path)(*args)


class Path(_core.OdmPath, Matching[T], Arithmetic[T], Operand):
    """A field of a model class. Comparing it makes a condition; its attributes are fields of embedded documents.

    Arithmetic with it makes a `Computed`, a value for `set_`. The core compares.
    """

    # Continues a path behind a reference; `through` sets it.
    _hop: ClassVar[Callable[[Any, Any, str], Any]]

    __slots__ = (
        "_is_element",
        "_join",
        "_keys",
        "_model",
        "_name",
        "_owner",
        "_resolved",
        "_text",
    )

    def __init__(self, model: Any, name: str) -> None:
        # `_owner` has the last field; the path begins at `_model`.
        self._model = model
        self._owner = model
        self._name = name
        self._keys: tuple[str, ...] | None = None
        self._resolved: Any = None
        self._is_element = False
        self._text: str | None = None
        # Cached by `lookup()`.
        self._join: Any = None

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> Any:
        return made_again, (type(self), self._arguments(), self._owner, self._keys, self._is_element)

    def _arguments(self) -> tuple[Any, ...]:
        return self._model, self._name

    def _field(self) -> Any:
        if self._resolved is None:
            self._resolved = self._owner.__plan__.fields[self._name]
            if self._keys is None:
                self._keys = (self._resolved.key,)
        return self._resolved

    @property
    def _key(self) -> str:
        text = self._text
        if text is None:
            self._field()
            text = self._text = ".".join(self._keys or ())
        return text

    @_named  # type: ignore[prop-decorator]  # to type checkers it does nothing
    @property
    def key(self) -> str:
        """The path in the database."""
        return self._key

    def _within(self, owner: Any, name: str, keys: tuple[str, ...]) -> Path[Any]:
        made: Path[Any] = Path(self._model, name)
        made._owner = owner
        made._keys = keys
        return made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._inner(name)

    def _inner(self, name: str) -> Path[Any]:
        """Return a field of the embedded document."""
        field = self._field()
        if field.model is not None:
            fields = field.model.__plan__.fields
            if name in fields:
                return self._within(field.model, name, (*(self._keys or ()), fields[name].key))
            for child in field.model.__subclasses__():
                if name in child.__plan__.fields:
                    return self._within(child, name, (*(self._keys or ()), child.__plan__.fields[name].key))
            raise AttributeError(
                f"{field.model.__name__} has no field {name!r}; it has {', '.join(fields) or 'none'}"
            )
        if field.target is not None and is_document_class(field.target):
            return Path._hop(self, field.target, name)
        raise AttributeError(
            f"{self._owner.__name__}.{self._name} has no {name!r}: it is no embedded document"
        )

    def __getitem__(self, part: Any) -> Any:
        """Return an element by its index, or the value of a key."""
        self._field()
        if "." in (text := str(part)):
            raise ValueError(f"expected a key without a dot, which begins another key, got {part!r}")
        made = self._within(self._owner, self._name, (*(self._keys or ()), text))
        made._is_element = True
        return made

    def _dump(self, value: Any, is_element: bool | None = None) -> Any:
        """Return the value as stored in the database."""
        if isinstance(value, (Arithmetic, Expr)):
            raise TypeError(
                f"expected a value to compare {self._key!r} with, got {type(value).__name__}; use expr()"
            )
        return dump(self._owner, self._field(), value, self._is_element if is_element is None else is_element)

    def _condition(self) -> dict[str, Any]:
        return {self._key: True}

    def _stored(self, value: Any, is_element: bool | None = None) -> Any:
        """Return the value as an update stores it: of the field's type, or an error."""
        if isinstance(value, (Arithmetic, Expr)):
            raise TypeError(f"expected a value to store in {self._key!r}, got {type(value).__name__}")
        return checked(
            self._owner,
            self._field(),
            value,
            self._is_element if is_element is None else is_element,
            self._key,
        )

    def _computed(self) -> Computed[T]:
        """Return the field as an expression of the server: a missing value is the field's default.

        Raises:
            TypeError: it is in an element of a list.
        """
        field, (may_be_none, may_be_missing) = self._field(), self._check_way()
        info = field.info
        text: Any = f"${self._key}"
        if may_be_none or field.nullable or info.default_factory is not None:
            return Computed(text, field.type, True)
        if field.is_required:
            return Computed(text, field.type, may_be_missing)
        return Computed({"$ifNull": [text, self._stored(info.default)]}, field.type)

    def _check_way(self) -> tuple[bool, bool]:
        """Return whether an embedded document on the path may be None, and whether one may be missing.

        Raises:
            TypeError: there is a list on the way, so the path leads to several values, or to an element.
        """
        self._field()
        if self._is_element:
            raise TypeError(f"cannot compute with an element: {self!r}; expected a field")
        current, may_be_none, may_be_missing = self._model, False, False
        for key in (self._keys or ())[:-1]:
            field = field_named(key, current)
            if field is None or field.model is None or field.is_list:
                raise TypeError(
                    f"cannot compute with a part of {key!r}: {self!r}; expected a field of one value"
                )
            may_be_none = may_be_none or field.nullable
            may_be_missing = may_be_missing or not field.is_required
            current = field.model
        return may_be_none, may_be_missing

    def _amount(self, by: Any) -> Any:
        """Convert the operand of `inc` or `mul`: it has the number's type, but not its bounds."""
        field = self._field()
        if self._is_element or field.type not in (int, float, decimal.Decimal):
            return self._stored(by)
        if type(by) is int and field.type is not int:
            by = field.type(by)
        if not isinstance(by, field.type) or isinstance(by, bool):
            raise ValidationError(f"expected {type_name(field)}, got {type(by).__name__} at $.{self._key}")
        return Decimal128(by) if isinstance(by, decimal.Decimal) else by

    def _check_removable(self, verb: str) -> None:
        """Raise ValidationError if a document without the key would not load."""
        field = self._field()
        if self._is_element:
            # The server leaves null in its place.
            checked(self._owner, field, None, True, self._key)
        elif field.is_required:
            raise ValidationError(
                f"cannot {verb} {self._key!r}: expected a value in every {self._owner.__name__}, since the field is "
                "not optional and has no default"
            )

    if TYPE_CHECKING:

        def __lt__(self, value: T) -> Any: ...
        def __le__(self, value: T) -> Any: ...
        def __gt__(self, value: T) -> Any: ...
        def __ge__(self, value: T) -> Any: ...

    def _comparing(self) -> tuple[Any, str, bool, str, type[Expr]]:
        """Return the values that the core compares by; it calls this once."""
        return self._owner.__model__, self._field().name, self._is_element, self._key, Expr

    def _compare(self, value: Any, operator: str | None) -> Expr:
        """Return the condition for a value that the core leaves to Python; without an operator, that both are equal."""
        dumped = self._dump(value)
        if operator is not None:
            return Expr({self._key: {operator: dumped}})
        # A document or a pattern would be read as operators or as a regular expression.
        is_plain = not isinstance(dumped, (dict, re.Pattern)) and type(dumped).__name__ != "Regex"
        return Expr({self._key: dumped if is_plain else {"$eq": dumped}})

    def __hash__(self) -> int:
        if self._keys is None:
            # Finds the keys at first use, which must not change the hash.
            self._field()
        return hash((self._model, self._owner, self._name, self._keys))

    def __invert__(self) -> Expr:
        return Expr({self._key: {"$ne": True}})

    def __bool__(self) -> bool:
        raise TypeError(
            f"the field {self._name!r} of {self._owner.__name__} has no truth value; compare it with something"
        )

    def __iter__(self) -> Any:
        raise TypeError(
            f"{self._owner.__name__}.{self._name} is a field, not a value; use each() or elem() for its elements"
        )

    def __neg__(self) -> Order:
        return Order(self, -1)

    def __pos__(self) -> Order:
        return Order(self, 1)

    def __repr__(self) -> str:
        return f"{self._model.__name__}.{self._key}"

    # Methods of `Mapped` and `F()`.

    @_named
    def or_else(self, value: T) -> Computed[T]:
        """Return the field as a value to compute with, with a substitute for None or a missing key.

        Args:
            value: the substitute.

        Example:
            >>> User.find().update(set_(User.status, F(User.status).or_else("active")))
            0
        """
        return self._computed().or_else(value)

    @_named
    def set(self, value: T | Arithmetic[T]) -> Update:
        """Return an update that sets the field to a value.

        Args:
            value: the new value: one of the field's type, another field, or one that is computed from fields.

        Example:
            >>> User.find(User.name == "Ada").update(User.age.set(37))
            1
        """
        if isinstance(value, Arithmetic):
            field = self._field()
            if self._check_way()[0]:
                raise TypeError(
                    f"cannot set {self!r} to a computed value: expected an embedded document that is never None"
                )
            return Computing("$set", self._key, fitted(operand(value), field.type, field.nullable, self._key))
        return Update("$set", self._key, self._stored(value))

    @_named
    def unset(self) -> Update:
        """Return an update that removes the key.

        Raises:
            ValidationError: the field must have a value, so a document without the key would not load.
        """
        self._check_removable("unset")
        return Update("$unset", self._key, "")

    @_named
    def asc(self) -> Order:
        """Sort by the field, smallest first."""
        return Order(self, 1)

    @_named
    def desc(self) -> Order:
        """Sort by the field, largest first."""
        return Order(self, -1)


if TYPE_CHECKING:

    class Mapped(Path[T]):
        """A field with a fully typed class attribute: `n: Mapped[int]` is a `Path[int]` on the class and an int on
        the instance."""

        @overload
        def __get__(self, instance: None, owner: Any) -> Path[T]: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> T: ...
        def __get__(self, instance: object | None, owner: Any) -> Any: ...
        def __set__(self, instance: object, value: T) -> None: ...

else:

    class Mapped(Generic[T]):
        """Marks a field with a fully typed class attribute: `n: Mapped[int]`."""


def F(field: T | None) -> Path[T]:  # noqa: N802  # short on purpose: it is used in the middle of conditions
    """Return a class attribute as a `Path`, to call methods that its value type lacks: `F(Cafe.loc).near(…)`.

    Args:
        field: an attribute of a model, of any type.

    Example:
        >>> F(Cafe.loc).within_sphere(Point(10.7, 59.9), 500).query
        {'loc': {'$geoWithin': {'$centerSphere': [[10.7, 59.9], 7.839325190887568e-05]}}}
    """
    return path_of(field)


def path_of(field: Any) -> Path[Any]:
    """Return a class attribute as the path that it is; type checkers see a value.

    Raises:
        TypeError: not a path.
    """
    if isinstance(field, Path):
        return field
    raise TypeError(f"expected a field as the class has it, such as User.age, got {field!r}")
