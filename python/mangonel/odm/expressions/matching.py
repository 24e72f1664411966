"""The methods of a field's path that build conditions, such as `User.age.between(18, 30)`.

Knows a path only by its key and by the conversion of its values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mangonel._arguments import without_none
from mangonel.odm.expressions.expr import Expr
from mangonel.odm.expressions.geo import Geometry, Point

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


class Matching(Generic[T]):
    """The methods of a path that build conditions; `Path` itself defines the operators."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def _key(self) -> str: ...

        def _dump(self, value: Any, is_element: bool | None = None) -> Any: ...

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
        near = {"$geometry": point.to_geojson(), "$maxDistance": max_m, "$minDistance": min_m}
        return Expr({self._key: {"$nearSphere": without_none(near)}})

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
