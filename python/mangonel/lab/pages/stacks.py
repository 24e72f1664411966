"""How each driver and mapper reads the page of 30 posts: a function that connects and returns the reading function.

Written as their users would, and imported inside the functions: a site process has only one. All must return the same
bytes, except the forms of 2015, so a response is compared with another driver's.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import importlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from mangonel.lab.contender import Target
from mangonel.lab.contenders._faces import named

PAGE = 30
Read: TypeAlias = Callable[[], "bytes | Awaitable[bytes]"]
Render: TypeAlias = Callable[[Iterable[Mapping[str, Any]]], bytes]


@dataclass(frozen=True)
class Place:
    """The location of the posts."""

    uri: str
    database: str
    collection: str
    name: str = "near"  # distinguishes two places of one process
    newest: bool = False  # the page has the last posts, found by an index

    @property
    def sort(self) -> dict[str, Any]:
        """Return the `sort` keyword for `find`; empty for natural order."""
        return {"sort": [("created", -1)]} if self.newest else {}

    def posts(self, client: str) -> Any:
        """Return the collection, from a client class given as "module:name"."""
        return named(client)(self.uri)[self.database][self.collection]


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


def _ready(place: Place, is_rendered: bool) -> Read:
    from mangonel.bson import ObjectId
    from mangonel.lab.documents import post

    posts = [{**post(number), "_id": ObjectId(f"{number:024x}")} for number in range(PAGE)]
    body = render(posts)
    return (lambda: body) if is_rendered else (lambda: render(posts))


def _blocking(place: Place, client: str, renderer: Render = render) -> Read:
    posts = place.posts(client)
    return lambda: renderer(posts.find(limit=PAGE, **place.sort))


def _in_threads(place: Place, client: str) -> Read:
    from concurrent.futures import ThreadPoolExecutor

    read, pool = _blocking(place, client), ThreadPoolExecutor(16)

    async def page() -> bytes:
        return await asyncio.get_running_loop().run_in_executor(pool, read)  # type: ignore[arg-type]  # no promise

    return page


def _on_loop(place: Place, client: str) -> Read:
    posts = place.posts(client)

    async def page() -> bytes:
        return render(await posts.find(limit=PAGE, **place.sort).to_list(None))

    return page


def _motor_2015(place: Place) -> Read:
    posts = place.posts(MOTOR)

    async def page() -> bytes:
        # As printed: without a limit, so the server sends a first batch of 101 posts for a page of 30.
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
    # By name, since these packages have no types.
    mongoengine: Any = importlib.import_module("mongoengine")

    mongoengine.connect(place.database, alias=place.name, host=place.uri)

    class Post(mongoengine.Document):  # type: ignore[misc]  # a class of no known type
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


def _json(place: Place) -> Read:
    posts = place.posts(OUR_LOOP)
    return lambda: posts.find(limit=PAGE, **place.sort).to_json("plain")


def _below(opened: Callable[..., Read]) -> Callable[..., Read]:
    def open_on_the_shim(place: Place) -> Read:
        # The first line of a user's program. Imported by name, since the lab itself does not use the shim.
        named("mangonel.compat:install_as_pymongo")()
        return opened(place)

    return open_on_the_shim


def _on_sockets(place: Place, is_decoded: bool) -> Read:
    """The least that was found for asyncio in plain Python: nonblocking sockets and a future for each reply.

    There is no server selection, retry or timeout. Decoded by PyMongo's C codec, this is the upper bound for a driver
    without native code. Not decoded, the page is ready bytes behind a reply of the expected length, so what it takes
    above ready bytes alone is the exchange with the server.
    """
    import bson

    from mangonel.lab.contenders import _wire, raw

    class Sockets(raw.RawAsyncio):
        most, keeps = (100, True) if is_decoded else (raw.CONNECTIONS, False)

    messages: dict[_wire.Commands, bytearray] = {}
    options: dict[str, Any] = {"limit": PAGE, **({"sort": {"created": -1}} if place.newest else {})}
    sockets: Sockets | None = None
    body = b""
    size = 0

    def message(commands: _wire.Commands, _: None) -> bytearray:
        if commands not in messages:
            messages[commands] = commands.find(options)
        return messages[commands]

    async def page() -> bytes:
        nonlocal sockets, body, size
        if sockets is None:
            sockets = Sockets(Target(place.uri, place.database, place.collection, connections=Sockets.most))
            await sockets.open()
        reply = await sockets.ask(message, None)
        if is_decoded:
            return render(bson.decode(reply[_wire.BODY :])["cursor"]["firstBatch"])
        if not body:
            body, size = render(sockets.decoded(reply)), reply
        if reply != size:
            raise _wire.Refused(f"expected a reply of {size} bytes, got {reply}")
        return body

    return page


OURS, OUR_LOOP = "mangonel:MongoClient", "mangonel:AsyncMongoClient"
PYMONGO, THEIR_LOOP = "pymongo:MongoClient", "pymongo:AsyncMongoClient"
MOTOR = "motor.motor_asyncio:AsyncIOMotorClient"
part = functools.partial
STACKS: dict[str, Callable[[Place], Read]] = {
    "nothing": part(_ready, is_rendered=False),
    "ready": part(_ready, is_rendered=True),
    "thin": part(_on_sockets, is_decoded=True),
    "raw": part(_on_sockets, is_decoded=False),
    "pymongo": part(_blocking, client=PYMONGO),
    "pymongo-gevent": part(_blocking, client=PYMONGO),
    "pymongo-threads": part(_in_threads, client=PYMONGO),
    "pymongo-async": part(_on_loop, client=THEIR_LOOP),
    "motor": part(_on_loop, client=MOTOR),
    "mongojet": _mongojet,
    "mongoengine": _mongoengine,
    "beanie": _beanie,
    "mangonel": part(_on_loop, client=OUR_LOOP),
    "mangonel-json": _json,
    "mangonel-blocking": part(_blocking, client=OURS),
    "mangonel-threads": part(_in_threads, client=OURS),
    "mangonel-gevent": part(_blocking, client=OURS),
    "mongoengine-mangonel": _below(_mongoengine),
    "beanie-mangonel": _below(_beanie),
}

# As printed in 2015: dates by strftime, JSON with blanks, Motor's query without a limit.
ORIGINALS: dict[str, Callable[[Place], Read]] = {
    "pymongo": part(_blocking, client=PYMONGO, renderer=render_2015),
    "pymongo-gevent": part(_blocking, client=PYMONGO, renderer=render_2015),
    "motor": _motor_2015,
    "mongoengine": part(_mongoengine, renderer=render_2015),
    "mangonel-blocking": part(_blocking, client=OURS, renderer=render_2015),
    "mangonel-gevent": part(_blocking, client=OURS, renderer=render_2015),
}
