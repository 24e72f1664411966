"""The promises of `mangonel.server.start`, against a real mongod, with PyMongo as the witness."""

from __future__ import annotations

import ast
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pymongo
import pymongo.errors
import pytest

from mangonel import server
from mangonel.server import launch, process, replica_set
from mangonel.server.wire import CommandError
from tools.faces import eventually
from tools.held_port import held_port, port_of


def is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def size_of(path: Path) -> int:
    """Return the size of a file that its mongod may be replacing."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_on_windows_one_is_told_to_start_mongod_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.sys, "platform", "win32")
    with pytest.raises(server.ServerError, match="got Windows: start mongod by hand"):
        server.start()


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[server.Server, int]]:
    """A standalone with its own parameters, and its port."""
    parameters = {"enableTestCommands": 1, "ttlMonitorEnabled": False}
    with (
        held_port() as held,
        server.start(port=port_of(held), set_parameters=parameters) as deployment,
    ):
        yield deployment, port_of(held)


# A mongod burns more than half a second of processor time when it starts.
IN_THE_REST = [pytest.param(members, marks=pytest.mark.no_sample) for members in (1, 3)]


@pytest.mark.parametrize("members", [0, 1, pytest.param(3, marks=pytest.mark.no_sample)])
def test_start_returns_once_the_deployment_takes_writes(members: int) -> None:
    with server.start(replica_set=members) as deployment:
        assert len(deployment.members) == max(members, 1)
        # Not by its state: a member that does not reply within a second counts as down.
        (primary,) = (
            member
            for member in deployment.members
            if member.run_command({"hello": 1}, timeout=30)["isWritablePrimary"]
        )
        with pymongo.MongoClient(primary.uri) as client:
            client.test.things.insert_one({"_id": 1})
        with pymongo.MongoClient(deployment.uri) as client:
            assert client.test.things.find_one() == {"_id": 1}
            assert (client.options.replica_set_name or "") == ("rs0" if members else "")


def test_three_members_are_a_primary_and_two_secondaries_that_know_one_operation_from_the_start() -> None:
    with server.start(replica_set=3) as deployment:
        # A member that does not reply within a second counts as down.
        states = ["primary", "secondary", "secondary"]
        eventually(lambda: sorted(member.state for member in deployment.members) == states)
        eventually(lambda: len(deployment.secondaries) == 2)
        for member in deployment.members:
            with pymongo.MongoClient(member.uri) as client:
                # Otherwise a member whose last operation is older than the other's first one would be too stale to
                # sync.
                assert client.local["oplog.rs"].find_one({"o.msg": "all members are there"})


def test_temporary_data_is_removed_at_stop() -> None:
    deployment = server.start()
    pid = deployment.members[0].pid
    assert pid is not None
    assert os.path.isdir(deployment.dbpath)
    deployment.stop()
    assert not os.path.exists(deployment.dbpath)
    assert not is_alive(pid)
    deployment.stop()


@pytest.mark.parametrize("members", [0, *IN_THE_REST])
def test_dbpath_keeps_data_and_ports_and_is_refused_to_another_kind_of_deployment(
    tmp_path: Path, members: int
) -> None:
    with server.start(members, dbpath=tmp_path / "data") as deployment:
        uri = deployment.uri
        with pymongo.MongoClient(uri, w=1, journal=False) as client:
            client.test.things.insert_one({"_id": 1})
    with server.start(members, dbpath=tmp_path / "data") as deployment:
        assert deployment.uri == uri
        with pymongo.MongoClient(uri) as client:
            assert client.test.things.find_one() == {"_id": 1}
    kind = f"a replica set of {members}" if members else "a standalone"
    other = 0 if members else 1
    expected = f"a replica set of {other}" if other else "a standalone"
    with pytest.raises(server.ServerError, match=f"holds the data of {kind}; expected {expected}"):
        server.start(other, dbpath=tmp_path / "data")


@pytest.mark.no_sample
@pytest.mark.parametrize("auth", [None, ("ada", "x")], ids=["open", "with a user"])
def test_kept_data_starts_again_after_a_start_that_was_broken_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, auth: tuple[str, str] | None
) -> None:
    def press_ctrl_c(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        # At this point the set is initiated, and `start` waits for its first election.
        patched.setattr(replica_set, "wait_for_members", press_ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            server.start(1, dbpath=tmp_path, auth=auth)
    for _ in range(2):
        with (
            server.start(1, dbpath=tmp_path, auth=auth) as deployment,
            pymongo.MongoClient(deployment.uri) as client,
        ):
            client.test.things.insert_one({})
    member = deployment.members[0].port
    with pytest.raises(
        server.ServerError, match=rf"the ports \[{member}\]; expected these or none, got \[1\]"
    ):
        server.start(1, dbpath=tmp_path, port=1)


@pytest.mark.parametrize("text", ["", '{"replica_s', "[]", "{}", '{"replica_set": 0, "ports": ["x"]}'])
def test_a_damaged_record_of_kept_data_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mangonel.json"
    path.write_text(text)
    with pytest.raises(
        server.ServerError, match=f"expected members and ports of the data in {path}, got "
    ) as caught:
        server.start(dbpath=tmp_path)
    assert "restore this file, or choose another dbpath" in str(caught.value)
    assert path.read_text() == text


def test_server_listens_on_loopback_only(running: tuple[server.Server, int]) -> None:
    wanted = f":{running[0].members[0].port:04X}"
    listening = []
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(name).read_text().splitlines()[1:] if os.path.exists(name) else []:
            _, local, _, state, *_ = line.split()
            if local.endswith(wanted) and state == "0A":
                listening.append(local)
    assert listening == ["0100007F" + wanted]


def test_given_port_is_used(running: tuple[server.Server, int]) -> None:
    deployment, port = running
    assert deployment.members[0].port == port


def test_given_port_that_is_taken_is_an_error_which_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(server.ServerError, match=f"port {port} is taken"):
            server.start(port=port)


@pytest.mark.parametrize("members", [0, pytest.param(1, marks=pytest.mark.no_sample)])
def test_free_port_that_is_taken_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch, members: int) -> None:
    free_port = launch.free_port
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = [other.getsockname()[1]]
        monkeypatch.setattr(launch, "free_port", lambda: ports.pop() if ports else free_port())
        with server.start(members) as deployment:
            assert not ports
            assert deployment.members[0].port != other.getsockname()[1]


def test_a_port_on_which_another_listens_between_binding_and_listening_is_replaced(tmp_path: Path) -> None:
    # What mongod 6.0 does in this case, which a test cannot provoke.
    told = '{"s":"F","c":"NETWORK","msg":"Error listening for new connections on listen address",'
    told += '"attr":{"listenAddrs":"127.0.0.1:29122","error":"Address already in use"}}'
    mongod = tmp_path / "mongod"
    mongod.write_text(
        f"""#!/bin/sh
