"""Load for web sites: `ab` and `wrk` as in the original benchmarks, the lab's own generator, and visitors who keep
their cookies, which `ab` cannot do.

Checks the status of every response. Knows no session, no store and no database. oha and vegeta were considered: they
keep a constant rate, but do not check bodies, send cookies in turn or report their own lateness; oha is in no Debian
release and takes minutes to build.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mangonel.engines.programs import find_program
from mangonel.lab import cores

# Sends a GET for a path with a cookie; returns the status, the new cookie, and the body.
Ask: TypeAlias = "Callable[[str, str], Awaitable[tuple[int, str, bytes]]]"

TIMEOUT = 110.0
# The points of the original's chart, and the maximum.
PERCENTILES = (50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.9)
# A run is void if its generator's lag exceeds this share of the measured latency, both at p99.
LAG_SHARE = 0.1

_FAILURES = re.compile(rb"(?:Failed requests|Non-2xx responses):\s+(\d+)")
_RATE = re.compile(rb"Requests per second:\s+([\d.]+)")
_TOOK = re.compile(rb"Time taken for tests:\s+([\d.]+)")
_PERCENTILE = re.compile(rb"^\s+(\d+)%\s+(\d+)", re.MULTILINE)
_WRK_COUNT = re.compile(rb"(\d+) requests in ([\d.]+)(ms|s|m)\b")
_WRK_WRONG = re.compile(rb"(Socket errors:.*|Non-2xx or 3xx responses:.*)")


@dataclass(frozen=True)
class AbRun:
    """The output of `ab`: requests per second, total seconds, and its percentile lines in ms."""

    requests_per_second: float
    seconds: float
    percentiles_ms: dict[int, int]


def run_ab(url: str, requests: int, at_once: int, *, same_length: bool = True) -> AbRun:
    """Send requests with `ab`, without keep-alive and cookies; RuntimeError if one failed.

    `same_length`: treat a length that differs from the first response's as a failure; wrong if they differ by design.
    """
    length = [] if same_length else ["-l"]
    found = _run("ab", "-q", "-s", "60", *length, "-n", str(requests), "-c", str(at_once), url)
    failed = sum(int(count) for count in _FAILURES.findall(found.stdout))
    if found.returncode or failed:
        raise RuntimeError(f"ab: {failed} of {requests} requests failed: {_end(found.stderr)}")
    rate, took = _RATE.search(found.stdout), _TOOK.search(found.stdout)
    if rate is None or took is None:
        raise RuntimeError(f"ab printed no figures: {_end(found.stdout)}")
    lines = {int(share): int(ms) for share, ms in _PERCENTILE.findall(found.stdout)}
    return AbRun(float(rate[1]), float(took[1]), lines)


def run_wrk(url: str, seconds: float, at_once: int, *, script: str = "") -> float:
    """Load a site with `wrk`, optionally with a Lua script; return requests per second. RuntimeError on a wrong one."""
    words = ["-t", "1", "-c", str(at_once), "-d", f"{max(1, round(seconds))}s"]
    found = _run("wrk", *words, *(["-s", script] if script else []), url)
    wrong = _WRK_WRONG.search(found.stdout)
    count = _WRK_COUNT.search(found.stdout)
    if found.returncode or wrong or count is None:
        raise RuntimeError(f"wrk: {_end(wrong[1] if wrong else found.stderr or found.stdout)}")
    scale = {b"ms": 0.001, b"s": 1.0, b"m": 60.0}[count[3]]
    return int(count[1]) / (float(count[2]) * scale)


def _run(program: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    with cores.kept("load"):
        return subprocess.run(
            [find_program(program), *words], capture_output=True, timeout=TIMEOUT, check=False
        )


def _end(output: bytes) -> str:
    return output[-300:].decode(errors="replace")


@dataclass(frozen=True)
class Seen:
    """The generator's figures."""

    seconds: float  # from the first request, or its intended moment, to the last answer
    # One for each response, in ascending order; at a constant rate from the due time.
    latencies_us: list[int]
    services_us: list[int]  # the same from the moment of sending, as a closed loop measures
    lags_us: list[int]  # the generator's lateness for each request, ascending; empty for closed loops
    waiting: int  # the most requests that were due and had no connection free
    cpu_s: float  # the generator's own processor time

    @property
    def is_void(self) -> bool:
        """Return whether the generator's own lateness is too large to distinguish from the site's."""
        lags = self.lags_us
        return bool(lags) and percentile(lags, 99.0) > LAG_SHARE * percentile(self.latencies_us, 99.0)

    def histograms(self) -> dict[str, str]:
        """Return the histograms for the result file, in HdrHistogram's own format; empty for a void run.

        A closed loop has "service" alone: it sends nothing while it waits, so it has no response time.
        """
        from mangonel.lab.latency import Latencies

        measured = {"service": self.services_us}
        if self.lags_us:
            measured |= {"response": self.latencies_us, "lag": self.lags_us}
        found = {}
        for name, values in () if self.is_void else measured.items():
            kept = Latencies()
            for value in values:
                kept.record(value * 1000)
            found[name] = kept.encode()
        return found

    def figures(self) -> dict[str, float]:
        """Return percentiles and lag by their names in results, in µs: `p50`, `p99.9`, `max`, `lag_p99`, `void`.

        A void run has no percentiles, but reports the generator's lateness.
        """
        lag = {"lag_p99": float(percentile(self.lags_us, 99.0))} if self.lags_us else {}
        if self.is_void:
            return {**lag, "void": 1.0}
        found = {f"p{share:g}": float(percentile(self.latencies_us, share)) for share in PERCENTILES}
        found["max"] = float(self.latencies_us[-1])
        return found | ({**lag, "void": 0.0, "waiting": float(self.waiting)} if lag else {})


