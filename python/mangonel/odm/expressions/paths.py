"""Fields as class attributes return them: paths that build conditions, and their names in the database.

Knows models only by their names and fields; sends nothing.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from mangonel import _core
from mangonel.bson import Decimal128
from mangonel.odm._registry import is_document_class
from mangonel.odm.errors import ValidationError
from mangonel.odm.expressions.changes import Computing, Update
from mangonel.odm.expressions.computed import Arithmetic, Computed, fitted, operand
from mangonel.odm.expressions.expr import Expr, Operand
from mangonel.odm.expressions.geo import Geometry, Point
from mangonel.odm.expressions.orders import Order
from mangonel.odm.expressions.values import checked, dump, type_name

T = TypeVar("T")
M = TypeVar("M")


if TYPE_CHECKING:

    def _named(member: M) -> M:
        """Mark a public member of paths."""
        return member

else:

    class _named:  # noqa: N801  # a decorator
        """A public member of paths; a field with the same name in the path's embedded document hides it."""

        def __init__(self, member):
            self.member = member
            self.__doc__ = member.__doc__

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, path, owner=None):
            if path is None:
                return self.member
            model = path._field().model
            if model is not None and self.name in model.__plan__.fields:
                return path._inner(self.name)
            return self.member.__get__(path, owner)


def condition_of(field: Any, name: str, *args: Any, **kwargs: Any) -> Expr:
    """Return what a method of a field's path makes, even if its embedded document has a field of that name."""
    path = path_of(field)
    return getattr(type(path), name).__get__(path)(*args, **kwargs)


def update_of_path(field: Any, name: str, *args: Any) -> Update:
    """Return the update from a method of a field's path, even if an embedded field hides the method."""
    path = path_of(field)
    return getattr(type(path), name).__get__(path)(*args)


