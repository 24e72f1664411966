"""Features of Litestar and aiohttp alone: sessions set and cleared, responses that are raised, late bodies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from aiohttp import web
from applications import HOST, behind_tls, listening_aiohttp
from browser import after
from litestar import Litestar, Request, Response
from litestar.handlers import HTTPRouteHandler

from mangonel.websessions import MemoryStore, UsageError, WebSessions
from mangonel.websessions.frameworks import aiohttp as on_aiohttp
from mangonel.websessions.frameworks import litestar as on_litestar


def sessions_with() -> WebSessions[Any]:
    return WebSessions(MemoryStore(), events=lambda event: None)


async def test_litestar_sets_and_clears_a_session() -> None:
    async def page(request: Any) -> Any:
        before = dict(request.session)
        if "set" in request.query_params:
            request.set_session({"n": 1})
        if "clear" in request.query_params:
            request.clear_session()
        return Response(before)

    async def without(request: Any) -> Any:
        with pytest.raises(UsageError, match="SessionPlugin"):
            on_litestar.current_session(request)
        return Response({})

    for handler in (page, without):
        handler.__annotations__.update(request=Request, **{"return": Response})
    routes = [
        HTTPRouteHandler("/", http_method="GET")(page),
        HTTPRouteHandler("/health", http_method="GET")(without),
    ]
    sessions = sessions_with()
    plugin = on_litestar.SessionPlugin(sessions, exclude=["/health"])
    app = Litestar(routes, plugins=[plugin], logging_config=None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HOST) as client:
        await client.get("/?set")
        assert (await client.get("/")).json() == {"n": 1}
        answer = await client.get("/?clear")
        assert "Max-Age=0" in answer.headers["set-cookie"]
        assert (await client.get("/")).json() == {}
        assert (await client.get("/health")).status_code == 200
    assert [each for each in sessions.asynchronous.store().records.values() if each.is_live] == []


async def test_aiohttp_takes_what_a_handler_raises_makes_late_or_leaves_alone() -> None:
    sessions = sessions_with()

    async def raises(request: web.Request) -> web.Response:
        on_aiohttp.current_session(request).login("ada")
        raise web.HTTPFound("/")

    async def late(request: web.Request) -> web.Response:
        session = on_aiohttp.current_session(request)

        async def parts() -> AsyncIterator[bytes]:
            yield b"one"
            session["late"] = 1
            yield b"two"

        return web.Response(body=parts())

    async def show(request: web.Request) -> web.Response:
        session = on_aiohttp.current_session(request)
        return web.json_response({"user": session.user, **session})

    async def change(request: web.Request) -> web.Response:
        await on_aiohttp.check_csrf(request)
        return web.Response(text="done")

    async def token(request: web.Request) -> web.Response:
        return web.Response(text=on_aiohttp.current_session(request).csrf_token())

    async def without(request: web.Request) -> web.Response:
        with pytest.raises(UsageError, match="expected setup"):
            on_aiohttp.current_session(request)
        return web.Response()

    app = web.Application(middlewares=[behind_tls])
    on_aiohttp.setup(app, sessions, exclude=["/static/"])
    routes = {
        "/in": raises,
        "/late": late,
        "/": show,
        "/change": change,
        "/token": token,
        "/static/a": without,
    }
    for path, handler in routes.items():
        app.router.add_route("*", path, handler)
    url, _, stop = await listening_aiohttp(app)
    cookie: str | None = None

    async def get(path: str, method: str = "GET", **keywords: Any) -> httpx.Response:
        nonlocal cookie
        async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
            headers = {"Cookie": cookie} if cookie else {}
            answer = await client.request(method, path, headers=headers, **keywords)
        cookie = after(cookie, answer.headers.get_list("set-cookie"))
        return answer

    assert (await get("/in")).status_code == 302
    assert (await get("/late")).text == "onetwo"
    async with asyncio.timeout(60):
        # The last part leaves before its changes are stored, as in WSGI.
        while (await get("/")).json() != {"user": "ada", "late": 1}:
            await asyncio.sleep(0.01)
    assert (await get("/change", "POST")).status_code == 403
    value = (await get("/token")).text
    assert (await get("/change", "POST", data={"_csrf": value})).text == "done"
    assert (await get("/static/a")).status_code == 200
    assert (await get("/none")).status_code == 404
    await stop()
