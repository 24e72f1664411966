"""The command line: the output of `mangonel serve`, its end, and the errors for wrong arguments."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymongo
import pytest

from mangonel.cli import parser_of
from mangonel.server.serve import _port
from tools.held_port import held_port, port_of

COMMAND = [sys.executable, "-m", "mangonel"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60)


@contextmanager
def serve(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        except BaseException:
            # A failing test must not wait for a process that never ends.
            process.kill()
            raise


def read_uri(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.no_sample)])
def test_serve_prints_the_uri_and_runs_until_it_is_interrupted(number: signal.Signals) -> None:
    with serve() as process:
        with pymongo.MongoClient(read_uri(process)) as client:
            pid = client.admin.command("serverStatus")["pid"]
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "Ctrl-C stops it" in err
    assert "Traceback" not in err
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.no_sample
def test_serve_takes_members_directory_port_and_user(tmp_path: Path) -> None:
    arguments = ("--replica-set", "1", "--dbpath", str(tmp_path), "--auth", "ada:x")
    with held_port() as held, serve(*arguments, "--port", str(port_of(held))) as process:
        uri = read_uri(process)
        assert uri == f"mongodb://ada:x@127.0.0.1:{port_of(held)}/?replicaSet=rs0"
        with pymongo.MongoClient(uri) as client:
            client.test.things.insert_one({})
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert (tmp_path / "mangonel.json").exists()


@pytest.mark.no_sample
def test_serve_ends_with_an_error_when_mongod_dies() -> None:
    with serve() as process:
        with pymongo.MongoClient(read_uri(process)) as client:
            os.kill(client.admin.command("serverStatus")["pid"], signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search(r"mongod ended by itself: 127\.0\.0\.1:\d+, exit status -9\n  \w", err)


def patient(uri: str) -> pymongo.MongoClient[Any]:
    """Return a client that waits a minute for the election of a primary."""
    return pymongo.MongoClient(uri, serverSelectionTimeoutMS=60_000)


def kill_primary(uri: str) -> None:
    with patient(uri) as client:
        os.kill(client.admin.command("serverStatus")["pid"], signal.SIGKILL)


@pytest.mark.no_sample
def test_a_replica_set_goes_on_without_members_and_starts_them_again_when_asked() -> None:
    with serve("--replica-set", "3") as process:
        uri = read_uri(process)
        assert process.stderr is not None
        assert process.stdin is not None

        def say(line: str) -> None:
            process.stdin.write(line)
            process.stdin.flush()

        again = "send a line 'restart' to start it again"
        assert "Ctrl-C stops it" in process.stderr.readline()
        kill_primary(uri)
        one = process.stderr.readline()
        assert re.fullmatch(rf"127\.0\.0\.1:\d+ ended, 2 of 3 run; {again}\n", one)
        with patient(uri) as client:
            client.test.things.insert_one({})
        kill_primary(uri)
        other = process.stderr.readline()
        few = "too few for a primary: writes wait"
        assert re.fullmatch(rf"127\.0\.0\.1:\d+ ended, 1 of 3 run, {few}; {again}\n", other)
        say("start\nrestart\n")
        assert process.stderr.readline() == "expected a line 'restart', or an empty one, got 'start'\n"
        started = {process.stderr.readline() for _ in range(2)}
        assert started == {f"{told.partition(' ')[0]} runs again\n" for told in (one, other)}
        with patient(uri) as client:
            client.test.things.insert_one({})
            assert client.test.things.count_documents({}) == 2
        process.stdin.close()
        kill_primary(uri)
        assert process.stderr.readline().endswith("2 of 3 run; standard input is closed, so it stays down\n")
        with patient(uri) as client:
            client.test.things.insert_one({})
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_port_is_fixed_unless_kept_data_has_ports(tmp_path: Path) -> None:
    def port(*arguments: str) -> int:
        return _port(parser_of(["serve"]).parse_args(["serve", *arguments]))

    assert port() == port("--dbpath", str(tmp_path)) == 27017
    assert port("--port", "0") == 0
    (tmp_path / "mangonel.json").write_text("{}")
    assert port("--dbpath", str(tmp_path)) == 0


def test_a_taken_port_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run("serve", "--port", str(taken.getsockname()[1]))
    assert ended.returncode == 1
    assert re.search(r"port \d+ is taken; --port 0 takes a free one", ended.stderr)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["serv"], "invalid choice: 'serv'"),
        (["serve", "--prot", "1"], "mangonel serve: error: unrecognized arguments: --prot 1"),
        (
            ["serve", "--port", "x"],
            "mangonel serve: error: argument --port: expected a whole number from 0 to 65535, got 'x'",
        ),
        (
            ["serve", "--port", "70000"],
            "mangonel serve: error: argument --port: expected a whole number from 0",
        ),
        (["serve", "--port", "65535", "--replica-set", "3"], "to 65533, got 65535"),
        (["serve", "--replica-set", "-1"], "argument --replica-set: expected a whole number from 0"),
        (["serve", "--auth", "ada"], "expected USER:PASSWORD in --auth"),
        (["serve", "--set-parameter", "a"], "expected NAME=VALUE in --set-parameter, got 'a'"),
    ],
)
def test_bad_arguments_give_one_clear_line_and_exit_status_2(arguments: list[str], line: str) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2
    assert line in ended.stderr.splitlines()[-1]


def test_server_that_does_not_start_gives_exit_status_1() -> None:
    ended = run("serve", "--mongod", "/nonexistent")
    assert ended.returncode == 1
    assert re.fullmatch(r"mangonel serve: the argument mongod names '/nonexistent', .*\n", ended.stderr)


def test_a_folder_that_cannot_be_made_is_named() -> None:
    ended = run("serve", "--port", "0", "--dbpath", "/proc/nothing")
    assert ended.returncode == 2
    assert ended.stderr == "mangonel serve: No such file or directory: /proc/nothing\n"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, mangonel.cli\n"
        "try: mangonel.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'ssl', 'asyncio', 'socket', 'subprocess', 'mangonel.server'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
