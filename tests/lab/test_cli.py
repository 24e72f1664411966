"""The lab's commands from start to end, with a real mongod."""

from __future__ import annotations

import gzip
import json
import pstats
import re
from pathlib import Path

import pytest

from mangonel.cli import main
from mangonel.lab import registry, results

pytest.importorskip("pymongo", reason="the reference of the lab is not installed")

KEPT = Path(__file__).parents[2] / "docs" / "benchmarks"
PLUGIN = Path(__file__).parent / "plugins" / "lab_plugin.py"


def lab(words: str, *more: object) -> int:
    """Run a command line of the lab and return its exit status."""
    return main(["lab", *words.split(), *map(str, more)])


@pytest.mark.no_sample
def test_a_quick_run_checks_measures_prints_and_leaves_a_file(server, tmp_path, capsys):
    out = tmp_path / "r.json"
    words = f"run {server.uri} find-30 --part blocking --quick --rounds 1 --plain --contender pymongo"
    assert lab(f"{words} --contender raw-socket", "-o", out) == 0

    text = capsys.readouterr().out
    assert "find-30: one at a time, blocking  (noise: the reference against itself" in text
    assert "floor: raw socket" in text
    assert "PyMongo (again)" in text
    content = results.load(out)
    names = {entry["contender"] for entry in content["cells"]}
    assert names == {"pymongo", "pymongo#2", "raw-socket"}
    assert len({entry["rounds"][0]["digest"] for entry in content["cells"]}) == 1
    assert all(s["server_cpu_ns"] > 0 for entry in content["cells"] for s in entry["rounds"][0]["samples"])

    assert lab("show --plain", out) == 0
    assert capsys.readouterr().out.strip() == text.split("\n\nresult file:")[0].strip()


@pytest.mark.no_sample
def test_writes_are_counted_in_the_collection(server, tmp_path, capsys):
    words = f"run {server.uri} insert --part blocking --quick --rounds 1 --plain --contender raw-socket"
    assert lab(words, "-o", tmp_path / "r.json") == 0
    assert "raw-socket" in (tmp_path / "r.json").read_text()
    assert "w:1" in capsys.readouterr().out


def plan_of(monkeypatch, *words: str):
    """Return the plan that a command line makes; nothing is run."""
    from mangonel.lab.commands import play

    class Seen(Exception):
        pass

    def record(plan, *arguments):
        raise Seen(plan)

    monkeypatch.setattr(play, "Record", record)
    with pytest.raises(Seen) as seen:
        main(["lab", "run", "mongodb://127.0.0.1:1", *words])
    return seen.value.args[0]


def test_faithful_is_the_five_comparisons_as_printed_and_nothing_else(monkeypatch):
    plan = plan_of(monkeypatch, "--faithful")

    assert set(plan.experiments) == {"insert", "web", "read-documents", "websessions", "gridfs"}
    known = registry.experiments()
    played = {name: [part.id for part in plan.parts(known[name])] for name in plan.experiments}
    assert played["insert"] == ["original-a", "original-b", "original-c", "original-c-silent"]
    assert played["web"] == ["original-100", "original-10"]
    assert played["websessions"] == ["seed"]
    assert all(played.values())
    with pytest.raises(SystemExit):
        lab("run --faithful --quick")


def test_a_part_alone_is_played_and_an_unknown_one_refused(monkeypatch, capsys):
    plan = plan_of(monkeypatch, "find-one", "bson", "--part", "tasks-100")

    known = registry.experiments()
    assert [part.id for part in plan.parts(known["find-one"])] == ["tasks-100"]
    assert plan.experiments == ("find-one",)
    with pytest.raises(SystemExit):
        lab("run find-one --part no-such")
    assert "tasks-100" in capsys.readouterr().err


def test_list_names_every_experiment_and_contender(capsys):
    assert lab("list") == 0
    text = f"\n{capsys.readouterr().out}"
    assert all(f"\n{name}:" in text for name in registry.experiments())
    assert all(f"    {name}: " in text for name in registry.contenders())
    assert "not here" not in text


