"""Places by their distance."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from mangonel.odm import Document, F, Indexed, Point, Polygon, text


class Cafe(Document):
    name: Annotated[str, Indexed("text")]
    loc: Annotated[Point, Indexed("2dsphere")]
    rating: Annotated[float, Ge(0), Le(5)] = 0.0


def near_me(lon: float, lat: float) -> list[Cafe]:
    return Cafe.find(F(Cafe.loc).near(Point(lon, lat), max_m=800), Cafe.rating >= 4).limit(10).all()


async def in_area(*ring: tuple[float, float]) -> list[Cafe]:
    return await Cafe.find(F(Cafe.loc).within(Polygon(ring)) & text("espresso")).sort("-rating")