class Path(Arithmetic[T], Operand):
    """A field of a model class. Comparing it makes a condition; its attributes are fields of embedded documents.

    Arithmetic with it makes a `Computed`, a value for `set_`.
    """

    # Continues a path behind a reference; `through` sets it.
    _hop: ClassVar[Callable[[Any, Any, str], Any]]

    __slots__ = (
        "_comparison",
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
        if name == "_comparison":
            # Made when it is first asked for: the slot is empty.
            self._comparison = made = _core.OdmComparison(
                self._owner.__model__, self._field().name, self._is_element, self._key, Expr
            )
            return made
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
        made = self._within(self._owner, self._name, (*(self._keys or ()), str(part)))
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
            field = _field_named(key, current)
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

    def _compare(self, operator: str, value: Any) -> Any:
        made = self._comparison(value, operator)
        return made if made is not NotImplemented else Expr({self._key: {operator: self._dump(value)}})

    def __eq__(self, value: object) -> Any:
        made = self._comparison(value)
        if made is not NotImplemented:
            return made
        dumped = self._dump(value)
        # A document or a pattern would be read as operators or as a regular expression.
        is_plain = not isinstance(dumped, (dict, re.Pattern)) and type(dumped).__name__ != "Regex"
        return Expr({self._key: dumped if is_plain else {"$eq": dumped}})

    def __ne__(self, value: object) -> Any:
        return self._compare("$ne", value)

    def __lt__(self, value: T) -> Any:
        return self._compare("$lt", value)

    def __le__(self, value: T) -> Any:
        return self._compare("$lte", value)

    def __gt__(self, value: T) -> Any:
        return self._compare("$gt", value)

    def __ge__(self, value: T) -> Any:
        return self._compare("$gte", value)

    def __hash__(self) -> int:
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
    def in_(self, values: Iterable[T]) -> Expr:
        """Match documents whose field has one of these values.

        Args:
            values: any iterable of values.

        Example:
            >>> User.age.in_([3, 4]).query
            {'age': {'$in': [3, 4]}}
        """
        return Expr({self._key: {"$in": [self._dump(value) for value in values]}})

    @_named
    def not_in(self, values: Iterable[T]) -> Expr:
        """Match documents whose field has none of these values.

        Args:
            values: any iterable of values.

        Example:
            >>> User.age.not_in([3, 4]).query
            {'age': {'$nin': [3, 4]}}
        """
        return Expr({self._key: {"$nin": [self._dump(value) for value in values]}})

    @_named
    def between(self, low: T, high: T) -> Expr:
        """Match documents whose field is between `low` and `high`, inclusive.

        Example:
            >>> User.age.between(18, 30).query
            {'age': {'$gte': 18, '$lte': 30}}
        """
        return Expr({self._key: {"$gte": self._dump(low), "$lte": self._dump(high)}})

    @_named
    def exists(self, exists: bool = True) -> Expr:
        """Match documents that have the key, with any value, or that lack it.

        Args:
            exists: False: the key does not exist.

        Example:
            >>> User.email.exists().query
            {'email': {'$exists': True}}
        """
        return Expr({self._key: {"$exists": exists}})

    @_named
    def has_type(self, *types: str | int) -> Expr:
        """Match documents whose value has one of these BSON types, given by name or number.

        Args:
            types: names or numbers of BSON types.

        Example:
            >>> User.age.has_type("int", "long").query
            {'age': {'$type': ['int', 'long']}}
        """
        return Expr({self._key: {"$type": list(types) if len(types) > 1 else types[0]}})

    @_named
    def is_none(self) -> Expr:
        """Match documents whose field is None or missing."""
        return Expr({self._key: None})

    @_named
    def size(self, size: int) -> Expr:
        """Match documents whose list has this length.

        Args:
            size: the number of elements.

        Example:
            >>> User.tags.size(2).query
            {'tags': {'$size': 2}}
        """
        return Expr({self._key: {"$size": size}})

    @_named
    def all(self, values: Iterable[Any]) -> Expr:
        """Match documents whose list has all of these elements.

        Args:
            values: any iterable of elements.

        Example:
            >>> User.tags.all(["admin", "owner"]).query
            {'tags': {'$all': ['admin', 'owner']}}
        """
        return Expr({self._key: {"$all": [self._dump(value, True) for value in values]}})

    @_named
    def contains(self, text: str, *, ignore_case: bool = False) -> Expr:
        """Match documents whose text contains `text`.

        Args:
            text: literal text.
            ignore_case: True: ignore case, which uses no index.

        Example:
            >>> User.name.contains("d").query
            {'name': {'$regex': 'd'}}
        """
        return self._regex(re.escape(text), ignore_case)

    @_named
    def startswith(self, text: str, *, ignore_case: bool = False) -> Expr:
        """Match documents whose text starts with `text`. Uses an index unless `ignore_case` is set.

        Args:
            text: literal text.
            ignore_case: True: ignore case, which uses no index.

        Example:
            >>> User.name.startswith("A").query
            {'name': {'$regex': '^A'}}
        """
        return self._regex("^" + re.escape(text), ignore_case)

    @_named
    def endswith(self, text: str, *, ignore_case: bool = False) -> Expr:
        r"""Match documents whose text ends with `text`.

        Args:
            text: literal text.
            ignore_case: True: ignore case, which uses no index.

        Example:
            >>> User.email.endswith(".org").query
            {'email': {'$regex': '\\.org$'}}
        """
        return self._regex(re.escape(text) + "$", ignore_case)

    @_named
    def iexact(self, text: str) -> Expr:
        """Match documents whose text equals `text`, ignoring case.

        Args:
            text: literal text.

        Example:
            >>> User.find(User.name.iexact("ADA")).count()
            1
        """
        return self._regex("^" + re.escape(text) + "$", True)

    @_named
    def wholeword(self, text: str, *, ignore_case: bool = False) -> Expr:
        """Match documents whose text contains `text` as a whole word.

        Args:
            text: literal text.
            ignore_case: True: ignore case, which uses no index.

        Example:
            >>> User.find(User.name.wholeword("Ada")).count()
            1
        """
        return self._regex(r"\b" + re.escape(text) + r"\b", ignore_case)

    @_named
    def matches(self, pattern: str | re.Pattern[str], options: str = "") -> Expr:
        """Match documents whose text matches a regular expression. `options` are the server's: i, m, s, x.

        Args:
            pattern: text or a compiled expression.
            options: the server's option letters: i, m, s, x.

        Example:
            >>> User.name.matches("^A").query
            {'name': {'$regex': '^A'}}
        """
        if isinstance(pattern, re.Pattern):
            flags = {re.I: "i", re.M: "m", re.S: "s", re.X: "x"}
            options = options or "".join(letter for flag, letter in flags.items() if pattern.flags & flag)
            pattern = pattern.pattern
        query: dict[str, Any] = {"$regex": pattern}
        if options:
            query["$options"] = options
        return Expr({self._key: query})

    def _regex(self, pattern: str, ignore_case: bool) -> Expr:
        return self.matches(pattern, "i" if ignore_case else "")

    @_named
    def mod(self, divisor: int, remainder: int) -> Expr:
        """Match documents whose number modulo `divisor` is `remainder`.

        Example:
            >>> User.find(User.age.mod(12, 0)).count()
            2
        """
        return Expr({self._key: {"$mod": [divisor, remainder]}})

    @_named
    def bits_all_set(self, mask: int | list[int]) -> Expr:
        """Match documents in which all bits of the mask, or at these positions, are 1.

        Args:
            mask: an integer, or positions counted from 0.

        Example:
            >>> User.age.bits_all_set(0b100).query
            {'age': {'$bitsAllSet': 4}}
        """
        return Expr({self._key: {"$bitsAllSet": mask}})

    @_named
    def bits_any_set(self, mask: int | list[int]) -> Expr:
        """Match documents in which at least one of the bits is 1.

        Args:
            mask: as for `bits_all_set`.

        Example:
            >>> User.age.bits_any_set([0, 2]).query
            {'age': {'$bitsAnySet': [0, 2]}}
        """
        return Expr({self._key: {"$bitsAnySet": mask}})

    @_named
    def bits_all_clear(self, mask: int | list[int]) -> Expr:
        """Match documents in which all of the bits are 0.

        Args:
            mask: as for `bits_all_set`.

        Example:
            >>> User.age.bits_all_clear([0, 2]).query
            {'age': {'$bitsAllClear': [0, 2]}}
        """
        return Expr({self._key: {"$bitsAllClear": mask}})

    @_named
    def bits_any_clear(self, mask: int | list[int]) -> Expr:
        """Match documents in which at least one of the bits is 0.

        Args:
            mask: as for `bits_all_set`.

        Example:
            >>> User.age.bits_any_clear([0, 2]).query
            {'age': {'$bitsAnyClear': [0, 2]}}
        """
        return Expr({self._key: {"$bitsAnyClear": mask}})

    @_named
    def near(self, point: Point, *, max_m: float | None = None, min_m: float | None = None) -> Expr:
        """Match places near `point`, nearest first. Needs a 2dsphere index.

        Args:
            max_m, min_m: metres.

        Example:
            >>> F(Cafe.loc).near(Point(10.7, 59.9), max_m=500).query
            {'loc': {'$nearSphere': {'$geometry': {'type': 'Point', 'coordinates': [10.7, 59.9]}, '$maxDistance': 500}}}
        """
        near: dict[str, Any] = {"$geometry": point.to_geojson()}
        if max_m is not None:
            near["$maxDistance"] = max_m
        if min_m is not None:
            near["$minDistance"] = min_m
        return Expr({self._key: {"$nearSphere": near}})

    @_named
    def within(self, area: Geometry) -> Expr:
        """Match geometries inside a polygon or several polygons.

        Args:
            area: a `Polygon` or a `MultiPolygon`.

        Example:
            >>> F(Cafe.loc).within(Polygon([(0, 0), (3, 6), (6, 1), (0, 0)])).query
            {'loc': {'$geoWithin': {'$geometry': {'type': 'Polygon', 'coordinates': [[[0.0, 0.0], [3.0, 6.0], ...]]}}}}
        """
        return Expr({self._key: {"$geoWithin": {"$geometry": area.to_geojson()}}})

    @_named
    def within_sphere(self, centre: Point, radius_m: float) -> Expr:
        """Match geometries within a distance of a point, in metres. Needs no index.

        Args:
            centre: the centre, with longitude and latitude in degrees.
            radius_m: the distance in metres.

        Example:
            >>> F(Cafe.loc).within_sphere(Point(10.7, 59.9), 500).query
            {'loc': {'$geoWithin': {'$centerSphere': [[10.7, 59.9], 7.839325190887568e-05]}}}
        """
        radius = [centre.coordinates, radius_m / 6_378_100.0]
        return Expr({self._key: {"$geoWithin": {"$centerSphere": radius}}})

    @_named
    def within_box(self, lower_left: tuple[float, float], upper_right: tuple[float, float]) -> Expr:
        """Match legacy coordinate pairs in a flat box.

        Args:
            lower_left: a corner: longitude and latitude, or any two numbers.
            upper_right: the corner opposite.

        Example:
            >>> F(Cafe.loc).within_box((0, 0), (10, 10)).query
            {'loc': {'$geoWithin': {'$box': [[0, 0], [10, 10]]}}}
        """
        return Expr({self._key: {"$geoWithin": {"$box": [list(lower_left), list(upper_right)]}}})

    @_named
    def within_circle(self, centre: tuple[float, float], radius: float) -> Expr:
        """Match legacy coordinate pairs in a flat circle.

        Args:
            centre: the centre, any two numbers.
            radius: the radius in the same unit.

        Example:
            >>> F(Cafe.loc).within_circle((0, 0), 5).query
            {'loc': {'$geoWithin': {'$center': [[0, 0], 5]}}}
        """
        return Expr({self._key: {"$geoWithin": {"$center": [list(centre), radius]}}})

    @_named
    def within_polygon(self, corners: Iterable[tuple[float, float]]) -> Expr:
        """Match legacy coordinate pairs in a flat polygon. `within` takes a `Polygon` on the sphere.

        Args:
            corners: three or more; the last is joined to the first.

        Example:
            >>> F(Cafe.loc).within_polygon([(0, 0), (3, 6), (6, 1)]).query
            {'loc': {'$geoWithin': {'$polygon': [[0, 0], [3, 6], [6, 1]]}}}
        """
        return Expr({self._key: {"$geoWithin": {"$polygon": [list(corner) for corner in corners]}}})

    @_named
    def intersects(self, geometry: Geometry) -> Expr:
        """Match geometries that intersect this one.

        Args:
            geometry: any of the geometries here.

        Example:
            >>> F(Cafe.loc).intersects(LineString([(0, 0), (3, 6)])).query
            {'loc': {'$geoIntersects': {'$geometry': {'type': 'LineString', 'coordinates': [[0.0, 0.0], [3.0, 6.0]]}}}}
        """
        return Expr({self._key: {"$geoIntersects": {"$geometry": geometry.to_geojson()}}})

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
        field = self._field()
        if self._is_element:
            # The server leaves null in its place.
            checked(self._owner, field, None, True, self._key)
        elif field.is_required:
            raise ValidationError(
                f"cannot unset {self._key!r}: expected a value in every {self._owner.__name__}, since the field is not "
                "optional and has no default"
            )
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


def F(field: T | None) -> Path[T]:  # noqa: N802  # short on purpose: it stands in the middle of conditions
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


def key_of(field: Any, model: Any = None) -> str:
    """Return a field's path in the database, from a class attribute or from a dotted name of attributes."""
    if isinstance(field, Path):
        return field._key
    if isinstance(field, str):
        return key_of_name(field, model)
    raise TypeError(f"expected a field or its name, got {field!r}")


def key_of_name(name: str, model: Any) -> str:
    """Translate a dotted path of attributes or keys into one of keys.

    Raises:
        AttributeError: the model has no such field, and accepts no others.
    """
    keys: list[str] = []
    current = model
    for part in name.split("."):
        if current is None or _is_position(part):
            keys.append(part)
            continue
        field = _field_named(part, current)
        if field is None:
            if current.__dynamic__ or part == current.__tag__:
                keys.append(part)
                current = None
                continue
            known = ", ".join(current.__plan__.fields)
            raise AttributeError(f"{current.__name__} has no field {part!r}; it has {known or 'none'}")
        keys.append(field.key)
        current = field.model
    return ".".join(keys)


def _field_named(name: str, model: Any) -> Any:
    """Return a field of a model or of its family, by attribute or by key."""
    found = model.__plan__.fields.get(name) or model.__plan__.by_key.get(name)
    if found is not None:
        return found
    for child in model.__tagged__():
        found = child.__plan__.fields.get(name) or child.__plan__.by_key.get(name)
        if found is not None:
            return found
    return None


def _is_position(part: str) -> bool:
    return part.isdigit() or part.startswith("$")


def order_of(orders: Iterable[Any], model: Any) -> dict[str, Any]:
    """Return the sort document for orders: fields, `asc()`, `desc()`, names, names with `-`."""
    sort: dict[str, Any] = {}
    for order in orders:
        direction: Any = 1
        if isinstance(order, Order):
            order, direction = order.field, order.direction
        if isinstance(order, Mapping):
            sort.update(order)
            continue
        if isinstance(order, tuple):
            order, direction = order
        if isinstance(order, str) and order[:1] in ("-", "+"):
            direction = -1 if order[0] == "-" else 1
            order = order[1:]
        if isinstance(order, Order):
            order, direction = order.field, order.direction
        sort[key_of(order, model)] = direction
    return sort
