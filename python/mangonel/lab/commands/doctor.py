"""`mangonel lab doctor`: checks cores, governor, steal, pressure, disk, loopback and server for benchmarking."""

from __future__ import annotations

import argparse
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

from mangonel.lab import registry, sentinel
from mangonel.lab.commands.play import deployment
from mangonel.lab.cores import available, places
from mangonel.lab.fingerprint import fingerprint, machine
from mangonel.lab.protocol import Child, ChildError
from mangonel.lab.scheduler import FIXTURES

LOOPBACK_BYTES = 256 << 20
PIECE = bytes(1 << 20)
PROGRAMS = ("ab", "wrk", "nginx", "valgrind")
Finding = tuple[str, str, str]  # the check, its result, and the fault or ""


def doctor_command(options: argparse.Namespace) -> int:
    """Check everything and print the results. Exit status 1 if figures from this machine would be worthless."""
    findings = [*_machine(), *_server(options.uri), *_tools()]
    width = max(len(what) for what, _, _ in findings)
    for what, found, wrong in findings:
        print(f"{what:<{width}}  {found}" + (f"    UNFIT: {wrong}" if wrong else ""))
    unfit = [what for what, _, wrong in findings if wrong]
    print("\nunfit for measuring: " + ", ".join(unfit) if unfit else "\nfit for measuring")
    return 1 if unfit else 0


def _machine() -> Iterator[Finding]:
    found = fingerprint(sys.argv)
    before = sentinel.ticks()
    loops = sorted(sentinel.loop_ns() for _ in range(20))
    spread = loops[10] / loops[0]
    fsync = sorted(sentinel.fsync_ns() for _ in range(10))[5] / 1e6
    loopback = _loopback_mb_per_s()
    stolen = sentinel.stolen(before, sentinel.ticks())
    cores, load, pressure = found["cores"], found["load"][0], found["pressure"]
    where, others = places(available()), "others are at work"
    slow = found["governor"] in ("powersave", "ondemand", "conservative")
    waited = f"{pressure:.1f} % of the last 10 s a process waited for a core"
    steal = f"{100 * stolen:.1f} % now, {100 * found['stolen_since_boot']:.1f} % since boot"
    taken = "the hypervisor gives this machine's time away"
    yield "machine", machine(found), ""
    yield "cores", str(cores), "client and server share one core" if cores < 2 else ""
    yield "governor", found["governor"], "the clock rate follows the load; use `performance`" if slow else ""
    yield "load", f"{load:.2f}", others if load > 0.5 * cores else ""
    told = "not told by this kernel" if pressure < 0 else waited
    yield "pressure (PSI)", told, others if pressure > 20 else ""
    yield "steal", steal, taken if stolen > sentinel.STOLEN else ""
    jumps = "its time jumps about" if spread > sentinel.DISTURBED else ""
    yield "fixed loop", f"{loops[0] / 1e6:.2f} ms at best, the median {spread:.2f} times that", jumps
    yield "equipment", f"on {where.words} while a site is loaded" if where else "kept nowhere", ""
    yield "fsync of 4 KiB", f"{fsync:.2f} ms", ""
    yield "loopback", f"{loopback:.0f} MB/s", ""


def _server(uri: str | None) -> Iterator[Finding]:
    try:
        with deployment(uri) as (where, _):
            fixtures = Child(FIXTURES)
            try:
                fixtures.ask({"uri": where, "database": "mangonel_lab"}, 60)
                told = fixtures.ask({"do": "describe"}, 60)
            finally:
                fixtures.finish()
    except (ChildError, OSError, RuntimeError) as error:
        yield "server", "cannot be reached", str(error)
        return
    except Exception as error:
        yield "server", "cannot be started", f"{type(error).__name__}: {error}"
        return
    options, concern = told["options"], told["default_write_concern"]
    cache = f", cache {options['cache_mb']} MB" if options.get("cache_mb") else ""
    w = (concern.get("w") if isinstance(concern, dict) else concern) or "as the server has it"
    counted = options.get("parameters", {}).get("reportOpWriteConcernCountersInServerStatus")
    yield "server", f"MongoDB {told['version']}, {told['topology']}, {told['engine']}{cache}", ""
    yield "ping", f"{told['ping_us']} µs", ""
    yield "default write concern", f"w: {w} (experiments state their own)", ""
    unproven = "no: the lab cannot prove with which w was written"
    yield "write concerns counted", "yes" if counted else unproven, ""


def _tools() -> Iterator[Finding]:
    for name in PROGRAMS:
        path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
        yield name, path or "not installed; contenders that need it are left out or use the lab's own", ""
    absent = [f"{c.id} ({reason})" for c in registry.contenders().values() if (reason := c.missing())]
    yield "peers missing", "; ".join(absent) or "none", ""


def _loopback_mb_per_s() -> float:
    """Return the throughput of a loopback socket, in 10^6 bytes a second."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def send() -> None:
            # If Ctrl-C ends the receiver, the sender ends too.
            with suppress(OSError), socket.create_connection(listener.getsockname()) as connection:
                for _ in range(LOOPBACK_BYTES // len(PIECE)):
                    connection.sendall(PIECE)

        sender = threading.Thread(target=send)
        sender.start()
        connection, _ = listener.accept()
        taken, start, buffer = 0, time.perf_counter(), bytearray(len(PIECE))
        with connection:
            while count := connection.recv_into(buffer):
                taken += count
        spent = time.perf_counter() - start
        sender.join()
    return taken / spent / 1e6
