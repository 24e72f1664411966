"""The operations that every agent watches: a few of each package on each face, each inside a span of the caller.

An agent's program passes `play` a function that begins such a span; `play` returns the cells of the agent's column.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any

# A secret in the values of every operation: no span may contain it.
SECRET = "a-value-that-no-span-shows"

PACKAGES = ("driver", "mapper", "GridFS", "web sessions")
FACES = ("blocking", "asyncio")


def _with_database(uri: str) -> str:
    host, _, options = uri.partition("?")
    return f"{host.rstrip('/')}/agents?{options}"


def blocking(uri: str) -> dict[str, Callable[[], object]]:
    """Return the operations of each package on the blocking face."""
    from mangonel import MongoClient
    from mangonel.errors import OperationFailure
    from mangonel.gridfs import GridFSBucket
    from mangonel.odm import Document, connect
    from mangonel.websessions import WebSessions
    from mangonel.websessions.frameworks.wsgi import WSGISessions

    client: Any = MongoClient(uri)
    connect(_with_database(uri))

    class Person(Document):
        name: str

    def driver() -> None:
        client.agents.people.insert_one({"name": SECRET})
        client.agents.people.find_one({"name": SECRET})
        with contextlib.suppress(OperationFailure):
            client.agents.people.find_one({"$nope": SECRET})

    def mapper() -> None:
        Person(name=SECRET).save()
        list(Person.find(Person.name == SECRET).limit(2))

    def gridfs() -> None:
        bucket = GridFSBucket(client.agents)
        key = bucket.upload_from_stream("file", SECRET.encode())
        assert bucket.open_download_stream(key).read() == SECRET.encode()

    def application(environ: Any, start: Any) -> list[bytes]:
        environ["mangonel.session"]["cart"] = [SECRET]
        start("200 OK", [])
        return [b"done"]

    wsgi = WSGISessions(application, WebSessions(_with_database(uri), secure=False))

    def web_sessions() -> None:
        environ = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": "/",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(),
        }
        answer = wsgi(environ, lambda *_: print)
        assert b"".join(answer) == b"done"
        answer.close()  # type: ignore[attr-defined]

    return dict(zip(PACKAGES, (driver, mapper, gridfs, web_sessions), strict=True))


def awaited(uri: str) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
    """Return the operations of each package on the asyncio face."""
    from mangonel import AsyncMongoClient
    from mangonel.errors import OperationFailure
    from mangonel.gridfs import AsyncGridFSBucket
    from mangonel.odm import Document, connect
    from mangonel.websessions import WebSessions
    from mangonel.websessions.frameworks.asgi import SessionMiddleware

    client: Any = AsyncMongoClient(uri)
    connect(_with_database(uri))

    class Member(Document):
        name: str

    async def driver() -> None:
        await client.agents.people.insert_one({"name": SECRET})
        await client.agents.people.find_one({"name": SECRET})
        with contextlib.suppress(OperationFailure):
            await client.agents.people.find_one({"$nope": SECRET})

    async def mapper() -> None:
        await Member(name=SECRET).asave()
        assert await Member.find(Member.name == SECRET).limit(2)

    async def gridfs() -> None:
        bucket = AsyncGridFSBucket(client.agents)
        key = await bucket.upload_from_stream("file", SECRET.encode())
        stream = await bucket.open_download_stream(key)
        assert await stream.read() == SECRET.encode()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        scope["session"]["cart"] = [SECRET]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    asgi = SessionMiddleware(application, WebSessions(_with_database(uri), secure=False))

    async def web_sessions() -> None:
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "scheme": "http",
            "headers": [],
            "query_string": b"",
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
        }
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        await asgi(scope, receive, send)
        assert sent[0]["status"] == 200

    return dict(zip(PACKAGES, (driver, mapper, gridfs, web_sessions), strict=True))


def play(uri: str, parent: Callable[[str], AbstractContextManager[Any]]) -> None:
    """Run every cell of the table below a span of the caller's, which is named "FACE PACKAGE"."""
    for package, call in blocking(uri).items():
        with parent(f"blocking {package}"):
            call()

    async def steps() -> None:
        for package, call in awaited(uri).items():
            with parent(f"asyncio {package}"):
                await call()

    asyncio.run(steps())
