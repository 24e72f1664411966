"""`python tools/docs_dashboard.py PROMETHEUS`: draw the Grafana dashboard of the docs, with real data.

Plays two minutes of a replica set that loses its primary, lets the program PROMETHEUS (Debian: `prometheus`) scrape the
client, asks it every query of `docs/assets/grafana-mangonel.json`, and writes `docs/images/dashboard-light.svg` and
`-dark.svg`: panels in Grafana's places, with their titles, units and legends. Exit status 1 if a panel has no data.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BOARD = ROOT / "docs/assets/grafana-mangonel.json"
IMAGES = ROOT / "docs/images"
SECONDS, LOST_AFTER = 120, 60
# Grafana has 24 columns.
COLUMN, ROW, GAP, LEGEND = 50, 27, 8, 56
INK = {
    "light": ("#1f2328", "#59636e", "#ffffff", "#f6f8fa", "#d1d9e0"),
    "dark": ("#e6edf3", "#9198a1", "#0d1117", "#161b22", "#3d444d"),
}
LINES = {
    "light": ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700"),
    "dark": ("#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#f778ba", "#d29922"),
}

Points = list[tuple[float, float]]


def amount(value: float, unit: str) -> str:
    """Return a value in words, as Grafana shows a unit."""
    if unit == "percentunit":
        return f"{value:.2%}".replace("%", " %")
    if unit == "s":
        for factor, name in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
            if value * factor >= 1:
                return f"{value * factor:.3g} {name}"
        return "0 s"
    for factor, name in ((1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {name}{'B/s' if unit == 'Bps' else '/s' if unit == 'ops' else ''}"
    return f"{value:.3g}{' B/s' if unit == 'Bps' else ' /s' if unit == 'ops' else ''}"


class Asked:
    """The answers of a running Prometheus about the time of the play."""

    def __init__(self, address: str, start: float, end: float) -> None:
        self._address, self.start, self.end = address, start, end

    def series(self, target: dict[str, Any]) -> dict[str, Points]:
        """Return the points of a query's lines, by the text of the legend."""
        query = re.sub(r'job=~"\$job",instance=~"\$instance",?', "", target["expr"])
        query = query.replace("$__rate_interval", "10s").replace("{}", "")
        asked = urllib.parse.urlencode({"query": query, "start": self.start, "end": self.end, "step": 2})
        with urllib.request.urlopen(f"http://{self._address}/api/v1/query_range?{asked}") as answer:
            found = json.load(answer)["data"]["result"]
        return {
            re.sub(
                r"\{\{(\w+)\}\}",
                lambda name, labels=each["metric"]: labels.get(name[1], ""),
                target.get("legendFormat", ""),
            ).strip(" ."): [(at, float(value)) for at, value in each["values"] if value != "NaN"]
            for each in found
        }


def panel(asked: Asked, one: dict[str, Any], theme: str) -> tuple[str, bool]:
    """Return a panel as SVG, and whether it has data."""
    ink, muted, _, ground, edge = INK[theme]
    place, unit = one["gridPos"], one["fieldConfig"]["defaults"].get("unit", "short")
    x, y = place["x"] * COLUMN + GAP / 2, place["y"] * ROW + GAP / 2
    width, height = place["w"] * COLUMN - GAP, place["h"] * ROW - GAP
    drawn = [
        f'<g transform="translate({x} {y})">'
        f'<rect width="{width}" height="{height}" rx="4" fill="{ground}" stroke="{edge}"/>'
        f'<text x="10" y="19" font-weight="600" fill="{ink}">{html.escape(one["title"])}</text>'
    ]
    series: dict[str, Points] = {}
    for target in one.get("targets", ()):
        series.update(asked.series(target))
    series = {name: points for name, points in series.items() if points}
    if one["type"] == "stat":
        last = amount(next(iter(series.values()))[-1][1], unit) if series else "no data"
        drawn.append(
            f'<text x="{width / 2}" y="{height * 0.68}" font-size="30" text-anchor="middle" fill="{ink}">{last}</text>'
        )
    else:
        names = sorted(series, key=lambda name: -max(value for _, value in series[name]))[: len(LINES[theme])]
        most = max((value for name in names for _, value in series[name]), default=0.0) or 1.0
        step = 10 ** math.floor(math.log10(most / 2))
        step *= next(factor for factor in (1, 2, 5, 10) if most / (factor * step) <= 4)
        top, left, bottom = 34, 62, height - LEGEND
        scale = (bottom - top) / (math.ceil(most / step) * step)
        for mark in range(math.ceil(most / step) + 1):
            level = bottom - mark * step * scale
            words = amount(mark * step, unit)
            drawn.append(
                f'<path d="M{left} {level:.1f}H{width - 10}" stroke="{edge}"/>'
                f'<text x="{left - 6}" y="{level + 4:.1f}" text-anchor="end" fill="{muted}">{words}</text>'
            )
        for name, colour in zip(names, LINES[theme], strict=False):
            second = (width - 10 - left) / (asked.end - asked.start)
            path = "L".join(
                f"{left + (at - asked.start) * second:.1f} {bottom - value * scale:.1f}"
                for at, value in series[name]
            )
            drawn.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        longest = max(map(len, names), default=0)
        across = int(width // (20 + 7 * longest)) if longest else 1
        for index, (name, colour) in enumerate(zip(names, LINES[theme], strict=False)):
            at, line = 14 + index % across * (width - 14) / across, height - 34 + index // across * 14
            drawn.append(
                f'<path d="M{at:.0f} {line - 4}h10" stroke="{colour}" stroke-width="3"/>'
                f'<text x="{at + 14:.0f}" y="{line}" fill="{muted}">{html.escape(name)}</text>'
            )
    return "".join(drawn) + "</g>", bool(series)


def picture(asked: Asked, theme: str) -> tuple[str, list[str]]:
    """Return the dashboard as SVG, and the titles of the panels without data."""
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    drawn = [(each["title"], *panel(asked, each, theme)) for each in board["panels"]]
    height = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in board["panels"]) * ROW
    width = 24 * COLUMN
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" '
        f'font-family="system-ui,sans-serif" font-size="11" role="img"><title>{html.escape(board["title"])}</title>'
        f'<rect width="100%" height="100%" fill="{INK[theme][2]}"/>{"".join(text for _, text, _ in drawn)}</svg>\n'
    )
    return svg, [title for title, _, has_data in drawn if not has_data]