case "$*" in *--logpath*)
    if mkdir '{tmp_path}/tried'; then
        while [ "$1" != --logpath ]; do shift; done
        echo '{told}' > "$2"
        kill -ABRT $$
    fi
esac
exec '{launch.find_mongod(None)}' "$@"
"""
    )
    mongod.chmod(0o755)
    with server.start(mongod=mongod) as deployment, pymongo.MongoClient(deployment.uri) as client:
        assert client.admin.command("ping")["ok"] == 1
    assert (tmp_path / "tried").exists()


@pytest.mark.parametrize("members", [0, *IN_THE_REST])
def test_auth_admits_the_user_and_nobody_else(members: int) -> None:
    with server.start(members, auth=("ada", "p:@/ä")) as deployment:
        with pymongo.MongoClient(deployment.uri) as client:
            client.test.things.insert_one({"_id": 1})
            mechanisms = client.admin.command("usersInfo", "ada")["users"][0]["mechanisms"]
            assert set(mechanisms) == {"SCRAM-SHA-1", "SCRAM-SHA-256"}
        stranger = f"mongodb://{deployment.members[0].address}/?directConnection=true"
        with (
            pymongo.MongoClient(stranger) as client,
            pytest.raises(pymongo.errors.OperationFailure, match="requires authentication"),
        ):
            client.test.things.find_one()


@pytest.mark.parametrize("members", [1, pytest.param(0, marks=pytest.mark.no_sample)])
def test_kept_data_keeps_its_user(tmp_path: Path, members: int) -> None:
    for _ in range(2):
        with (
            server.start(members, dbpath=tmp_path, auth=("ada", "secret")) as deployment,
            pymongo.MongoClient(deployment.uri) as client,
        ):
            assert client.admin.command("ping")["ok"] == 1


def test_user_is_made_by_the_member_that_is_primary_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    write_to_all, refusals = launch.sets.write_to_all, [CommandError("not primary", 10107)]

    def elected_another(*arguments: Any) -> None:
        if refusals:
            raise refusals.pop()
        write_to_all(*arguments)

    monkeypatch.setattr(launch.sets, "write_to_all", elected_another)
    with (
        server.start(replica_set=1, auth=("root", "secret")) as deployment,
        pymongo.MongoClient(deployment.uri) as client,
    ):
        assert client.shop.orders.insert_one({}).acknowledged


def test_set_parameters_reach_mongod(running: tuple[server.Server, int]) -> None:
    with pymongo.MongoClient(running[0].uri) as client:
        found = client.admin.command("getParameter", 1, enableTestCommands=1, ttlMonitorEnabled=1)
        assert found["ttlMonitorEnabled"] is False
        fail_point = {"mode": {"times": 1}, "data": {"failCommands": ["ping"], "errorCode": 91}}
        client.admin.command("configureFailPoint", "failCommand", **fail_point)


def test_defaults_are_small_and_durable() -> None:
    with server.start(1) as deployment, pymongo.MongoClient(deployment.uri) as client:
        options = client.admin.command("getCmdLineOpts")["parsed"]
        assert options["storage"]["wiredTiger"]["engineConfig"]["cacheSizeGB"] <= 0.25
        assert options["setParameter"]["diagnosticDataCollectionEnabled"] == "false"
        assert os.path.samefile(options["systemLog"]["path"], deployment.members[0].log)
        status = client.admin.command("serverStatus")
        assert status["storageEngine"] == {
            **status["storageEngine"],
            "name": "wiredTiger",
            "persistent": True,
        }
        assert sum(map(size_of, Path(deployment.dbpath).rglob("*"))) < 60_000_000
        synced = client.test.things.with_options(write_concern=pymongo.WriteConcern(1, j=True)).insert_one({})
        assert synced.acknowledged


def test_mongod_that_ends_at_start_shows_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(server.ServerError, match="Unknown --setParameter 'nonsense'"):
        server.start(dbpath=tmp_path / "a", set_parameters={"nonsense": 1})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "storage.bson").write_bytes(b"not BSON")
    with pytest.raises(server.ServerError, match=r"status \d+\n +F STORAGE: Unable to read .* metadata"):
        server.start(dbpath=tmp_path / "b")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"replica_set": -1}, "expected replica_set from 0"),
        ({"port": 70_000}, "expected a port from 0"),
        ({"port": "27017"}, "expected a port from 0 .* got '27017'"),
        ({"tls": {"CAFile": "x"}}, "expected certificateKeyFile in tls"),
        ({"tls": {"certificate": "x"}}, "unknown key 'certificate' in tls"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        server.start(**arguments)


def test_mongod_that_never_listens_is_ended_at_the_timeout(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    fake = tmp_path / "mongod"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "db version v6.0.5" && exit\n'
        f"echo $$ > '{pid_file}'\nexec sleep 600\n"
    )
    fake.chmod(0o755)
    # On a busy machine it may be ended before it has printed its number.
    for timeout in (0.5, 5, 30):
        with pytest.raises(server.ServerError, match="mongod was not ready in time"):
            server.start(mongod=fake, timeout=timeout)
        if pid_file.exists() and pid_file.read_text():
            break
    assert not is_alive(int(pid_file.read_text()))


DISK = ": make room there, or name another folder, by dbpath or, for temporary data, by TMPDIR"


@pytest.mark.parametrize(("said", "is_named"), [("No space left on device", True), ("too many files", False)])
def test_mongod_that_ends_by_a_full_disk_is_told_so_with_the_folder(
    tmp_path: Path, said: str, is_named: bool
) -> None:
    fake = tmp_path / "mongod"
    fake.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "db version v6.0.5" && exit\necho "{said}"\nexit 100\n'
    )
    fake.chmod(0o755)
    data = tmp_path / "data"
    with pytest.raises(server.ServerError, match=said) as caught:
        server.start(mongod=fake, dbpath=data)
    assert (f"\n  the disk of {data} is full{DISK}" in str(caught.value)) is is_named


def test_a_disk_that_has_no_room_for_the_log_counts_as_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LEAST_FREE", 2**62)
    fake = tmp_path / "mongod"
    fake.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "db version v6.0.5" && exit\nexit 100\n')
    fake.chmod(0o755)
    with pytest.raises(server.ServerError, match="ended at start with exit status 100") as caught:
        server.start(mongod=fake, dbpath=tmp_path / "data")
    assert str(caught.value).endswith(DISK)


def test_server_imports_nothing_of_the_driver() -> None:
    for path in Path(server.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("mangonel"):
                assert str(node.module).startswith(("mangonel.server", "mangonel._command_line")), (
                    path,
                    node.module,
                )
            elif isinstance(node, ast.Import):
                assert not any(name.name.startswith(("mangonel", "bson", "pymongo")) for name in node.names)
