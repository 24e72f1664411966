"""The pytest plugin, by runs of pytest in processes of their own: this run does not load it."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.server import Server
from tools.inner_pytest import run_pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run pytest with the plugin on source text."""

    def run(source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_it.py").write_text(textwrap.dedent(source))
        return run_pytest(
            tmp_path, "-p", "mangonel.pytest_plugin", "-W", "error", "-q", *arguments, "test_it.py"
        )

    return run


def test_a_database_is_empty_and_keeps_its_indexes(run: Run, server: Server) -> None:
    finished = run(
        """
        import pytest

        @pytest.fixture(scope="session")
        def state():
            return {}

        def test_first(mangonel_database, state):
            mangonel_database.users.create_index("name", name="by_name")
            mangonel_database.users.insert_one({"name": "Ada"})
            mangonel_database.orders.insert_many([{}, {}])
            mangonel_database.create_collection("unused")
            mangonel_database.create_collection("recent", capped=True, size=4096)
            mangonel_database.recent.insert_one({})
            state["name"] = mangonel_database.name

        def test_second(mangonel_database, mangonel_client, state):
            assert mangonel_database.name == state["name"]
            assert mangonel_database.users.count_documents({}) == 0
            assert mangonel_database.orders.count_documents({}) == 0
            assert "by_name" in mangonel_database.users.index_information()
            assert mangonel_database.recent.count_documents({}) == 0
            mangonel_client.drop_database(state["name"])
        """,
        "--mangonel-uri",
        server.uri,
    )

    assert finished.returncode == 0, finished.stdout
    assert "2 passed" in finished.stdout


def test_a_failure_lists_the_commands_that_were_sent(run: Run, server: Server) -> None:
    finished = run(
        """
        def test_before(mangonel_client):
            mangonel_client.admin.command("buildInfo")

        def test_fails(mangonel_client):
            mangonel_database = mangonel_client.plugin
            mangonel_database.users.find_one({"name": "Ada"})
            assert False
        """,
        "--mangonel-uri",
        server.uri,
    )

    assert finished.returncode == 1
    assert "MongoDB commands sent" in finished.stdout
    assert '{"find": "users", "filter": {"name": "Ada"}, "limit": 1, "singleBatch": true' in finished.stdout
    assert "buildInfo" not in finished.stdout


def test_commands_are_counted(run: Run, server: Server) -> None:
    finished = run(
        """
        def test_enough(mangonel_database, count_commands):
            with count_commands(at_most=2) as counted:
                mangonel_database.users.find_one()
                mangonel_database.users.find_one()
            assert [next(iter(command)) for command in counted.commands] == ["find", "find"]

        def test_too_many(mangonel_database, count_commands):
            with count_commands(at_most=1):
                mangonel_database.users.find_one()
                mangonel_database.users.count_documents({})
        """,
        "--mangonel-uri",
        server.uri,
    )

    assert "1 failed, 1 passed" in finished.stdout
    # Where CI is set, the summary of failed tests repeats their errors in full.
    failures = finished.stdout.partition("short test summary")[0]
    assert failures.count("expected at most 1 commands, got 2:") == 1, finished.stdout
    assert '{"aggregate": "users"' in finished.stdout


def test_marks_choose_the_server(run: Run) -> None:
    finished = run(
        """
        import asyncio
        import pytest

        @pytest.mark.mangonel(replica_set=1, tls=True)
        class TestSet:
            def test_transactions_run(self, mangonel_client, mangonel_database):
                with mangonel_client.start_session() as session, session.start_transaction():
                    mangonel_database.users.insert_one({"_id": 1}, session=session)
                assert mangonel_database.users.count_documents({}) == 1

            def test_the_asyncio_client_reads(self, mangonel_async_client, mangonel_server):
                assert "tls=true" in mangonel_server.uri
                async def read():
                    return await mangonel_async_client.admin.command("ping")
                assert asyncio.run(read())["ok"] == 1

            @pytest.mark.mangonel(tls=False)
            def test_a_nearer_mark_takes_back_tls(self, mangonel_client, mangonel_server):
                assert "tls" not in mangonel_server.uri
                assert mangonel_client.admin.command("hello")["setName"]

        @pytest.mark.mangonel("replica")
        def test_arguments_have_names(mangonel_server):
            pass

        @pytest.mark.mangonel(replicaset=1)
        def test_options_are_known(mangonel_server):
            pass

        @pytest.mark.mangonel(replica_set="three")
        def test_options_have_values(mangonel_server):
            pass

        @pytest.mark.mangonel(replica_set=1, tls=True)
        def test_commands_are_counted_by_a_number(count_commands):
            with count_commands(at_most="one"):
                pass
        """
    )

    assert "3 passed, 3 errors" in finished.stdout.replace("1 failed, ", ""), finished.stdout
    for said in (
        "expected keyword arguments in the mark mangonel, got 'replica'",
        "expected options of mangonel.server.start in the mark mangonel, got {'replicaset': 1}: ",
        "got {'replica_set': 'three'}: expected replica_set from 0 (a standalone) to 50 members, got 'three'",
        'TypeError: expected an int for "at_most", got str',
    ):
        assert said in finished.stdout, finished.stdout


def test_workers_of_xdist_have_databases_of_their_own_on_one_server(
    run: Run, server: Server, tmp_path: Path
) -> None:
    finished = run(
        """
        import os, pathlib, time

        def meet(place):
            # Both workers are here at the same time.
            pathlib.Path(f"{place}-{os.environ['PYTEST_XDIST_WORKER']}").touch()
            deadline = time.monotonic() + 120
            while len(list(pathlib.Path().glob(f"{place}-*"))) < 2:
                assert time.monotonic() < deadline, f"the other worker did not come to {place}"
                time.sleep(0.01)

        def test_alone(mangonel_database):
            meet("begun")
            mangonel_database.users.insert_one({"_id": os.environ["PYTEST_XDIST_WORKER"]})
            meet("stored")
            assert mangonel_database.users.distinct("_id") == [os.environ["PYTEST_XDIST_WORKER"]]
            meet("read")
            pathlib.Path(f"database-{mangonel_database.name}").touch()

        def test_empty(mangonel_database):
            assert mangonel_database.users.count_documents({}) == 0
        """,
        *("--mangonel-uri", server.uri, "-p", "xdist.plugin", "--dist", "each", "--tx", "2*popen"),
    )
    assert finished.returncode == 0, finished.stdout
    assert "4 passed" in finished.stdout
    # They do not stay on a server that keeps running, since each run has others.
    names = {each.name.removeprefix("database-") for each in tmp_path.glob("database-*")}
    with MongoClient[Any](server.uri) as client:
        assert len(names) == 2
        assert names.isdisjoint(client.list_database_names())


@pytest.mark.no_sample
def test_each_worker_of_xdist_starts_one_server_for_all_of_its_tests(run: Run, tmp_path: Path) -> None:
    finished = run(
        """
        import os, pathlib

        def test_first(mangonel_server, mangonel_database):
            pathlib.Path("server-" + mangonel_server.uri.replace("/", "_")).touch()

        def test_second(mangonel_server, mangonel_database):
            test_first(mangonel_server, mangonel_database)
        """,
        *("-p", "xdist.plugin", "--dist", "each", "--tx", "2*popen"),
    )
    assert finished.returncode == 0, finished.stdout
    assert "4 passed" in finished.stdout
    assert len(list(tmp_path.glob("server-*"))) == 2


def test_the_asyncio_client_leaves_the_threads_event_loop_alone(run: Run, server: Server) -> None:
    finished = run(
        """
        import asyncio
        import pytest

        loop = asyncio.new_event_loop()

        @pytest.fixture
        def running():
            # As Playwright's blocking API: a loop counts as running between the steps of a test.
            asyncio._set_running_loop(loop)
            yield
            asyncio._set_running_loop(None)

        def test_uses_the_loop(mangonel_async_client):
            asyncio.set_event_loop(loop)
            loop.run_until_complete(mangonel_async_client.admin.command("ping"))

        def test_the_loop_is_still_the_threads(mangonel_async_client):
            assert asyncio.get_event_loop() is loop

        def test_ends_beside_a_running_loop(running, mangonel_async_client):
            pass

        def test_last():
            # The client's connections are closed when their loop runs.
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
        """,
        "--mangonel-uri",
        server.uri,
    )

    assert finished.returncode == 0, finished.stdout
    assert "4 passed" in finished.stdout