@contextmanager
def prometheus(program: str, port: int) -> Iterator[str]:
    """Run Prometheus, which scrapes this process at `port`; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "prometheus.yml")
        target = {"job_name": "shop", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        # YAML takes JSON.
        settings.write_text(json.dumps({"global": {"scrape_interval": "2s"}, "scrape_configs": [target]}))
        options = [
            f"--config.file={settings}",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={address}",
        ]
        running = subprocess.Popen([program, *options], stderr=subprocess.DEVNULL)
        try:
            yield address
        finally:
            running.terminate()
            running.wait()


def play(client: Any, primary: Any) -> None:
    """Work like a shop for a while; the primary is lost in the middle and comes back."""
    from mangonel.errors import PyMongoError

    shop, end = client.shop, time.monotonic() + SECONDS

    def work(number: int) -> None:
        chance = random.Random(number)
        while time.monotonic() < end:
            with suppress(PyMongoError):
                user = chance.randrange(1000)
                shop.users.update_one({"_id": user}, {"$inc": {"visits": 1}}, upsert=True)
                for _ in range(4):
                    shop.users.find_one({"_id": chance.randrange(1000)})
                if not chance.randrange(5):
                    shop.orders.insert_many([{"user": user, "total": chance.random()} for _ in range(20)])
                if not chance.randrange(20):
                    shop.orders.find({}, batch_size=10).limit(50).to_list()
                    next(shop.orders.find({}, batch_size=2), None)
                if not chance.randrange(25):
                    shop.users.insert_one({"_id": user})
                if not chance.randrange(40):
                    shop.orders.aggregate(
                        [{"$group": {"_id": "$user", "total": {"$sum": "$total"}}}]
                    ).to_list()
            time.sleep(chance.random() * 0.1)

    visitors = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for each in visitors:
        each.start()
    time.sleep(LOST_AFTER)
    primary.kill()
    time.sleep(20)
    primary.restart()
    for each in visitors:
        each.join()


def main() -> int:
    """Play, draw and write; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("prometheus", metavar="PROMETHEUS", help="the program")
    program = parser.parse_args().prometheus

    from prometheus_client import CollectorRegistry, start_http_server

    from mangonel import MongoClient, server
    from mangonel.contrib.prometheus import measure

    registry = CollectorRegistry()
    missing: list[str] = []
    with (
        server.start(replica_set=3) as running,
        MongoClient(running.uri, maxPoolSize=4, waitQueueTimeoutMS=2000) as client,
    ):
        measure(client, registry)
        exporter, _ = start_http_server(0, "127.0.0.1", registry)
        with prometheus(program, exporter.server_port) as address:
            start = time.time()
            play(client, running.primary)
            asked = Asked(address, start + 10, time.time())
            for theme in INK:
                svg, missing = picture(asked, theme)
                IMAGES.joinpath(f"dashboard-{theme}.svg").write_text(svg, encoding="utf-8")
        exporter.shutdown()
    for title in missing:
        print(f"no data: {title}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
