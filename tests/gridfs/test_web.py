"""Files over HTTP: ranges, conditions, HEAD, and clients that go away; with ASGI and with Tornado."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from mangonel import AsyncMongoClient, monitoring
from mangonel.gridfs import AsyncGridFSBucket
from mangonel.gridfs.web.answers import answer
from mangonel.gridfs.web.asgi import GridFSApp
from mangonel.gridfs.web.tornado import GridFSHandler
from mangonel.server import Server

DATA = os.urandom(1_000_000)


@asynccontextmanager
async def served(
    kind: str, uri: str, name: str
) -> AsyncIterator[tuple[httpx.AsyncClient, AsyncGridFSBucket]]:
    async with AsyncMongoClient(uri) as mongo:
        bucket = AsyncGridFSBucket(mongo[name])
        await bucket.upload_from_stream("some photo.jpg", DATA, chunk_size_bytes=100_000)
        if kind == "asgi":
            transport = httpx.ASGITransport(app=GridFSApp(bucket))
            async with httpx.AsyncClient(transport=transport, base_url="http://files") as client:
                yield client, bucket
            return
        server = HTTPServer(Application([(r"/(.+)", GridFSHandler, {"bucket": bucket})]))
        (sock,) = bind_sockets(0, "127.0.0.1")
        server.add_socket(sock)
        try:
            address = f"http://127.0.0.1:{sock.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=address, verify=False) as client:
                yield client, bucket
        finally:
            server.stop()
            await server.close_all_connections()


@pytest.fixture(params=["asgi", "tornado"])
def play(
    request: pytest.FixtureRequest, standalone: Server, database_name: str
) -> Callable[[Callable[[httpx.AsyncClient, Any], Awaitable[None]]], None]:
    """Run steps against a server of each kind."""

    def run(steps: Callable[[httpx.AsyncClient, Any], Awaitable[None]]) -> None:
        async def all_of_it() -> None:
            async with served(request.param, standalone.uri, database_name) as (client, bucket):
                await steps(client, bucket)

        asyncio.run(all_of_it())

    return run


def test_whole_file_and_its_parts(play: Any) -> None:
    async def steps(client: httpx.AsyncClient, _: Any) -> None:
        whole = await client.get("/some%20photo.jpg")
        assert (whole.status_code, whole.content) == (200, DATA)
        assert whole.headers["content-type"] == "image/jpeg"
        for asked, start, stop in (
            ("0-0", 0, 1),
            ("99999-100000", 99_999, 100_001),
            ("999999-", 999_999, 1_000_000),
            ("-5", 999_995, 1_000_000),
            ("10-9999999", 10, 1_000_000),
        ):
            part = await client.get("/some%20photo.jpg", headers={"Range": f"bytes={asked}"})
            assert (part.status_code, part.content) == (206, DATA[start:stop])
            assert part.headers["content-range"] == f"bytes {start}-{stop - 1}/1000000"

    play(steps)


def test_unavailable_files_and_ranges_are_refused(play: Any) -> None:
    async def steps(client: httpx.AsyncClient, _: Any) -> None:
        for asked in ("1000000-", "0-1,5-6", "-0"):
            refused = await client.get("/some%20photo.jpg", headers={"Range": f"bytes={asked}"})
            assert (refused.status_code, refused.headers["content-range"]) == (416, "bytes */1000000")
        assert (await client.get("/nothing")).status_code == 404
        assert (await client.post("/some%20photo.jpg")).status_code == 405

    play(steps)


def test_head_and_conditions_send_no_bytes(play: Any) -> None:
    async def steps(client: httpx.AsyncClient, _: Any) -> None:
        head = await client.head("/some%20photo.jpg")
        assert (head.status_code, head.headers["content-length"], head.content) == (200, "1000000", b"")
        tag, date = head.headers["etag"], head.headers["last-modified"]
        for condition, status in (
            ({"If-None-Match": tag}, 304),
            ({"If-None-Match": f'"other", W/{tag}'}, 304),
            ({"If-None-Match": '"other"'}, 200),
            ({"If-Modified-Since": date}, 304),
            ({"If-Match": '"other"'}, 412),
            ({"If-Match": tag}, 200),
            ({"If-Range": '"other"', "Range": "bytes=0-1"}, 200),
            ({"If-Range": tag, "Range": "bytes=0-1"}, 206),
        ):
            answered = await client.get("/some%20photo.jpg", headers=condition)
            assert answered.status_code == status, condition

    play(steps)


@pytest.mark.parametrize("asked", ["bytes=a-b", "lines=1-2", "bytes=5-1", "bytes=", "bytes=--5"])
def test_an_invalid_range_is_ignored(asked: str) -> None:
    told = answer("GET", {"range": asked}, {"_id": 1, "length": 100})

    assert (told.status, told.start, told.stop) == (200, 0, 100)


def test_stored_type_cannot_add_headers() -> None:
    file = {"_id": 1, "length": 1, "metadata": {"contentType": "text/html\r\nSet-Cookie: a=b"}}

    assert answer("GET", {}, file).headers["Content-Type"] == "application/octet-stream"


def test_client_that_goes_away_ends_the_reading(standalone: Server, database_name: str) -> None:
    async def steps() -> None:
        async with AsyncMongoClient(standalone.uri) as mongo:
            bucket = AsyncGridFSBucket(mongo[database_name])
            await bucket.upload_from_stream("file", DATA)
            sent = 0

            async def send(message: Any) -> None:
                nonlocal sent
                sent += len(message.get("body", b""))
                if sent > 300_000:
                    raise OSError("the client has gone")

            async def receive() -> Any:
                return {"type": "http.disconnect"}

            scope = {"type": "http", "method": "GET", "path": "/file", "headers": []}
            await GridFSApp(bucket)(scope, receive, send)
            assert sent < len(DATA)

    asyncio.run(steps())


def test_only_a_request_for_the_whole_file_requests_chunks_with_its_document(
    standalone: Server, database_name: str, far: None
) -> None:
    class Told(monitoring.CommandListener):
        started = staticmethod(lambda event: sent.append(event.command_name))
        succeeded = failed = staticmethod(lambda event: None)

    sent: list[str] = []

    async def steps() -> None:
        async with AsyncMongoClient(standalone.uri, event_listeners=[Told()]) as mongo:
            bucket = AsyncGridFSBucket(mongo[database_name])
            await bucket.upload_from_stream("photo.jpg", b"x" * 1000)
            transport = httpx.ASGITransport(app=GridFSApp(bucket))
            async with httpx.AsyncClient(transport=transport, base_url="http://files") as client:
                for method, headers, expected in (
                    ("GET", {}, ["aggregate"]),
                    ("HEAD", {}, ["find"]),
                    ("GET", {"If-None-Match": "*"}, ["find"]),
                    ("GET", {"Range": "bytes=5-9"}, ["find", "find"]),
                ):
                    sent.clear()
                    await client.request(method, "/photo.jpg", headers=headers)
                    assert sent == expected

    asyncio.run(steps())