def test_list_fits_the_terminal(monkeypatch, capsys):
    for width in ("60", "100", "132"):
        monkeypatch.setenv("COLUMNS", width)
        assert lab("list --why") == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) < int(width)


def test_list_names_who_is_missing_and_why(monkeypatch, capsys):
    monkeypatch.setattr("mangonel.lab.contender.importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("COLUMNS", "300")
    assert lab("list") == 0
    text = capsys.readouterr().out
    assert "missing, not installed: mongojet: mongojet" in text
    assert "run --install-peers" in text


def test_list_of_one_experiment_says_which_pairs_are_not_possible(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "2000")
    assert lab("list threads") == 0
    text = capsys.readouterr().out
    assert text.startswith("threads: ")
    assert "mongojet" in text.partition("    not here, does not offer")[2]
    assert "\nbson" not in text


def test_a_uri_behind_the_first_word_is_refused_and_not_quoted(capsys):
    with pytest.raises(SystemExit) as ended:
        lab("run find-one mongodb://ada:pencil@localhost/")
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "got a URI; a URI is the first word" in told
    assert "pencil" not in told


@pytest.mark.parametrize(
    ("words", "told"),
    [("run no-such", "find-one"), ("run --contender nobody", "pymongo"), ("run --set exits", "NAME=N")],
)
def test_a_wrong_name_is_refused_with_the_right_ones(words, told, capsys):
    with pytest.raises(SystemExit) as stopped:
        lab(words)
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("command", ["show", "marks", "report"])
def test_a_file_of_another_schema_is_refused(tmp_path, capsys, command):
    (tmp_path / "old.json").write_text('{"schema": 99}')
    with pytest.raises(SystemExit) as stopped:
        lab(command, tmp_path / "old.json")
    assert stopped.value.code == 2
    assert "schema 2" in capsys.readouterr().err


def test_an_unreachable_deployment_stops_the_run_with_a_reason(tmp_path, capsys):
    uri = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=300"
    assert lab("run", uri, "find-one", "--quick", "-o", tmp_path / "x.json") == 1
    assert "the lab stopped" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize("command", ["run {} find-one", "profile {} find-one", "doctor {}"])
@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("mongodb://ada:pencil@localhost:pencil/", "Port"),
        ("mongodb://ada:pencil@localhost/?tls=true&ssl=false", "conflicting"),
        ("mongodb://", "hostname"),
    ],
)
def test_a_malformed_uri_is_refused_with_the_parsers_words(tmp_path, monkeypatch, capsys, command, uri, told):
    monkeypatch.chdir(tmp_path)
    try:
        status = lab(command.format(uri))
    except SystemExit as stopped:
        status = stopped.code
    assert status == 2
    said = capsys.readouterr().err
    assert told.lower() in said.lower()
    assert "the lab stopped" not in said
    assert "ada:pencil" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_run_leaves_a_page_a_file_makes_the_same_and_its_marks_are_a_table(
    server, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("MANGONEL_LAB_PLUGINS", str(PLUGIN))
    out, now, later = (tmp_path / name for name in ("r.jsonl", "r.html", "later.html"))
    words = f"run {server.uri} planted --quick --rounds 1 --plain --contender sound-1 --contender sound-2"
    assert lab(words, "-o", out) == 0
    assert lab("report", out) == 0
    assert lab("report", out, "-o", later) == 0
    assert later.read_text().startswith("<!doctype html>")
    assert now.read_text() == later.read_text()
    capsys.readouterr()
    assert lab("report", out, "-o", "-") == 0
    assert capsys.readouterr().out == later.read_text()
    assert lab("report", out, "-o", tmp_path / "chart.svg") == 0
    assert (tmp_path / "chart-light.svg").read_text().startswith("<svg ")
    assert {path.name for path in tmp_path.glob("chart*")} == {
        f"chart-{width}{theme}.svg" for width in ("", "narrow-") for theme in ("light", "dark")
    }
    capsys.readouterr()
    assert lab("marks --markdown", out) == 0
    assert "| experiment | what | asked |" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["first", "run find-one", "aa find-one", "profile find-one"])
