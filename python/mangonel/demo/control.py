"""Controls for visitors: kill or restart the demo's own primary, change the shop's rate.

They never touch the user's own deployment: then `deployment` is None, and the page has no such button.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from tornado.web import HTTPError

from mangonel import monitoring
from mangonel.demo.base import Base
from mangonel.demo.settings import MAX_RATE
from mangonel.server import ServerError


class Elections(monitoring.TopologyListener):
    """How long the driver has seen no primary: the current gap, and the last one that ended."""

    def __init__(self) -> None:
        self._lost: float | None = None
        self._has_begun = False
        self._last = 0.0
        self.count = 0

    def opened(self, event: monitoring.TopologyOpenedEvent) -> None:
        """Ignore the event."""

    def closed(self, event: monitoring.TopologyClosedEvent) -> None:
        """Ignore the event."""

    def description_changed(self, event: monitoring.TopologyDescriptionChangedEvent) -> None:
        """Record when the primary was lost, and when there was one again."""
        now = time.monotonic()
        if event.new_description.has_writable_server():
            if self._lost is not None:
                self._last, self.count = now - self._lost, self.count + 1
            self._lost, self._has_begun = None, True
        elif self._has_begun and self._lost is None:
            self._lost = now

    def summary(self) -> dict[str, Any]:
        """Return whether an election is under way, the number of elections, and the seconds of the last one."""
        return {"electing": self._lost is not None, "count": self.count, "last_s": round(self._last, 1)}


class Shop:
    """The shop's process: a line on its input sets the rate, the end of its input ends it."""

    def __init__(self, process: asyncio.subprocess.Process, rate: float) -> None:
        self._process = process
        self.rate = rate

    async def trade(self, rate: float) -> None:
        """Set how many customers it writes in a second."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{rate}\n".encode())
        await self._process.stdin.drain()
        self.rate = rate


class RateAPI(Base):
    """`POST /api/rate?rate=N`: sets customers per second."""

    async def post(self) -> None:
        """Pass the rate to the shop."""
        try:
            rate = float(self.get_query_argument("rate"))
        except ValueError:
            rate = -1.0
        if not 0 <= rate <= MAX_RATE:
            raise HTTPError(400, f"expected a rate from 0 to {MAX_RATE}")
        if self.demo.shop is None:
            raise HTTPError(409, "the shop is closed; start the demo with --rate")
        await self.demo.shop.trade(rate)
        self.finish({"rate": rate})


class PrimaryAPI(Base):
    """`POST /api/primary/kill` kills the primary as a power failure would, `/api/primary/restart` restarts it."""

    # One at a time: a double click must not kill two members of three.
    _lock = threading.Lock()

    async def post(self, what: str) -> None:
        """Kill the primary, or restart every member that does not run."""
        deployment = self.demo.deployment
        if deployment is None:
            raise HTTPError(409, "this deployment is not the demo's own")
        try:
            address = await asyncio.to_thread(self._carry_out, deployment, what)
        except ServerError as error:
            raise HTTPError(409, str(error)) from error
        self.finish({what: address})

    def _carry_out(self, deployment: Any, what: str) -> str:
        with self._lock:
            ended = [member for member in deployment.members if not member.is_running]
            if what == "restart":
                for member in ended:
                    member.restart()
                return ", ".join(member.address for member in ended)
            if ended:
                raise ServerError(f"{ended[0].address} is down already; start it again first")
            primary = deployment.wait_for_primary(timeout=10)
            primary.kill()
            return str(primary.address)
