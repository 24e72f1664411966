"""The experiment `websessions`: its scenarios on two stores that need no server, and the runs that it must void."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("tornado", reason="the site is a Tornado application")
pytest.importorskip("aiosqlite", reason="one of the two stores")

from mangonel.cli import main
from mangonel.lab import environment, registry, webload
from mangonel.lab.contender import Target
from mangonel.lab.experiment import Part, Size
from mangonel.lab.experiments import _visits
from mangonel.lab.experiments.websessions import EXPERIMENT
from mangonel.lab.record import Plan
from mangonel.lab.results import Results
from mangonel.lab.scheduler import line_up
from mangonel.lab.scores import site_tables
from tools.needed import needed

# A stall that is long compared with those of a busy machine.
SIZE = Size(quick=True, parameters={"requests": 100, "population": 50, "stall": 3})
NOWHERE = Target("mongodb://127.0.0.1:1/?", "lab", "none")


@pytest.fixture(autouse=True)
def no_environment_is_left() -> Iterator[None]:
    yield
    environment._close_all()


def part_of(name: str, size: Size = SIZE) -> Part:
    return next(part for part in EXPERIMENT.parts(size) if part.id == name)


@pytest.fixture
def task_of(bench_of: Any) -> Callable[..., Any]:
    return lambda contender, part, size=SIZE: EXPERIMENT.task(part, bench_of(contender, NOWHERE, size))


@pytest.fixture
def play(task_of: Any) -> Callable[..., dict[str, float]]:
    def make(contender: str, part: Part, size: Size = SIZE) -> dict[str, float]:
        task = task_of(contender, part, size)
        task.verify()
        task.warm_up()
        task.arrange()
        assert task.act() == part.operations
        return task.extras()

    return make


def test_the_scenarios_cause_the_calls_that_were_foretold(play: Any) -> None:
    assert play("web-sqlite", part_of("populate")) == {}
    for name in ("mixed", "login"):
        assert play("web-sqlite", part_of(name))["tornado_us"] > 0
    assert play("web-sqlite", part_of("parallel-writers"))["conflicts"] >= 0


def test_trap_6_no_two_requests_under_way_are_one_visitors(
    monkeypatch: pytest.MonkeyPatch, play: Any, task_of: Any
) -> None:
    # Twenty concurrent requests on one session measure its conflicts (scenario F), not its cost.
    commands: list[list[str]] = []
    run = subprocess.run

    def spied(command: list[str], *arguments: Any, **keywords: Any) -> Any:
        commands.append(command)
        return run(command, *arguments, **keywords)

    play("web-memory", part_of("populate"))
    monkeypatch.setattr(webload.subprocess, "run", spied)
    for name in ("known-reads", "known-writes", "mixed"):
        task = task_of("web-memory", part_of(name, Size(parameters=SIZE.parameters)))
        task.verify()
        # Known visitors come from the population: the fifty requested, and the hundred of the warm-up.
        assert len(task._cookies) == 150
        cookies = [cookie for number in range(300) if (cookie := task._request(number)[1])]
        for place in range(len(cookies) - _visits.VISITORS):
            together = cookies[place : place + _visits.VISITORS]
            assert len(set(together)) == len(together)
    needed("ab")
    play("web-memory", part_of("new-visitor"))
    assert any("ab" in command[0] for command in commands)
    assert not any("-C" in command for command in commands)


def test_a_run_with_other_store_calls_is_void(task_of: Any) -> None:
    task = task_of("web-memory", part_of("mixed"))
    task.arrange()
    # There were no visitors.
    with pytest.raises(
        RuntimeError, match=r"void: expected the store's calls to be .*'get': 99.*, they are {}"
    ):
        task.extras()


@pytest.mark.parametrize(
    ("calls", "is_sound"),
    [
        ({"get": 2001, "put": 2001}, True),
        ({"get": 2005, "put": 2005}, False),  # more than one in five hundred
        ({"get": 2001, "put": 2000}, False),
        ({"get": 1999, "put": 1999}, False),
        ({"get": 2001, "put": 2001, "find": 1}, False),
    ],
)
def test_a_visitor_that_met_itself_does_not_void_a_run(calls: dict[str, int], is_sound: bool) -> None:
    assert _visits._met_themselves({"get": 2000, "put": 2000}, calls) is is_sound


def test_the_mix_is_ten_writes_and_one_new_visitor_in_a_hundred_whatever_the_number() -> None:
    assert _visits._foretold("mixed", 100) == {"get": 99, "put": 10}
    assert _visits._foretold("mixed", 150) == {"get": 149, "put": 10}


def test_a_stalled_store_holds_up_those_who_need_it_and_nobody_else(play: Any) -> None:
    seen = play("web-sqlite", part_of("stall"))
    assert seen["waited"] + seen["refused"] == _visits.WRITERS
    assert seen["waited"] > 0
    assert seen["recovery_ms"] >= 0


def test_a_count_is_that_of_the_last_begin_and_end(tmp_path: Path) -> None:
    site: Any = environment.Site.__new__(environment.Site)
    site._counts = tmp_path
    for number, total in ((2, 20), (10, 100), (9, 90)):
        (tmp_path / f"out.{number}").write_text(f"events: Ir\nsummary: {total}\ntotals: 7\n")
    assert site.counts() == [20, 90, 100]


def test_the_full_form_plays_the_original_in_each_of_three_rounds_and_what_takes_long_once() -> None:
    parts = {part.id: part for part in EXPERIMENT.parts(Size())}
    assert EXPERIMENT.full_rounds * parts["seed"].samples == 3
    assert (parts["seed"].operations, parts["seed"].rounds) == (10_000, 0)
    assert not any(parts[name].rounds for name in ("populate", "new-visitor", "mixed", "anonymous"))
    assert all(part.rounds == 1 for name, part in parts.items() if name.endswith("-durable"))
    assert parts["stall"].rounds == 1
    assert parts["known-reads-wrk"].rounds == 1


def test_a_payload_is_as_long_as_was_asked_for(task_of: Any) -> None:
    size = Size(quick=True, parameters={"requests": 20, "population": 20, "payload": 2048})
    task = task_of("web-memory", part_of("mixed", size), size)
    assert len(task._request(95)[0]) == len(task._request(99)[0]) == len("/?v=") + 2048
    assert task._request(95)[0] != task._request(96)[0]


def test_the_durable_class_has_tables_of_its_own() -> None:
    parts = EXPERIMENT.parts(Size())
    durable = {part.id for part in parts if part.id.endswith("-durable")}
    assert durable == {"new-visitor-durable", "mixed-durable", "seed-durable"}
    for part in parts:
        assert ("durable class" in part.title) == (part.id in durable)
        assert ("journaled" in part.write_concern) == (part.id in durable)
    assert all(part.excludes(registry.contender("web-memcached")) for part in parts if part.id in durable)
    assert len([name for name in registry.contenders() if name.startswith("web-")]) == 12


def test_a_series_over_tls_leaves_out_who_has_no_connection_and_says_so() -> None:
    names = tuple(name for name in registry.contenders() if name.startswith("web-"))
    size = Size(quick=True, parameters={"tls": 1})
    playing, absent = line_up(EXPERIMENT, Plan("", ("websessions",), names, size, 1, 1))
    without = {"web-memory", "web-cookie", "web-sqlite", "web-directory"}
    assert {name for name, reason in absent if reason == "no connection to encrypt"} == without
    assert "web-none" in {contender.id for contender in playing}
    assert not without & {contender.id for contender in playing}
    assert "anonymous-counted" not in {part.id for part in EXPERIMENT.parts(size)}
    in_the_clear = Plan("", ("websessions",), names, Size(quick=True), 1, 1)
    assert not any("encrypt" in reason for _, reason in line_up(EXPERIMENT, in_the_clear)[1])


def test_tls_and_unix_sockets_are_series_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lab", "run", "websessions", "--quick", "--set", "tls=1", "--set", "unix=1"]
    with pytest.raises(SystemExit):
        main(words)
    assert "expected tls=1 or unix=1, got both" in capsys.readouterr().err


def test_a_site_speaks_tls_with_a_store_that_speaks_nothing_else(task_of: Any) -> None:
    pytest.importorskip("redis")
    needed("redis-server")
    size = Size(quick=True, parameters={**SIZE.parameters, "tls": 1})
    site = task_of("web-redis", part_of("new-visitor", size), size)
    assert site._visit([("/?v=1", "")])
    assert site._site.used()[0] == {"put": 1}
    where = next(iter(environment._environments.values())).url
    assert where.startswith("rediss://")
    assert "tlsCAFile=" in where
    address = (urlsplit(where).hostname, urlsplit(where).port)
    answer = b""
    with socket.create_connection(address, 5) as connection, suppress(ConnectionError):
        connection.sendall(b"PING\r\n")
        answer = connection.recv(100)
    assert b"PONG" not in answer


def test_so_many_requests_are_under_way_as_the_part_s_name_says(
    monkeypatch: pytest.MonkeyPatch, play: Any
) -> None:
    size = Size(quick=True, parameters={"requests": 100, "levels": 100})
    orders: list[int] = []
    generate: Any = vars(_visits)["generate"]

    def noted(port: int, requests: int, at_once: int, **further: Any) -> Any:
        orders.append(at_once)
        return generate(port, requests, at_once, **further)

    monkeypatch.setattr(_visits, "generate", noted)
    for level in (1, 10):
        seen = play("web-memory", part_of(f"known-writes-c{level}", size), size)
        assert seen["requests_per_second"] > 0
        assert seen["tornado_us"] > 0
        assert set(orders) == {level}
        orders.clear()
    assert not [part.id for part in EXPERIMENT.parts(SIZE) if "-c1" in part.id]


def test_the_original_layout_tells_worst_and_best() -> None:
    plain = {"experiment": "websessions", "version": 2, "part": "seed", "title": "", "unit": "request"}
    plain |= {"write_concern": "w:1", "judge": "wall", "failures": []}

    def cell(contender: str, rates: list[float]) -> dict[str, Any]:
        plainly = {"wall_ns": 1, "ops": 1, "cpu_ns": 1, "peak_rss": 1}
        samples = [{**plainly, "extras": {"requests_per_second": rate}} for rate in rates]
        return {**plain, "contender": contender, "rounds": [{"round": 0, "samples": samples}]}

    content = {
        "cells": [cell("web-redis", [1410, 1418, 1412]), cell("web-none", [1600, 1626, 1610])],
        "plan": {"experiments": ["websessions"]},
    }
    ((title, headings, rows),) = site_tables(Results(content), str)
    assert "cache class" in title
    assert headings == ["contender", "best", "worst", "best against no sessions"]
    assert rows == [["web-none", "1626", "1600", "100.0 %"], ["web-redis", "1418", "1410", "87.2 %"]]