def percentile(ordered: Sequence[int], share: float) -> int:
    """Return the smallest value that `share` per cent of the values do not exceed (nearest rank)."""
    if not ordered:
        raise ValueError("expected at least one value, got none")
    # Parts per million, since 99.9 of 100 times 1000 is not 999 in floating point.
    rank = -(-round(share * 10_000) * len(ordered) // 1_000_000)
    return ordered[max(0, min(rank, len(ordered)) - 1)]


def generate(
    port: int,
    requests: int,
    at_once: int,
    *,
    rate: float = 0.0,
    keep_alive: bool = True,
    targets: Sequence[tuple[str, str]] = (("/", ""),),
    expected: str | None = None,
    seconds: float = TIMEOUT - 10,
) -> Seen:
    """Load a local site from a separate process, as `generator.Load` does; RuntimeError on a wrong response."""
    order: dict[str, Any] = {"port": port, "requests": requests, "at_once": at_once, "rate": rate}
    order |= {"keep_alive": keep_alive, "targets": list(targets), "expected": expected, "seconds": seconds}
    with tempfile.TemporaryFile() as words, cores.kept("load"):
        result = subprocess.run(
            [sys.executable, "-m", "mangonel.lab.generator"],
            input=json.dumps(order).encode(),
            stdout=subprocess.PIPE,
            stderr=words,
            timeout=seconds + 30,
            check=False,
        )
        if result.returncode:
            words.seek(0)
            raise RuntimeError(f"the load generator broke: {_end(words.read())}")
    told: dict[str, Any] = json.loads(result.stdout)
    if "error" in told:
        raise RuntimeError(f"the load generator stopped: {told['error']}")
    for name in ("latencies_us", "services_us", "lags_us"):
        told[name].sort()
    return Seen(**told)


async def asked(reader: Any, writer: Any, path: str, cookie: str) -> tuple[int, str, bytes]:
    """Send a GET over an open connection; return the status, the new cookie, and the body."""
    header = f"Cookie: {cookie}\r\n" if cookie else ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: lab\r\n{header}\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length, given = 0, ""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        elif name.lower() == b"set-cookie":
            given = value.split(b";", 1)[0].strip().decode()
    return int(head.split(b" ", 2)[1]), given, await reader.readexactly(length)


async def players(port: int, at_once: int, play: Callable[[Ask, int], Awaitable[None]]) -> None:
    """Run `at_once` players concurrently, each with its number and its own connection to send requests on."""

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            await play(functools.partial(asked, reader, writer), number)

    await asyncio.gather(*map(one, range(at_once)))


def visit_all(port: int, requests: Sequence[tuple[str, str]], at_once: int) -> list[str]:
    """Send a GET for each path and cookie over `at_once` keep-alive connections; return the new cookies."""
    found: list[str] = []

    # Each connection has its own share: if cookies rotate in step with it, no visitor overlaps itself.
    async def visit(ask: Ask, number: int) -> None:
        for path, cookie in requests[number::at_once]:
            status, given, _ = await ask(path, cookie)
            if status != 200:
                raise RuntimeError(f"expected 200 for {path}, got {status}")
            if given:
                found.append(given)

    asyncio.run(players(port, at_once, visit))
    return found
