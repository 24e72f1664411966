"""A page of 30 posts as JSON over HTTP: the published web comparison, as printed and as corrected.

One site process for each contender and round, loaded by a process of its own. Every response must have exactly the
bytes of the first, checked one. The client CPU of a row is the site's; the load's is reported separately.
"""

from __future__ import annotations

import importlib.util
import json
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from mangonel.engines.delay import Delay
from mangonel.engines.programs import has_program
from mangonel.lab import cores, documents
from mangonel.lab.contender import Target
from mangonel.lab.contenders import _wire
from mangonel.lab.contenders.drivers import DATABASE, PREFIX
from mangonel.lab.digest import digest
from mangonel.lab.experiment import Bench, Part, Size, Task, expect
from mangonel.lab.experiments._parts import Tabled
from mangonel.lab.experiments.process import Terminal
from mangonel.lab.fixtures import DATASETS, fill, modules, numbered_post
from mangonel.lab.site_process import SiteProcess
from mangonel.lab.webload import Seen, generate, run_ab, run_wrk

ALL_POSTS, FEW_POSTS = "web-posts", "few-web-posts"
AT_ONCE = 100
DELAY_MS = 2.5  # each way; a round trip is about 5.4 ms, the machine's own time included
POSTS = 30
WRK_SECONDS = 2
# Requests before the first sample: roughly enough for every driver to open its connections.
WARM = 300
# A site that blocks its loop serves one request per round trip to a database 5 ms away, so fewer requests suffice.
IN_TURN = frozenset(["pymongo", "mongoengine", "mangonel-blocking", "mongoengine-mangonel"])
REQUESTS_IN_TURN = 100
# Shares of each contender's own capacity, for the part whose rate is not the same for all.
SHARE = 0.75


class Site(SiteProcess):
    """The site's process, and the proxy to a remote database."""

    def __init__(self, kind: str, target: Target, collection: str, *, delayed: bool, original: bool) -> None:
        self._stack = ExitStack()
        self._asked = 0.0
        far = ""
        if delayed:
            with cores.kept("servers"):
                delay = self._stack.enter_context(closing(Delay(_wire.address(target.uri)[1], DELAY_MS)))
            far = f"mongodb://127.0.0.1:{delay.port}/?directConnection=true"
        order = {
            "kind": kind,
            "original": original,
            "uri": target.uri,
            "delayed": far,
            "database": target.database,
            "collection": collection,
        }
        # The original logged each request to a terminal.
        terminal = self._stack.enter_context(Terminal()) if original else None
        errors = terminal.writer if terminal else None
        super().__init__("mangonel.lab.pages.site", json.dumps(order), errors=errors)

    def cpu(self) -> float:
        now = float(self.get("/cpu"))
        used, self._asked = now - self._asked, now
        return used

    def close(self) -> None:
        super().close()
        self._stack.close()


def _site_of(bench: Bench, kind: str, collection: str, *, original: bool) -> Site:
    """Return the worker's site, shared by all parts of a form: starting one takes longer than loading it."""
    name = "original" if original else "site"
    site: Site | None = bench.kept.get(name)
    if site is not None and not site.is_over:
        return site
    if site is not None:
        site.close()
    delayed = not original and DATABASE in bench.contender.offers
    bench.kept[name] = site = Site(kind, bench.target, collection, delayed=delayed, original=original)
    return site


