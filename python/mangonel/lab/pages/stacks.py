"""How each driver and mapper reads the page of 30 posts: one function that opens it and returns the reading.

Written as their users would, and imported inside the functions: a site process has one of them. All must give the
same bytes but for the forms of 2015, so an answer is compared with that of another driver.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

PAGE = 30
Read: TypeAlias = Callable[[], "bytes | Awaitable[bytes]"]
Render: TypeAlias = Callable[[Iterable[Mapping[str, Any]]], bytes]


@dataclass(frozen=True)
class Place:
    """Where the posts are.

    Attributes:
        name: tells two places of one process apart.
        newest: the page has the last posts, found by an index.
    """

    uri: str
    database: str
    collection: str
    name: str = "near"
    newest: bool = False

    @property
    def sort(self) -> dict[str, Any]:
        """Return the keyword for `find`, empty for natural order."""
        return {"sort": [("created", -1)]} if self.newest else {}


def render(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a page as JSON, in the form of `to_json("plain")`."""
    page = [
        {
            "_id": str(post["_id"]),
            "title": post["title"],
            "created": post["created"].isoformat(timespec="milliseconds") + "Z",
        }
        for post in documents
    ]
    return json.dumps(page, separators=(",", ":")).encode()


def render_2015(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a page as the original's handler made it."""
    page = []
    for post in documents:
        created = post["created"].strftime("%Y-%m-%d %H:%M:%S")
        page.append({"_id": str(post["_id"]), "title": post["title"], "created": created})
    return json.dumps(page).encode()


def open_stack(kind: str, place: Place) -> Read:
    """Return the function that reads the page; its answer is bytes, or on event loops something to wait for.

    Raises:
        KeyError: there is no such kind.
    """
    return STACKS[kind](place)


def _posts() -> list[dict[str, Any]]:
    from mangonel.bson import ObjectId
    from mangonel.lab.documents import EPOCH

    return [
        {
            "_id": ObjectId(f"{number:024x}"),
            "title": "Post title",
            "created": EPOCH + datetime.timedelta(minutes=number),
        }
        for number in range(PAGE)
    ]


def _nothing(place: Place) -> Read:
    posts = _posts()
    return lambda: render(posts)


def _ready(place: Place) -> Read:
    body = render(_posts())
    return lambda: body


def _pymongo(place: Place, renderer: Render = render) -> Read:
    import pymongo

    posts = pymongo.MongoClient[Any](place.uri)[place.database][place.collection]
    return lambda: renderer(posts.find(limit=PAGE, **place.sort))


def _pymongo_threads(place: Place) -> Read:
    return _in_threads(_pymongo(place))


def _mangonel_threads(place: Place) -> Read:
    return _in_threads(_mangonel_blocking(place))


def _in_threads(read: Read) -> Read:
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(16)

    async def page() -> bytes:
        return await asyncio.get_running_loop().run_in_executor(pool, read)  # type: ignore[arg-type]

    return page


def _pymongo_async(place: Place) -> Read:
    import pymongo

    posts = pymongo.AsyncMongoClient[Any](place.uri)[place.database][place.collection]

    async def page() -> bytes:
        return render(await posts.find(limit=PAGE, **place.sort).to_list())

    return page


def _motor(place: Place) -> Read:
    from motor.motor_asyncio import AsyncIOMotorClient

    client: Any = AsyncIOMotorClient(place.uri)
    posts = client[place.database][place.collection]

    async def page() -> bytes:
        return render(await posts.find(limit=PAGE, **place.sort).to_list(PAGE))

    return page


def _motor_2015(place: Place) -> Read:
    from motor.motor_asyncio import AsyncIOMotorClient

    client: Any = AsyncIOMotorClient(place.uri)
    posts = client[place.database][place.collection]

    async def page() -> bytes:
        # As printed: no limit, so the server sends a first batch of 101 posts for a page of 30.
        return render_2015(await posts.find().to_list(length=PAGE))

    return page


def _mongojet(place: Place) -> Read:
    from mongojet import create_client

    posts: Any = None
    sort = {"sort": {"created": -1}} if place.newest else {}

    async def page() -> bytes:
        nonlocal posts
        if posts is None:
            client: Any = await create_client(place.uri, tz_aware=False)
            posts = client[place.database][place.collection]
        return render(await posts.find_many({}, limit=PAGE, **sort))

    return page


def _mongoengine(place: Place, renderer: Render = render) -> Read:
    # By name: these packages have no types.
    mongoengine: Any = importlib.import_module("mongoengine")

    mongoengine.connect(place.database, alias=place.name, host=place.uri)

    class Post(mongoengine.Document):  # type: ignore[misc]
        title = mongoengine.StringField()
        created = mongoengine.DateTimeField()
        meta: ClassVar[dict[str, Any]] = {
            "collection": place.collection,
            "db_alias": place.name,
            "auto_create_index": False,
            "strict": False,
        }

    posts = Post.objects.order_by("-created") if place.newest else Post.objects

    def page() -> bytes:
        found = ({"_id": post.id, "title": post.title, "created": post.created} for post in posts.limit(PAGE))
        return renderer(found)

    return page


def _beanie(place: Place) -> Read:
    import beanie
    import pymongo

    class Post(beanie.Document):
        title: str
        created: datetime.datetime

        class Settings:
            name = place.collection

    client = pymongo.AsyncMongoClient[Any](place.uri)
    is_ready = False

    async def page() -> bytes:
        nonlocal is_ready
        if not is_ready:
            await beanie.init_beanie(client[place.database], document_models=[Post])
            is_ready = True
        posts = await Post.find_all(limit=PAGE, sort="-created" if place.newest else None).to_list()
        return render({"_id": post.id, "title": post.title, "created": post.created} for post in posts)

    return page


def _mangonel(place: Place) -> Read:
    import mangonel

    posts: Any = mangonel.AsyncMongoClient[Any](place.uri)[place.database][place.collection]

    async def page() -> bytes:
        return render(await posts.find(limit=PAGE, **place.sort).to_list())

    return page


def _mangonel_json(place: Place) -> Read:
    import mangonel

    posts: Any = mangonel.AsyncMongoClient[Any](place.uri)[place.database][place.collection]
    return lambda: posts.find(limit=PAGE, **place.sort).to_json("plain")


def _mangonel_blocking(place: Place, renderer: Render = render) -> Read:
    import mangonel

    posts: Any = mangonel.MongoClient[Any](place.uri)[place.database][place.collection]
    return lambda: renderer(posts.find(limit=PAGE, **place.sort))


def _below(opened: Callable[..., Read]) -> Callable[..., Read]:
    def open_on_the_shim(place: Place, **options: Any) -> Read:
        # A program's own first line; as a name, since the lab as such does not stand on the shim.
        compat: Any = importlib.import_module("mangonel.compat")
        compat.install_as_pymongo()
        return opened(place, **options)

    return open_on_the_shim


def _thin(place: Place) -> Read:
    from mangonel.lab.pages.thin import open_thin

    return open_thin(place.uri, place.database, place.collection, newest=place.newest)


STACKS: dict[str, Callable[..., Read]] = {
    "nothing": _nothing,
    "ready": _ready,
    "thin": _thin,
    "pymongo": _pymongo,
    "pymongo-gevent": _pymongo,
    "pymongo-threads": _pymongo_threads,
    "pymongo-async": _pymongo_async,
    "motor": _motor,
    "mongojet": _mongojet,
    "mongoengine": _mongoengine,
    "beanie": _beanie,
    "mangonel": _mangonel,
    "mangonel-json": _mangonel_json,
    "mangonel-blocking": _mangonel_blocking,
    "mangonel-threads": _mangonel_threads,
    "mangonel-gevent": _mangonel_blocking,
    "mongoengine-mangonel": _below(_mongoengine),
    "beanie-mangonel": _below(_beanie),
}

# As printed in 2015: dates by strftime, JSON with blanks, Motor's query without a limit.
ORIGINALS: dict[str, Callable[[Place], Read]] = {
    "pymongo": lambda place: _pymongo(place, render_2015),
    "pymongo-gevent": lambda place: _pymongo(place, render_2015),
    "motor": _motor_2015,
    "mongoengine": lambda place: _mongoengine(place, render_2015),
    "mangonel-blocking": lambda place: _mangonel_blocking(place, render_2015),
    "mangonel-gevent": lambda place: _mangonel_blocking(place, render_2015),
}
