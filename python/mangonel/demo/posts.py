"""The posts: a page, and an API whose JSON the driver's core makes from BSON, without Python objects."""

from __future__ import annotations

from tornado.web import HTTPError

from mangonel.bson import ObjectId
from mangonel.bson.errors import InvalidId
from mangonel.demo.base import Base
from mangonel.demo.models import Post
from mangonel.demo.names import CITIES
from mangonel.odm import F, Point, Query, desc, text

PAGE = 20
LARGEST_PAGE = 100
PLACES = 2000


class PostsPage(Base):
    """The page to search posts by text and location."""

    async def get(self) -> None:
        """Show the page; the API supplies the posts."""
        self.page("posts.html", "Posts", cities=CITIES)


class _Search(Base):
    """The parameters of both APIs: `text=WORDS`, and `lon=`, `lat=`, `km=` for posts around a location."""

    def _query(self) -> Query[Post]:
        query = Post.find()
        if words := self.get_query_argument("text", ""):
            query = query.find(text(words))
        if "km" in self.request.query_arguments:
            lon, lat, km = (self._number(name) for name in ("lon", "lat", "km"))
            # $geoWithin, not $near: it keeps the order by id that paging needs, and combines with text search.
            query = query.find(F(Post.place).within_sphere(Point(lon, lat), km * 1000))
        return query

    def _number(self, name: str) -> float:
        bounds = {"lon": (-180.0, 180.0), "lat": (-90.0, 90.0), "km": (0.0, 20_000.0)}
        low, high = bounds[name]
        try:
            value = float(self.get_query_argument(name))
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise HTTPError(400, f"expected {name} from {low:g} to {high:g}, got {value:g}")
        return value

    def _answer(self, body: bytes) -> None:
        self.set_header("Content-Type", "application/json")
        self.finish(body)


class PostsAPI(_Search):
    """`GET /api/posts`: a page of posts, the newest first.

    `size=` posts after the one with the id `after=`. Paging by key makes the thousandth page as cheap as the first, and
    new posts do not shift pages.
    """

    async def get(self) -> None:
        """Answer with an array of posts; the last one's id is `after` of the next page."""
        query = self._query()
        if after := self.get_query_argument("after", ""):
            try:
                query = query.find(Post.id < ObjectId(after))
            except InvalidId as error:
                raise HTTPError(400, f"expected an id as after, got {after}") from error
        size = self.get_query_argument("size", str(PAGE))
        if not size.isdecimal() or not 1 <= int(size) <= LARGEST_PAGE:
            raise HTTPError(400, f"expected size from 1 to {LARGEST_PAGE}, got {size}")
        self._answer(await query.sort(desc(Post.id)).limit(int(size)).ajson())


class PlacesAPI(_Search):
    """`GET /api/places`: the locations of the posts that match a search, for the map."""

    async def get(self) -> None:
        """Answer with an array of ids and locations."""
        found = self._query().sort(desc(Post.id)).limit(PLACES)
        self._answer(await found.ajson(exclude=(Post.title, Post.body, Post.author, Post.city, Post.written)))