class PageTask(Task):
    def __init__(self, part: Part, bench: Bench) -> None:
        self._id = part.id
        self._posts = bench.size.parameters.get("posts", DATASETS[_dataset(bench.size)][0])
        # Filled before the first round, unless another number of posts was requested.
        is_filled = "posts" not in bench.size.parameters
        collection = bench.target.collection if is_filled else f"web_posts_{self._posts}"
        self._is_original = part.id.startswith("original")
        self._path = {"delayed": "/delayed", "newest": "/newest"}.get(part.id, "/")
        kind = bench.name.removeprefix(PREFIX)
        self._is_slow = part.id == "delayed" and kind in IN_TURN
        self._count = min(part.operations, REQUESTS_IN_TURN) if self._is_slow else part.operations
        if DATABASE in bench.contender.offers:
            ensure_posts(bench.target, collection, self._posts)
        self._site = _site_of(bench, kind, collection, original=self._is_original)
        self._url = f"http://127.0.0.1:{self._site.port}/"
        self._body = ""
        self._seen: Seen | None = None
        self._told: dict[str, float] = {}
        rate = part.id.removeprefix("rate-")
        self._rate = float(rate) if rate.isdigit() else 0.0

    def verify(self) -> str:
        """Compare a page with the stored posts, and return its digest."""
        self._body = self._site.get(self._path)
        numbers = (
            range(self._posts - 1, self._posts - 1 - POSTS, -1) if self._path == "/newest" else range(POSTS)
        )
        wanted = [_post(number, original=self._is_original) for number in numbers]
        found = json.loads(self._body)
        expect("page", found, wanted)
        return digest(json.dumps(found, sort_keys=True))

    def warm_up(self) -> None:
        """Open the driver's connections; if the rate is a share of the capacity, measure that."""
        requests = max(min(WARM, 2 * self._count), self._count // 10)
        if self._is_slow:
            requests = min(requests, REQUESTS_IN_TURN)
        if self._id == "rate-own":
            requests = max(1000, requests)
        seen = generate(self._site.port, requests, AT_ONCE, targets=[(self._path, "")], expected=self._body)
        if self._id == "rate-own":
            self._rate = SHARE * requests / seen.seconds
            # Fixed seconds, at any rate.
            self._count = max(200, round(self._count * self._rate / 450))

    def arrange(self) -> None:
        self._site.cpu()

    def act(self) -> int:
        count = self._count
        at_once = int(self._id.removeprefix("original-")) if self._is_original else AT_ONCE
        if self._is_original and has_program("ab"):
            run = run_ab(self._url, count, at_once)
            figures = {f"p{share}": ms * 1000.0 for share, ms in run.percentiles_ms.items()}
            self._told = {"wall_ns": run.seconds * 1e9, **figures}
        elif self._id == "wrk":
            self._told = {"wall_ns": count / run_wrk(self._url, WRK_SECONDS, AT_ONCE) * 1e9}
        else:
            self._seen = seen = generate(
                self._site.port,
                count,
                at_once,
                rate=self._rate,
                keep_alive=self._id != "new-connections" and not self._is_original,
                targets=[(self._path, "")],
                expected=self._body,
            )
            load_us = seen.cpu_s / count * 1e6
            self._told = {"wall_ns": seen.seconds * 1e9, "load_us": load_us, **seen.figures()}
            self._told |= {"rate": self._rate} if self._rate else {}
        return count

    def extras(self) -> dict[str, float]:
        """Return the load's time, the site's processor time, and percentiles of the latency in µs."""
        used = self._site.cpu()
        if self._id == "wrk":
            # It sends for a fixed time, not a fixed number of requests.
            used *= self._told["wall_ns"] / 1e9 / WRK_SECONDS
        return {**self._told, "cpu_ns": used * 1e9}

    def histograms(self) -> dict[str, str]:
        if self._seen is None or importlib.util.find_spec("hdrh") is None:
            return {}
        return self._seen.histograms()


def ensure_posts(target: Target, collection: str, count: int) -> None:
    """Fill a collection with `count` posts and an index, unless it has them; once for each server."""
    driver, types = modules()
    with driver.MongoClient(target.uri) as client:
        posts: Any = client[target.database].get_collection(collection)
        fill(posts, count, partial(numbered_post, types), "created")


def _post(number: int, *, original: bool) -> dict[str, str]:
    created = documents.post(number)["created"]
    text = f"{created:%Y-%m-%d %H:%M:%S}" if original else f"{created.isoformat(timespec='milliseconds')}Z"
    return {"_id": f"{number:024x}", "title": "Post title", "created": text}


def _dataset(size: Size) -> str:
    return FEW_POSTS if size.quick or size.brief else ALL_POSTS


class Web(Tabled):
    """Tornado, or gevent's server, and a page of 30 posts out of a million."""

    def filled(self, size: Size) -> str:
        """Return the form's collection of posts; the first worker fills one of another size."""
        return "" if "posts" in size.parameters else _dataset(size)


def _figures(size: Size, known: dict[str, Any]) -> dict[str, Any]:
    """Return further numbers of requests, and the load generator of the original's parts."""
    has_ab, requests, seconds = has_program("ab"), known["requests"], known["seconds"]
    further = {"half": requests // 2, "slow": 150 * seconds, "fast": 450 * seconds}
    further["by_wrk"] = requests if has_program("wrk") else 0
    return {**further, "tool": "ab" if has_ab else "the lab's own load, since ab is missing"}


EXPERIMENT = Web("web", PageTask, _figures)
