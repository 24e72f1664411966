"""The status page, which gets a report every second, and a health check for load balancers."""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

from tornado.websocket import WebSocketClosedError

from mangonel import timeout
from mangonel.demo.base import Base
from mangonel.demo.history import Reading
from mangonel.demo.live import SessionSocket
from mangonel.demo.metrics import Commands, Pools, Requests
from mangonel.errors import PyMongoError

EVERY_S = 0.5
TIMEOUT_S = 2.0


class StatusPage(Base):
    """The page with the live report."""

    async def get(self) -> None:
        """Show the page; its WebSocket supplies the report."""
        self.page("status.html", "Status")


class StatusSocket(SessionSocket):
    """Sends the report, and the samples since the last one; from memory, without a query."""

    def on_message(self, message: str | bytes) -> None:
        """Start once the page has announced itself."""
        if self._task is None and self.session.user is not None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        history, number = self.demo.history, 0
        try:
            while True:
                samples = history.since(number)
                told = {"report": report(self.demo), "history": samples, "begins": number == 0}
                number = history.next
                await self.write_message(json.dumps({"type": "status", **told}))
                await asyncio.sleep(EVERY_S)
        except WebSocketClosedError:
            return


class Health(Base):
    """`GET /health`: 200 while the database accepts writes, 503 otherwise. Needs no websession."""

    is_public = True
    use_session = False

    async def get(self) -> None:
        """Ask the primary."""
        try:
            with timeout(TIMEOUT_S):
                await self.demo.database.command("ping")
        except PyMongoError as error:
            self.set_status(503)
            self.finish({"ok": False, "error": type(error).__name__})
            return
        self.finish({"ok": True})


def report(demo: Any) -> dict[str, Any]:
    """Return the counters of all parts."""
    feed, client = demo.feed, demo.client
    servers = {
        f"{host}:{port}": {"type": server.server_type_name, "rtt_ms": _milliseconds(server.round_trip_time)}
        for (host, port), server in client.topology_description.server_descriptions().items()
    }
    return {
        "uptime": round(time.monotonic() - demo.began),
        "pid": os.getpid(),
        "servers": servers,
        "elections": demo.elections.summary(),
        "pools": demo.pools.summary(),
        "commands": demo.commands.summary(),
        "requests": demo.requests.summary(),
        "sessions": demo.events.summary(),
        "feed": {
            "events": feed.seen,
            "browsers": feed.readers,
            "kept": feed.ring.next - feed.ring.first,
            "opened again": feed.resumes,
        },
    }


def reading(client: Any, commands: Commands, pools: Pools, requests: Requests, **more: Any) -> Reading:
    """Return the counters for the history; `more` has the feed and the election counter."""
    servers = client.topology_description.server_descriptions().items()
    open_pools = pools.summary()["servers"]
    return Reading(
        {"events": more["feed"].seen, "commands": commands.count, "requests": requests.count},
        {
            "trips": {
                f"{host}:{port}": _milliseconds(each.round_trip_time) for (host, port), each in servers
            },
            "used": {address: pool["used"] for address, pool in open_pools.items()},
            "electing": more["elections"].summary()["electing"],
        },
    )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 2)
