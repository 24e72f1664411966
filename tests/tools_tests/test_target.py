"""The lists of servers' limitations, and the stand-in for a server that runs already."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangonel import MongoClient
from mangonel.server import Server
from tools import target
from tools.target import Line, RunningServer, lines_of


def test_a_star_in_a_list_stands_for_any_text_and_nothing_else_is_special() -> None:
    line = Line("fails", "spec/test_unified.py::test_case[crud/find: a (b) [*, standalone]]", "reason")
    assert line.is_about("spec/test_unified.py::test_case[crud/find: a (b) [asyncio, standalone]]")
    assert not line.is_about("spec/test_unified.py::test_case[crud/find: a b [asyncio, standalone]]")
    assert not line.is_about("spec/test_unified.py::test_case[crud/find: a (b) [asyncio, replica set]]")


@pytest.mark.parametrize("line", ["fails | a", "breaks | a | reason", "fails | a |  ", "a"])
def test_a_line_that_names_no_kind_no_tests_or_no_reason_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"# a comment\n\nskips | a* | because\n{line}\n")
    with pytest.raises(ValueError, match="expected KIND"):
        lines_of(path)


@pytest.mark.parametrize("path", sorted(target.FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_every_list_can_be_read_and_names_tests_in_files_that_exist(path: Path) -> None:
    lines = lines_of(path)
    assert lines
    files = {line.tests.partition("::")[0] for line in lines}
    assert {name for name in files if not (target.FOLDER.parent / name).exists()} == set()


def test_a_running_server_has_the_addresses_of_its_set_and_answers_on_each(server: Server) -> None:
    running = RunningServer(server.uri)
    assert (running.replica_set_name, running.version) == (server.replica_set_name, server.version)
    assert running.is_mongod
    assert [member.address for member in running.members] == [member.address for member in server.members]
    with MongoClient(running.members[0].uri) as client:
        assert client.admin.command("ping")["ok"] == 1.0
    assert running.wait_for_primary().address == server.wait_for_primary().address
    assert running.secondaries == []


def test_what_only_the_owner_of_a_process_can_do_skips_the_test(server: Server) -> None:
    running = RunningServer(server.uri)
    for ask in (lambda: running.members[0].kill(), lambda: running.stop()):
        with pytest.raises(pytest.skip.Exception, match="MANGONEL_URI"):
            ask()
