"""Groups of Redis servers: a cluster of three, perhaps with replicas, and a master with its replica and a Sentinel;
plain, or all over TLS.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

from redis import Redis
from redis.crc import key_slot

from mangonel.engines.certificates import Certificates
from mangonel.engines.engine import PORT, Engine, accepts
from mangonel.engines.programs import find_program
from mangonel.server.process import free_port

SLOTS = 16_384
BUS = "bus.conf"
TIMEOUT = 60.0


def server(
    stack: ExitStack, *more: str, tls: Certificates | None = None, is_in_cluster: bool = False
) -> Engine:
    folder = stack.enter_context(
        tempfile.TemporaryDirectory(prefix="mangonel-redis-", ignore_cleanup_errors=True)
    )
    command = [find_program("redis-server"), *_words(PORT, tls), "--bind", "127.0.0.1", "--dir", folder]
    command += ["--save", "", "--repl-diskless-sync-delay", "0", *more]
    if is_in_cluster:
        command += ["--cluster-enabled", "yes", "--include", BUS]
    engine = Engine("redis", "", command, folder, None, accepts)
    if is_in_cluster:
        # Any connection of this machine may use the servers' default bus port. If another program has taken the port or
        # the bus port by then, a new pair is chosen.
        engine.prepare = lambda _: Path(folder, BUS).write_text(f"cluster-port {free_port()}\n")
    stack.callback(engine.kill)
    engine.start()
    return engine


def _words(port: str, tls: Certificates | None) -> list[str]:
    """Return a server's options for its port and its trusted authority; Sentinel's file gets the same."""
    if tls is None:
        return ["--port", port]
    files = ["--tls-ca-cert-file", str(tls.ca), "--tls-cert-file", str(tls.certificate)]
    files += ["--tls-key-file", str(tls.key), "--tls-auth-clients", "no", "--tls-replication", "yes"]
    return ["--port", "0", "--tls-port", port, *files]


def client_of(port: int, tls: Certificates | None) -> Any:
    secured: dict[str, Any] = {"ssl": True, "ssl_ca_certs": str(tls.ca)} if tls else {}
    return contextlib.closing(Redis(port=port, protocol=2, **secured))


def until(port: int, is_so: Callable[[Any], bool], tls: Certificates | None = None) -> None:
    """Wait until `is_so` is true of a client of the server on this port."""
    deadline = time.monotonic() + TIMEOUT
    with client_of(port, tls) as client:
        while not is_so(client):
            assert time.monotonic() < deadline, "the servers did not find each other"
            time.sleep(0.05)


def query_of(tls: Certificates | None) -> tuple[str, str]:
    """Return the start and the end of a URL."""
    return ("rediss", f"?tlsCAFile={quote(str(tls.ca))}&") if tls else ("redis", "?")


class Cluster:
    """A running cluster.

    Attributes:
        url: of its masters; options may be added.
        masters: three.
        replicas: one of each, or none.
    """

    def __init__(self, stack: ExitStack, tls: Certificates | None, *, has_replicas: bool) -> None:
        self._tls = tls
        secure = ["--tls-cluster", "yes"] if tls else []
        started = [
            server(stack, *secure, tls=tls, is_in_cluster=True) for _ in range(6 if has_replicas else 3)
        ]
        self.masters, self.replicas = started[:3], started[3:]
        with client_of(started[0].port, tls) as client:
            bus = client.config_get("cluster-port")["cluster-port"]
        for number, engine in enumerate(self.masters):
            own = range(SLOTS * number // 3, SLOTS * (number + 1) // 3)
            with client_of(engine.port, tls) as client:
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", own[0], own[-1])
        for number, engine in enumerate(started):
            with client_of(engine.port, tls) as client:
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", started[0].port, bus)
        for engine in started:
            until(engine.port, lambda client: client.cluster("INFO")["cluster_state"] == "ok", tls)
            until(engine.port, lambda client: len(client.cluster("NODES")) == len(started), tls)
        for master, replica in zip(self.masters, self.replicas, strict=False):
            with client_of(master.port, tls) as client:
                name = client.execute_command("CLUSTER", "MYID").decode()
            with client_of(replica.port, tls) as client:
                client.execute_command("CLUSTER", "REPLICATE", name)
            until(master.port, _is_followed, tls)
        before, after = query_of(tls)
        addresses = ",".join(f"127.0.0.1:{engine.port}" for engine in self.masters)
        self.url = f"{before}+cluster://{addresses}{after}"

    def of_first(self, name: bytes) -> bool:
        """Return whether a key belongs to the first master."""
        return key_slot(name) < SLOTS // 3

    def until_heard(self) -> None:
        """Return when each replica has what its master has now."""
        for master in self.masters:
            with client_of(master.port, self._tls) as client:
                offset = client.info("replication")["master_repl_offset"]
            until(
                master.port,
                lambda client, sent=offset: client.info("replication")["slave0"]["offset"] >= sent,
                self._tls,
            )

    def kill_first(self) -> None:
        """Kill the first master, and return when its replica has taken over."""
        left = [*self.masters[1:], *self.replicas]
        # The time-out becomes short only now, so that a busy machine alone causes no failover.
        self._be_patient(left, 1000)
        self.masters[0].kill()
        until(self.replicas[0].port, lambda client: client.info("replication")["role"] == "master", self._tls)
        self._be_patient(left, 15_000)

    def _be_patient(self, engines: list[Engine], milliseconds: int) -> None:
        for engine in engines:
            with client_of(engine.port, self._tls) as client:
                client.config_set("cluster-node-timeout", milliseconds)


@contextlib.contextmanager
def cluster(tls: Certificates | None = None, *, has_replicas: bool = False) -> Iterator[Cluster]:
    """Yield a cluster."""
    with ExitStack() as stack:
        yield Cluster(stack, tls, has_replicas=has_replicas)


@contextlib.contextmanager
def guarded_by_sentinel(tls: Certificates | None = None) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the URL of a master with a replica, and a function that kills the master."""
    with ExitStack() as stack:
        master = server(stack, tls=tls)
        server(stack, "--replicaof", "127.0.0.1", str(master.port), tls=tls)
        until(master.port, _is_followed, tls)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mangonel-sentinel-"))
        path = Path(folder, "sentinel.conf")
        words = [find_program("redis-server"), str(path), "--sentinel"]
        sentinel = Engine("sentinel", "", words, folder, None, accepts)
        sentinel.prepare = lambda port: _configure(path, port, master.port, tls)
        stack.callback(sentinel.kill)
        sentinel.start()
        knows = "SENTINEL", "REPLICAS", "app"
        until(sentinel.port, lambda client: len(client.execute_command(*knows)) == 1, tls)

        def kill() -> None:
            # The time-out becomes short only now, so that a busy machine alone causes no failover.
            with client_of(sentinel.port, tls) as client:
                client.execute_command("SENTINEL", "SET", "app", "down-after-milliseconds", "100")
            master.kill()

        before, after = query_of(tls)
        yield f"{before}+sentinel://127.0.0.1:{sentinel.port}/app/0{after}", kill


def _is_followed(client: Any) -> bool:
    return bool(client.info("replication").get("slave0", {}).get("state") == "online")


def _configure(path: Path, port: int, master: int, tls: Certificates | None) -> None:
    words = _words(str(port), tls)
    own = "".join(f"{name[2:]} {value}\n" for name, value in zip(words[::2], words[1::2], strict=True))
    path.write_text(
        f"{own}bind 127.0.0.1\nsentinel monitor app 127.0.0.1 {master} 1\n"
        "sentinel down-after-milliseconds app 60000\nsentinel failover-timeout app 2000\n"
    )
