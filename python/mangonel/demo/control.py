"""What visitors may do to the demo's own deployment and shop: kill the primary, start it again, trade faster.

A deployment that somebody else runs is never touched: `deployment` is None then, and the page has no such button.
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

__all__ = ["Elections", "PrimaryAPI", "RateAPI", "Shop"]


class Elections(monitoring.TopologyListener):
    """How long the deployment has had no primary, and how long the last time was, as the driver sees it."""

    def __init__(self) -> None:
        self._lost: float | None = None
        self._has_begun = False
        self._last = 0.0
        self.count = 0

    def opened(self, event: monitoring.TopologyOpenedEvent) -> None:
        """Take no notice."""

    def closed(self, event: monitoring.TopologyClosedEvent) -> None:
        """Take no notice."""

    def description_changed(self, event: monitoring.TopologyDescriptionChangedEvent) -> None:
        """Note when the primary went, and when there was one again."""
        now = time.monotonic()
        if event.new_description.has_writable_server():
            if self._lost is not None:
                self._last, self.count = now - self._lost, self.count + 1
            self._lost, self._has_begun = None, True
        elif self._has_begun and self._lost is None:
            self._lost = now

    def summary(self) -> dict[str, Any]:
        """Return whether members elect, how many elections there were, and the seconds of the last one."""
        return {"electing": self._lost is not None, "count": self.count, "last_s": round(self._last, 1)}


class Shop:
    """The shop's process: a line on its input is a new rate, the end of the input ends it."""

    def __init__(self, process: asyncio.subprocess.Process, rate: float) -> None:
        self._process = process
        self.rate = rate

    async def trade(self, rate: float) -> None:
        """Let it write so many customers a second."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{rate}\n".encode())
        await self._process.stdin.drain()
        self.rate = rate


class RateAPI(Base):
    """`POST /api/rate?rate=N`: customers a second."""

    async def post(self) -> None:
        """Tell the shop."""
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
    """`POST /api/primary/kill` ends the primary as a power cut would, `/api/primary/restart` starts it again."""

    # One at a time: whoever asks twice must not kill two of three.
    _lock = threading.Lock()

    async def post(self, what: str) -> None:
        """Kill, or start whatever does not run."""
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
