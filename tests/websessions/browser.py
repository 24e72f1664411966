"""A browser for tests: a cookie jar, and requests that start and end one by one, so that they can overlap."""

from __future__ import annotations

from typing import Any

from mangonel.websessions import MemoryStore, RequestView, WebSession, WebSessions
from mangonel.websessions.answer import take_headers
from mangonel.websessions.stores.meter import Meter
from mangonel.websessions.testing import FakeClock, RecordingEvents


def after(cookie: str | None, set_cookies: list[str]) -> str | None:
    """Return the Cookie header that a browser sends after an answer; None: no cookie is left."""
    jar = dict(part.split("=", 1) for part in cookie.split("; ")) if cookie else {}
    for each in set_cookies:
        name, _, value = each.partition(";")[0].partition("=")
        jar.pop(name, None)
        if "Max-Age=0" not in each:
            jar[name] = value
    return "; ".join(f"{name}={value}" for name, value in jar.items()) or None


class Browser:
    """Talks to websessions as a framework's adapter does; `cookie` is what the jar holds."""

    def __init__(
        self, sessions: WebSessions[Any], address: str = "192.0.2.7", agent: str = "Tests/1"
    ) -> None:
        self.sessions = sessions
        self.cookie: str | None = None
        self.address = address
        self.agent = agent
        self.last_headers: list[tuple[str, str]] = []

    def signal(self, name: str) -> str | None:
        return {"user_agent": self.agent, "address": self.address}.get(name)

    async def begin(self, cookie: str | None = None, is_secure: bool = True) -> WebSession[Any]:
        header = cookie if cookie is not None else self.cookie
        return await self.sessions.asynchronous.load(RequestView(header, is_secure, self.signal))

    async def end(self, session: WebSession[Any], is_lost: bool = False) -> list[tuple[str, str]]:
        """Commit and take the cookie, unless the response is lost."""
        await self.sessions.asynchronous.commit(session)
        headers = take_headers(session)
        if not is_lost:
            self.take(headers)
        self.last_headers = headers
        return headers

    def take(self, headers: list[tuple[str, str]]) -> None:
        self.cookie = after(self.cookie, [value for name, value in headers if name == "Set-Cookie"])

    async def store(self, **values: Any) -> WebSession[Any]:
        session = await self.begin()
        session.update(values)
        await self.end(session)
        return session

    async def read(self, cookie: str | None = None) -> dict[str, Any]:
        session = await self.begin(cookie)
        found = dict(session)
        await self.end(session, is_lost=cookie is not None)
        return found

    async def login(self, user: str, **keywords: Any) -> WebSession[Any]:
        session = await self.begin()
        session.login(user, **keywords)
        await self.end(session)
        return session

    async def logout(self) -> None:
        session = await self.begin()
        session.destroy()
        await self.end(session)


class Site:
    """Websessions on a memory store with a clock and a story; and browsers."""

    def __init__(self, **settings: Any) -> None:
        self.clock = FakeClock()
        self.events = RecordingEvents()
        self.memory = MemoryStore(self.clock)
        self.meter = Meter(self.memory)
        self.sessions: WebSessions[Any] = WebSessions(
            settings.pop("store", self.meter),
            **{"clock": self.clock, "events": self.events, **settings},
        )

    def browser(self, **keywords: Any) -> Browser:
        return Browser(self.sessions, **keywords)

    @property
    def stored(self) -> bytes:
        """Return the store's whole content as one text to search."""
        return repr(self.memory.records).encode() + b"".join(
            record.data + record.key for record in self.memory.records.values()
        )

    def live(self) -> list[Any]:
        return [record for record in self.memory.records.values() if record.is_live and record.issued]
