"""The pytest plugin, by runs of pytest in processes of their own: this run does not load it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from mangonel.server import Server

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run pytest with the plugin on source text."""

    def run(source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_it.py").write_text(textwrap.dedent(source))
        command = [sys.executable, "-m", "pytest", "-p", "mangonel.pytest_plugin", "-p", "no:cacheprovider"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        return subprocess.run(
            [*command, "-p", "no:randomly", "-W", "error", "-q", *arguments, "test_it.py"],
            cwd=tmp_path,
            env=kept,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
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
            mangonel_database.create_collection("recent", capped=True, size=4096)
            mangonel_database.recent.insert_one({})
            state["name"] = mangonel_database.name

        def test_second(mangonel_database, mangonel_client, state):
            assert mangonel_database.name == state["name"]
            assert mangonel_database.users.count_documents({}) == 0
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
    assert "expected at most 1 commands, got 2:" in finished.stdout
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

        @pytest.mark.mangonel("replica")
        def test_arguments_have_names(mangonel_server):
            pass
        """
    )

    assert "2 passed, 1 error" in finished.stdout, finished.stdout
    assert "expected keyword arguments in the mark mangonel, got 'replica'" in finished.stdout
