"""Engines start beside others and beside foreign processes, without using another's port, file or reply."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mangonel.engines import engine as engines
from mangonel.engines import stores
from mangonel.engines.nginx import nginx
from mangonel.engines.programs import Missing, find_program
from tools.needed import go_without

PROGRAMS = {"redis": "redis-server", "memcached": "memcached", "mysql": "mariadbd", "postgresql": "initdb"}

RUN = """
import socket, sys
from mangonel.engines.stores import running
with running(sys.argv[1]) as engine:
    socket.create_connection(("127.0.0.1", engine.port), 60).close()
    print(engine.port, flush=True)
    sys.stdin.read()
"""


def needed(program: str) -> None:
    try:
        find_program(program)
    except Missing as error:
        go_without(str(error))


@contextmanager
def taken_ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Let another server take the first free port that is found, and answer there."""
    free_port = engines.free_port
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port: int = stranger.getsockname()[1]
        ports = [port]
        monkeypatch.setattr(engines, "free_port", lambda: ports.pop() if ports else free_port())
        yield port
        assert not ports


@pytest.mark.enough(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_engine_whose_port_was_taken_meanwhile_starts_on_another(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed(PROGRAMS[name])
    with taken_ports(monkeypatch) as taken, stores.running(name) as engine:
        assert engine.port != taken
        assert f":{engine.port}" in engine.url
        assert str(taken) not in engine.url


def test_nginx_whose_port_was_taken_meanwhile_starts_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    needed("nginx")
    with taken_ports(monkeypatch) as taken, nginx([1]) as port:
        assert port != taken
        socket.create_connection(("127.0.0.1", port), 60).close()


def test_engine_starts_again_on_its_own_port_or_says_that_it_is_taken() -> None:
    needed("redis-server")
    with stores.running("redis") as engine:
        port = engine.port
        engine.stop()
        with (
            socket.create_server(("127.0.0.1", port), reuse_port=False),
            pytest.raises(Missing, match=f"port {port} is taken"),
        ):
            engine.start()
        engine.start()
        assert engine.port == port


def test_mariadb_leaves_the_temporary_tables_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed("mariadbd")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    others = [tmp_path / f"#sql-temptable-1a-1-0.{suffix}" for suffix in ("MAI", "MAD")]
    for path in others:
        path.write_bytes(b"a table of another server that starts now")
    with stores.running("mysql"):
        assert [path.exists() for path in others] == [True, True]


@pytest.mark.enough(1)
@pytest.mark.parametrize("name", ["redis", "mysql", "postgresql"])
def test_engines_that_start_at_the_same_time_do_not_disturb_each_other(name: str) -> None:
    needed(PROGRAMS[name])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    ports, errors = set(), []
    for process in processes:
        assert process.stdout is not None
        ports.add(process.stdout.readline())
    for process in processes:
        errors.append(process.communicate(timeout=60)[1])
    assert [process.returncode for process in processes] == [0, 0], errors
    assert len(ports) == 2
