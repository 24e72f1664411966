"""The command, from one end to the other, with a real mongod."""

from __future__ import annotations

import pytest

from mangonel.cli import main
from mangonel.lab import results

pytest.importorskip("pymongo", reason="the reference of the lab is not installed")


def test_a_quick_run_checks_measures_prints_and_leaves_a_file(server, tmp_path, capsys):
    out = tmp_path / "r.json"
    words = [
        "lab",
        "run",
        "find-one",
        "--quick",
        "--rounds",
        "1",
        "--plain",
        "--uri",
        server.uri,
        "--out",
        str(out),
    ]
    assert main([*words, "--contender", "pymongo", "--contender", "raw-socket"]) == 0

    text = capsys.readouterr().out
    assert "find-one: one at a time, blocking  (noise: the reference against itself" in text
    assert "floor: raw socket" in text
    assert "PyMongo (again)" in text
    assert "not measured: mangonel was not chosen" in text
    content = results.load(out)
    names = {entry["contender"] for entry in content["cells"]}
    assert names == {"pymongo", "pymongo#2", "raw-socket"}
    assert len({entry["rounds"][0]["digest"] for entry in content["cells"]}) == 1
    assert all(s["server_cpu_ns"] > 0 for entry in content["cells"] for s in entry["rounds"][0]["samples"])

    assert main(["lab", "show", "--plain", str(out)]) == 0
    assert capsys.readouterr().out.strip() == text.split("\n\nresult file:")[0].strip()


def test_writes_are_counted_in_the_collection(server, tmp_path, monkeypatch, capsys):
    from mangonel.lab.contenders import raw_socket

    out = tmp_path / "r.json"
    words = [
        "lab",
        "run",
        "insert",
        "--quick",
        "--rounds",
        "1",
        "--plain",
        "--uri",
        server.uri,
        "--out",
        str(out),
    ]
    assert main([*words, "--contender", "raw-socket"]) == 0
    assert raw_socket.CONTENDERS[0].id in out.read_text()
    assert "w:1" in capsys.readouterr().out


def test_list_names_every_experiment_and_contender(capsys):
    assert main(["lab", "list"]) == 0
    text = capsys.readouterr().out
    for name in (
        "bson:",
        "find-one:",
        "find-30:",
        "find-many:",
        "insert:",
        "insert-many:",
        "import-time:",
        "process:",
    ):
        assert f"\n{name}" in f"\n{text}"
    for name in ("mangonel-uvloop", "pymongo-async", "motor", "mongojet", "raw-asyncio", "bare"):
        assert f"    {name}: " in text


@pytest.mark.parametrize(
    "words", [["run", "no-such"], ["run", "--contender", "nobody"], ["run", "--set", "exits"]]
)
def test_a_wrong_name_is_refused_with_the_right_ones(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["lab", *words])
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert "find-one" in told or "pymongo" in told or "NAME=N" in told


def test_a_file_of_another_schema_is_refused(tmp_path, capsys):
    (tmp_path / "old.json").write_text('{"schema": 99}')
    assert main(["lab", "show", str(tmp_path / "old.json")]) == 1
    assert "schema 2" in capsys.readouterr().err


def test_an_unreachable_deployment_stops_the_run_with_a_reason(tmp_path, capsys):
    uri = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=300"
    words = ["lab", "run", "find-one", "--quick", "--uri", uri, "--out", str(tmp_path / "x.json")]
    assert main(words) == 1
    assert "the lab stopped" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()
