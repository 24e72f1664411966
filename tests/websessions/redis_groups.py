"""Redis servers that belong together: a cluster of three, and a master with its replica and a Sentinel."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from redis import Redis

from mangonel.engines.engine import PORT, Engine, accepts
from mangonel.engines.programs import find_program
from mangonel.server.process import free_port

SLOTS = 16_384
TIMEOUT = 60.0


def server(stack: ExitStack, *more: str) -> Engine:
    folder = stack.enter_context(
        tempfile.TemporaryDirectory(prefix="mangonel-redis-", ignore_cleanup_errors=True)
    )
    command = [
        find_program("redis-server"),
        "--port",
        PORT,
        "--bind",
        "127.0.0.1",
        "--dir",
        folder,
        "--save",
        "",
    ]
    engine = Engine("redis", f"redis://127.0.0.1:{PORT}/0", [*command, *more], folder, None, accepts)
    stack.callback(engine.kill)
    engine.start()
    return engine


def until(stack: ExitStack, port: int, is_so: Callable[[Any], bool]) -> None:
    """Wait until a server says so."""
    client = stack.enter_context(contextlib.closing(Redis(port=port, protocol=2)))
    deadline = time.monotonic() + TIMEOUT
    while not is_so(client):
        assert time.monotonic() < deadline, "the servers did not find each other"
        time.sleep(0.05)


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """Yield the URL of a cluster."""
    with ExitStack() as stack:
        # Their usual port among themselves is one that any connection of this machine may have.
        buses = [free_port() for _ in range(3)]
        engines = [server(stack, "--cluster-enabled", "yes", "--cluster-port", str(bus)) for bus in buses]
        for number, engine in enumerate(engines):
            client = stack.enter_context(contextlib.closing(Redis(port=engine.port, protocol=2)))
            own = range(SLOTS * number // 3, SLOTS * (number + 1) // 3)
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", own[0], own[-1])
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", engines[0].port, buses[0])
        for engine in engines:
            until(stack, engine.port, lambda client: client.cluster("INFO")["cluster_state"] == "ok")
            until(stack, engine.port, lambda client: len(client.cluster("NODES")) == 3)
        yield "redis+cluster://" + ",".join(f"127.0.0.1:{engine.port}" for engine in engines)


@contextlib.contextmanager
def guarded_by_sentinel() -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the URL of a master with a replica, and what kills the master."""
    with ExitStack() as stack:
        master = server(stack)
        server(stack, "--replicaof", "127.0.0.1", str(master.port))
        until(stack, master.port, lambda client: _is_followed(client))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mangonel-sentinel-"))
        path = Path(folder, "sentinel.conf")
        words = [find_program("redis-server"), str(path), "--sentinel"]
        sentinel = Engine("sentinel", "", words, folder, None, accepts)
        sentinel.prepare = lambda port: _configure(path, port, master.port)
        stack.callback(sentinel.kill)
        sentinel.start()
        knows = "SENTINEL", "REPLICAS", "app"
        until(stack, sentinel.port, lambda client: len(client.execute_command(*knows)) == 1)

        def kill() -> None:
            # A busy machine alone must not make it give a master up, so it becomes impatient only now.
            with contextlib.closing(Redis(port=sentinel.port, protocol=2)) as client:
                client.execute_command("SENTINEL", "SET", "app", "down-after-milliseconds", "100")
            master.kill()

        yield f"redis+sentinel://127.0.0.1:{sentinel.port}/app/0", kill


def _is_followed(client: Any) -> bool:
    return bool(client.info("replication").get("slave0", {}).get("state") == "online")


def _configure(path: Path, port: int, master: int) -> None:
    path.write_text(
        f"port {port}\nbind 127.0.0.1\nsentinel monitor app 127.0.0.1 {master} 1\n"
        "sentinel down-after-milliseconds app 60000\nsentinel failover-timeout app 2000\n"
    )
