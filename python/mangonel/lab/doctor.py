"""`mangonel lab doctor`: cores, governor, steal, pressure, disk, line and server, and what of it is unfit."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mangonel.lab import registry, sentinel
from mangonel.lab.cores import available, places
from mangonel.lab.fingerprint import fingerprint, machine
from mangonel.lab.protocol import Child, ChildError

LOOPBACK_BYTES = 256 << 20
PIECE = 1 << 20
PROGRAMS = ("ab", "wrk", "nginx", "valgrind")


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, and what is wrong with it, or ""."""

    what: str
    found: str
    unfit: str = ""


def run(uri: str | None, write: Callable[[str], None] = print) -> int:
    """Look at everything, print it, and return 1 when something makes figures from here worthless."""
    findings = [*_machine(), *_server(uri), *_tools()]
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        write(
            f"{finding.what:<{width}}  {finding.found}"
            + (f"    UNFIT: {finding.unfit}" if finding.unfit else "")
        )
    unfit = [finding for finding in findings if finding.unfit]
    write(
        "\nfit for measuring" if not unfit else f"\nunfit for measuring: {', '.join(f.what for f in unfit)}"
    )
    return 1 if unfit else 0


def loops(count: int = 20) -> tuple[int, float]:
    """Return the best of so many fixed loops in ns, and how many times that the median one took."""
    taken = sorted(sentinel.loop_ns() for _ in range(count))
    return taken[0], taken[count // 2] / taken[0]


def _machine() -> list[Finding]:
    found = fingerprint(sys.argv)
    before = sentinel.ticks()
    best, spread = loops()
    fsync = sorted(sentinel.fsync_ns() for _ in range(10))[5] / 1e6
    loopback = loopback_mb_per_s()
    stolen = sentinel.stolen(before, sentinel.ticks())
    cores, load, pressure = found["cores"], found["load"][0], found["pressure"]
    governor = found["governor"]
    where = places(available())
    slow = governor in ("powersave", "ondemand", "conservative")
    return [
        Finding("machine", machine(found)),
        Finding("cores", str(cores), "client and server share one core" if cores < 2 else ""),
        Finding("governor", governor, "the clock rate follows the load; use `performance`" if slow else ""),
        Finding("load", f"{load:.2f}", "others are at work" if load > 0.5 * cores else ""),
        Finding(
            "pressure (PSI)",
            "not told by this kernel"
            if pressure < 0
            else f"{pressure:.1f} % of the last 10 s somebody waited for a core",
            "others are at work" if pressure > 20 else "",
        ),
        Finding(
            "steal",
            f"{100 * stolen:.1f} % now, {100 * found['stolen_since_boot']:.1f} % since boot",
            "the hypervisor gives this machine's time away" if stolen > sentinel.STOLEN else "",
        ),
        Finding(
            "fixed loop",
            f"{best / 1e6:.2f} ms at best, the median {spread:.2f} times that",
            "its time jumps about" if spread > sentinel.DISTURBED else "",
        ),
        Finding("equipment", f"on {where.words} while a site is loaded" if where else "kept nowhere"),
        Finding("fsync of 4 KiB", f"{fsync:.2f} ms"),
        Finding("loopback", f"{loopback:.0f} MB/s"),
    ]


def _server(uri: str | None) -> list[Finding]:
    from mangonel.lab.commands.play import deployment

    try:
        with deployment(uri) as (where, _):
            fixtures = Child("mangonel.lab.fixtures")
            try:
                fixtures.ask({"uri": where, "database": "mangonel_lab"}, 60)
                told = fixtures.ask({"do": "describe"}, 60)
            finally:
                fixtures.finish()
    except (ChildError, OSError, RuntimeError) as error:
        return [Finding("server", "cannot be reached", str(error))]
    except Exception as error:
        return [Finding("server", "cannot be started", f"{type(error).__name__}: {error}")]
    return [Finding("server", _name(told)), Finding("ping", f"{told['ping_us']} µs"), *_defaults(told)]


def _name(told: dict[str, Any]) -> str:
    cache = told["options"].get("cache_mb")
    return f"MongoDB {told['version']}, {told['topology']}, {told['engine']}" + (
        f", cache {cache} MB" if cache else ""
    )


def _defaults(told: dict[str, Any]) -> list[Finding]:
    concern = told["default_write_concern"]
    w = concern.get("w") if isinstance(concern, dict) else concern
    counted = told["options"].get("parameters", {}).get("reportOpWriteConcernCountersInServerStatus")
    return [
        Finding("default write concern", f"w: {w or 'as the server has it'} (experiments state their own)"),
        Finding(
            "write concerns counted",
            "yes" if counted else "no: the lab cannot prove with which w was written",
        ),
    ]


def _tools() -> list[Finding]:
    findings = []
    for name in PROGRAMS:
        path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
        findings.append(
            Finding(name, path or "not installed; what needs it is left out or uses the lab's own")
        )
    absent = [f"{c.id} ({reason})" for c in registry.contenders().values() if (reason := c.missing())]
    findings.append(Finding("peers missing", "; ".join(absent) or "none"))
    return findings


def loopback_mb_per_s() -> float:
    """Return how fast bytes go through a socket of this machine, in 10^6 bytes a second."""
    piece = os.urandom(PIECE)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def send() -> None:
            with socket.create_connection(listener.getsockname()) as line:
                for _ in range(LOOPBACK_BYTES // PIECE):
                    line.sendall(piece)

        sender = threading.Thread(target=send)
        sender.start()
        line, _ = listener.accept()
        taken, start, buffer = 0, time.perf_counter(), bytearray(PIECE)
        with line:
            while count := line.recv_into(buffer):
                taken += count
        spent = time.perf_counter() - start
        sender.join()
    return taken / spent / 1e6
