"""Kinds of deployments, and the effect of options on them: topology, versions, concerns, pool, clock, limits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from doctor.conftest import failures, look, only
from mangonel.doctor import advice
from mangonel.doctor.report import Report
from mangonel.server import Server, start
from tools.scripted_server import ScriptedServer


@pytest.fixture(scope="module")
def three() -> Iterator[Server]:
    with start(replica_set=3) as deployment:
        yield deployment


def secondary(name: str, *hosts: str, **fields: Any) -> dict[str, Any]:
    hello = {"setName": name, "isWritablePrimary": False, "secondary": True, "hosts": list(hosts)}
    return {**hello, **fields}


def with_commands(server: ScriptedServer, **replies: dict[str, Any]) -> None:
    unauthorized = {"ok": 0, "code": 13, "errmsg": "not authorized"}
    known = {
        "connectionStatus": {"ok": 1, "authInfo": {"authenticatedUsers": [], "authenticatedUserRoles": []}},
        "listDatabases": {"ok": 1, "databases": []},
        "buildInfo": {"ok": 1, "version": "6.0.5", "modules": []},
        "serverStatus": unauthorized,
        "getDefaultRWConcern": unauthorized,
        **replies,
    }
    for name, reply in known.items():
        server.on(name, reply)


def test_a_healthy_set_passes_every_step(three: Server) -> None:
    report = look(three.uri)
    assert (failures(report), report.exit_status()) == ([], 0)
    steps = {finding.step for finding in report.findings if finding.status == "ok"}
    assert steps >= {"uri", "tcp", "hello", "topology", "versions", "latency", "concerns", "pool", "clock"}
    members = only(report, "topology-set").facts["members"]
    assert sorted(members.values()) == ["RSPrimary", "RSSecondary", "RSSecondary"]
    assert [finding.code for finding in report.findings].count("topology-lag") == 2
    assert only(report, "versions").facts["versions"].keys() == members.keys()


def test_members_that_the_uri_does_not_name_are_looked_at_too(three: Server) -> None:
    report = look(f"mongodb://{three.members[0].address}/")
    about = {finding.about for finding in report.findings if finding.code == "hello-answered"}
    assert about == {member.address for member in three.members}
    assert "replicaSet=rs0" in only(report, "topology-unnamed").remedy


def test_the_name_of_another_set_is_told_with_the_one_that_was_found(three: Server) -> None:
    report = look(f"mongodb://{three.members[0].address}/?replicaSet=other")
    found = [finding for finding in report.findings if finding.code == "topology-set-name"]
    assert all(finding.facts["found"] == "rs0" for finding in found)
    assert "replicaSet=rs0" in found[0].remedy
    assert report.exit_status() == 9


def test_a_standalone_is_no_member_of_a_set(standalone: Server) -> None:
    report = look(f"{standalone.uri}?replicaSet=rs0")
    assert failures(report) == ["topology-set-name"]
    assert only(report, "topology-set-name").remedy == "remove replicaSet from the URI"


def test_a_direct_connection_to_a_secondary_is_told_where_the_primary_is(three: Server) -> None:
    primary = three.wait_for_primary()
    secondary = next(member for member in three.members if member is not primary)
    report = look(f"mongodb://{secondary.address}/?directConnection=true")
    finding = only(report, "topology-direct")
    assert (finding.status, finding.facts["primary"]) == ("warning", primary.address)


def test_a_set_without_a_primary_is_told() -> None:
    with ScriptedServer() as server:
        address = f"127.0.0.1:{server.port}"
        server.hello.update(secondary("rs0", address, me=address))
        with_commands(server)
        assert failures(look(f"mongodb://{address}/?replicaSet=rs0")) == ["topology-no-primary"]
        reads_on = look(f"mongodb://{address}/?replicaSet=rs0&readPreference=secondaryPreferred")
        assert only(reads_on, "topology-no-primary").status == "warning"


def test_a_primary_by_a_name_that_is_unknown_here_is_told(hosts: dict[str, str]) -> None:
    with ScriptedServer() as server:
        address = f"127.0.0.1:{server.port}"
        inside = "mongo1.inside.test:27017"
        server.hello.update(secondary("rs0", address, inside, me=address, primary=inside))
        with_commands(server)
        report = look(f"mongodb://{address}/?replicaSet=rs0")
    assert failures(report) == ["topology-primary-unreachable"]
    assert "directConnection=true" in only(report, "dns-member-unknown").remedy


def test_a_set_that_was_never_initiated_is_told() -> None:
    hello = {"isWritablePrimary": False, "isreplicaset": True}
    with ScriptedServer(hello=hello) as server:
        report = look(f"mongodb://127.0.0.1:{server.port}/")
    assert "rs.initiate" in only(report, "topology-not-initiated").remedy


def test_hosts_that_do_not_belong_together_are_told(standalone: Server) -> None:
    with ScriptedServer(hello={"msg": "isdbgrid"}) as router:
        with_commands(router)
        report = look(f"mongodb://{standalone.members[0].address},127.0.0.1:{router.port}/")
    assert failures(report) == ["topology-mixed"]


def test_a_server_that_is_no_load_balancer_is_told(standalone: Server) -> None:
    report = look(f"{standalone.uri}?loadBalanced=true")
    assert failures(report)[0] == "topology-no-balancer"


def test_a_secondary_that_lags_is_told() -> None:
    now = datetime.now(UTC)
    with ScriptedServer() as first, ScriptedServer() as second:
        one, two = (f"127.0.0.1:{server.port}" for server in (first, second))
        first.hello.update(setName="rs0", hosts=[one, two], me=one, lastWrite={"lastWriteDate": now})
        old = {"lastWriteDate": now - timedelta(seconds=90)}
        second.hello.update(secondary("rs0", one, two, me=two, primary=one, lastWrite=old))
        for server in (first, second):
            with_commands(server)
        report = look(f"mongodb://{one},{two}/?replicaSet=rs0")
    assert only(report, "topology-lag").facts["seconds"] == pytest.approx(90, abs=0.01)


@pytest.mark.parametrize(("least", "most", "age"), [(0, 8, "too old"), (30, 40, "too new")])
def test_a_server_of_another_time_is_told(least: int, most: int, age: str) -> None:
    with ScriptedServer(hello={"minWireVersion": least, "maxWireVersion": most}) as server:
        with_commands(server)
        report = look(f"mongodb://127.0.0.1:{server.port}/")
    assert age in only(report, "versions-incompatible").text


def test_a_clock_that_is_wrong_is_told() -> None:
    with ScriptedServer(hello={"localTime": datetime.now(UTC) + timedelta(minutes=10)}) as server:
        with_commands(server)
        report = look(f"mongodb://127.0.0.1:{server.port}/")
    finding = only(report, "clock-skew")
    assert finding.status == "warning"
    assert "ahead of" in finding.text


def test_an_interpreter_without_the_fast_paths_is_told_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(advice._core, "_fast_paths", lambda: {"objects": "on", "dicts": "off: because"})
    report = Report("")
    advice.report_driver(report)
    finding = only(report, "driver-slow-paths")
    assert "dicts off: because" in finding.text
    assert (finding.status, report.exit_status()) == ("note", 0)


def test_a_pool_larger_than_what_the_server_takes_is_told() -> None:
    with ScriptedServer() as server:
        with_commands(server, serverStatus={"ok": 1, "connections": {"current": 190, "available": 10}})
        report = look(f"mongodb://127.0.0.1:{server.port}/?maxPoolSize=50")
    assert only(report, "pool-too-large").facts["limit"] == 200
    assert only(report, "pool-busy").status == "warning"


def test_a_limit_of_open_files_below_the_pool_is_told(
    standalone: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advice, "open_files_limit", lambda: 128)
    finding = only(look(f"{standalone.uri}?maxPoolSize=500"), "limits-open-files")
    assert (finding.facts["limit"], finding.facts["needed"]) == (128, 566)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("w=0", "concerns-unacknowledged"),
        ("w=7", "concerns-too-many"),
        ("w=1", "concerns-one"),
        ("w=majority", "concerns-no-limit"),
        ("retryWrites=false", "concerns-no-retry"),
        ("maxPoolSize=0", "pool-unlimited"),
        ("minPoolSize=90", "pool-kept-open"),
    ],
)
def test_an_option_that_hurts_here_is_told(three: Server, options: str, code: str) -> None:
    assert only(look(f"{three.uri}&{options}"), code).remedy or code == "pool-kept-open"