def test_files_that_are_no_text_do_not_go_to_standard_output(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        lab(words, "-o", "-")
    assert ended.value.code == 2
    assert "-o/--output: expected a name, got '-'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "missed"), [("report", True), ("websessions", False)])
def test_marks_fail_for_what_was_missed_and_not_for_what_was_not_played(name, missed, tmp_path, capsys):
    with gzip.open(KEPT / f"{name}.jsonl.gz", "rt") as kept:
        lines = [line for line in kept if not re.match(r'{"kind":"(cell|round)".*"web-redis"', line)]
    absent = {"experiment": "websessions", "contender": "web-redis", "reason": "not installed: redis"}
    out = tmp_path / "cut.jsonl"
    out.write_text("".join([*lines, json.dumps({"kind": "missing", **absent}), "\n"]))

    assert lab("marks --plain", out) == int(missed)
    told = capsys.readouterr().out
    assert re.search(r"^marks: \d+ met, .*, 1 not played$", told, re.MULTILINE)
    assert re.search(r"against Redis .* web-redis: not installed: redis +not played$", told, re.MULTILINE)
    assert bool(re.search(r" missed$", told, re.MULTILINE)) == missed


@pytest.mark.no_sample
def test_aa_sets_every_contender_against_itself(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MANGONEL_LAB_PLUGINS", str(PLUGIN))
    # The machine decides whether the interval holds 1; the check itself must appear.
    words = f"aa {server.uri} planted --contender sound-1 --rounds 2"
    assert lab(words, "-o", tmp_path / "r.jsonl") in (0, 1)
    assert "of 1 cells" in capsys.readouterr().out


def test_doctor_names_what_it_looked_at(server, capsys):
    assert lab("doctor", server.uri) in (0, 1)
    text = capsys.readouterr().out
    for word in ["cores", "governor", "steal", "pressure", "fsync", "ping", "loopback", "concern", "fit"]:
        assert word in text


@pytest.mark.no_sample
def test_profile_leaves_a_page_of_stacks_and_every_call(server, tmp_path, capsys):
    pytest.importorskip("pyinstrument", reason="pyinstrument is not installed")
    assert lab(f"profile {server.uri} find-one --quick --contender pymongo", "-o", tmp_path) == 0
    assert "find_one" in (tmp_path / "find-one-blocking-pymongo.html").read_text()
    found = pstats.Stats(str(tmp_path / "find-one-blocking-pymongo.prof")).get_stats_profile().func_profiles
    # The calls are counted, not sampled: exactly as many as the part has operations.
    assert found["find_one"].ncalls == "1000"


@pytest.mark.no_sample
def test_a_latency_puts_a_line_between_server_and_contender(server, tmp_path, capsys):
    out = tmp_path / "far.jsonl"
    words = f"run {server.uri} find-30 --quick --rounds 1 --plain --latency 0,2ms --contender raw-socket"
    assert lab(words, "-o", out) == 0
    cells = {entry["part"]: entry for entry in results.load(out)["cells"]}
    assert set(cells) == {"blocking", "blocking@2ms"}
    near, far = (results.Results(results.load(out)).rows["find-30", part, "raw-socket"] for part in cells)
    assert far.estimate("wall").value > 2000
    assert "2 ms away" in far.title
    assert "away" not in near.title


def test_a_missing_peer_is_named_with_what_would_install_it(monkeypatch):
    from mangonel.lab.commands.play import requirements
    from mangonel.lab.contender import Contender

    absent = Contender("far", "far", frozenset(), packages=("no_such_package_anywhere", "mangonel"))
    assert requirements([absent]) == {"no_such_package_anywhere": ["far"]}
    monkeypatch.setattr(Contender, "missing", lambda self: "not installed: motor")
    assert requirements([absent]) == {"motor==3.7.1": ["far"]}
