"""GeoJSON objects as values of fields and queries. Spec: RFC 7946, the server's geospatial queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from mangonel._arguments import expect

G = TypeVar("G", bound="Geometry")
Position = Sequence[float]


class Geometry:
    """Base of the GeoJSON objects: one attribute, `coordinates`, with lists of numbers as stored."""

    __slots__ = ("coordinates",)
    coordinates: list[Any]
    geo_type = ""
    # How many levels of lists surround a position.
    _depth = 0

    @classmethod
    def from_geojson(cls, document: Mapping[str, Any]) -> Self:
        """Return the object that a GeoJSON document describes.

        Args:
            document: with `type` and `coordinates`, as `to_geojson` returns it.

        Raises:
            ValueError: it describes another type, or its coordinates are not lists of numbers of the right depth.

        Example:
            >>> Point.from_geojson({"type": "Point", "coordinates": [13.4, 52.5]})
            Point(13.4, 52.5)
        """
        if document.get("type") != cls.geo_type:
            raise ValueError(f"expected a GeoJSON {cls.geo_type}, got the type {document.get('type')!r}")
        coordinates = _checked(document.get("coordinates"), cls._depth)
        if coordinates is None:
            raise ValueError(
                f"expected the coordinates of a {cls.geo_type}, got {document.get('coordinates')!r:.80}"
            )
        return restore(cls, coordinates)

    def to_geojson(self) -> dict[str, Any]:
        """Return the object as a GeoJSON document."""
        return {"type": self.geo_type, "coordinates": self.coordinates}

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Geometry):
            return self.geo_type == other.geo_type and self.coordinates == other.coordinates
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.geo_type, repr(self.coordinates)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.coordinates!r})"

    def __reduce__(self) -> Any:
        return restore, (type(self), self.coordinates)


def restore(cls: type[G], coordinates: list[Any]) -> G:
    made = cls.__new__(cls)
    made.coordinates = coordinates
    return made


def _checked(given: Any, depth: int) -> list[Any] | None:
    """Return coordinates with this many levels of lists around each position, or None if they differ."""
    if not isinstance(given, (list, tuple)):
        return None
    if depth:
        parts = [_checked(part, depth - 1) for part in given]
        return None if None in parts else parts
    is_position = len(given) >= 2 and all(type(part) in (int, float) for part in given)
    return [float(part) for part in given] if is_position else None


def _line(points: Iterable[Position]) -> list[list[float]]:
    if not isinstance(points, Iterable):
        raise TypeError(f"expected points, got {points!r}")
    return [_position(point) for point in points]


def _position(point: Any) -> list[float]:
    if isinstance(point, Point):
        return list(point.coordinates)
    try:
        made = [float(part) for part in point]
    except TypeError:
        raise TypeError(f"expected a longitude and a latitude, got {point!r}") from None
    if len(made) < 2:
        raise ValueError(f"expected a longitude and a latitude, got {point!r}")
    return made


class Point(Geometry):
    """A point on the earth. Longitude comes first, as in GeoJSON.

    Args:
        lon: degrees east, -180 to 180.
        lat: degrees north, -90 to 90.

    Example:
        >>> Point(13.4, 52.5).lat
        52.5
    """

    __slots__ = ()
    geo_type = "Point"

    def __init__(self, lon: float, lat: float) -> None:
        self.coordinates = [float(lon), float(lat)]

    @property
    def lon(self) -> float:
        """Degrees east."""
        return float(self.coordinates[0])

    @property
    def lat(self) -> float:
        """Degrees north."""
        return float(self.coordinates[1])

    def __repr__(self) -> str:
        return f"Point({self.coordinates[0]!r}, {self.coordinates[1]!r})"


class LineString(Geometry):
    """A line through points."""

    __slots__ = ()
    geo_type = "LineString"
    _depth = 1

    def __init__(self, points: Iterable[Position]) -> None:
        self.coordinates = _line(points)


class Polygon(Geometry):
    """An area: its outer ring, then its holes. Open rings are closed.

    Example:
        >>> Polygon([(0, 0), (1, 0), (1, 1)])
        Polygon([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]])
    """

    __slots__ = ()
    geo_type = "Polygon"
    _depth = 2

    def __init__(self, ring: Iterable[Position], *holes: Iterable[Position]) -> None:
        self.coordinates = [_ring(points) for points in (ring, *holes)]


def _ring(points: Iterable[Position]) -> list[list[float]]:
    ring = _line(points)
    if ring and ring[0] != ring[-1]:
        ring.append(list(ring[0]))
    return ring


class MultiPoint(Geometry):
    """Several points."""

    __slots__ = ()
    geo_type = "MultiPoint"
    _depth = 1

    def __init__(self, points: Iterable[Position]) -> None:
        self.coordinates = _line(points)


class MultiLineString(Geometry):
    """Several lines."""

    __slots__ = ()
    geo_type = "MultiLineString"
    _depth = 2

    def __init__(self, lines: Iterable[Iterable[Position]]) -> None:
        self.coordinates = [_line(points) for points in expect("lines", lines, Iterable, "lines")]


class MultiPolygon(Geometry):
    """Several polygons."""

    __slots__ = ()
    geo_type = "MultiPolygon"
    _depth = 3

    def __init__(self, polygons: Iterable[Polygon | Iterable[Iterable[Position]]]) -> None:
        self.coordinates = [
            polygon.coordinates
            if isinstance(polygon, Polygon)
            else [_ring(ring) for ring in expect("polygon", polygon, Iterable, "rings")]
            for polygon in expect("polygons", polygons, Iterable, "polygons")
        ]


GEOMETRIES = (Point, LineString, Polygon, MultiPoint, MultiLineString, MultiPolygon)
