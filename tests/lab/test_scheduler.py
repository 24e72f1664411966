"""The scheduler: order, gate, checks, and contenders that misbehave. A planted experiment needs no driver."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from mangonel.lab import fingerprint, registry, results, table
from mangonel.lab.checks import disagreeing
from mangonel.lab.experiment import Experiment, Size
from mangonel.lab.record import Plan, Record
from mangonel.lab.report import page
from mangonel.lab.samples import MOST
from mangonel.lab.scheduler import Round, Scheduler
from mangonel.lab.statistics import half_width

pytest.importorskip("pymongo", reason="the lab's fixtures works with PyMongo, which is not installed")

PLUGINS = str(Path(__file__).parent / "plugins")
SOUND = ("sound-1", "sound-2", "sound-3")


@pytest.fixture
def play(server, database_name, monkeypatch):
    """Play the planted experiment with the named contenders, by rounds or interleaved."""
    monkeypatch.setenv("MANGONEL_LAB_PLUGINS", "lab_plugin")
    path = [PLUGINS, *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.syspath_prepend(PLUGINS)

    def run(
        *contenders: str,
        rounds: int = 1,
        seed: int = 7,
        brief: bool = False,
        experiments: tuple[str, ...] = ("planted",),
        say=lambda progress: None,
        path=None,
        late: float = 0.0,
        **changes,
    ) -> Record:
        changes = {"database": database_name, "timeout": 60.0, **changes}
        plan = Plan(server.uri, experiments, contenders, Size(True, brief=brief), rounds, seed, **changes)
        scheduler = Scheduler(plan, say, Record(plan, path, fingerprint.fingerprint(["test"])))
        scheduler._started -= late
        return scheduler.run()

    return run


@pytest.fixture
def interleave(play, monkeypatch):
    """Play interleaved, where three passes are enough."""
    monkeypatch.setattr("mangonel.lab.samples.NARROW", math.inf)
    monkeypatch.setattr("mangonel.lab.samples.ENOUGH", 3)
    return functools.partial(play, brief=True)


def cell(record: Record, contender: str):
    return record.cells["planted", "only", contender]


def plan_of(*contenders: str, **changes) -> Plan:
    return Plan("", ("find-one",), contenders, Size(True), 1, 1, **changes)


def order(record: Record) -> list[list[str]]:
    return [entry["contenders"] for entry in record.order]


def printed(record: Record) -> str:
    lines: list[str] = []
    content = results.to_file(record, fingerprint.fingerprint(["test"]))
    table.show(json.loads(json.dumps(content)), lines.append, style="plain")
    return "\n".join(lines)


def test_the_scheduler_imports_no_peer():
    # This package's own driver comes with the package that the lab is a part of.
    code = (
        "import sys; from mangonel.lab import cli, scheduler, registry, results, table, marks\n"
        "registry.contenders(); registry.experiments()\n"
        "for c in registry.contenders().values(): c.missing()\n"
        "drivers = {'pymongo', 'motor', 'mongojet', 'bson', 'uvloop'}\n"
        "print(sorted(drivers & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_every_contender_plays_every_round_in_an_order_that_the_seed_decides(play):
    first = play(*SOUND, rounds=4, seed=1)
    same = play(*SOUND, rounds=4, seed=1)
    other = play(*SOUND, rounds=4, seed=2)

    assert all(sorted(names) == sorted(SOUND) for names in order(first))
    assert order(first) == order(same)
    assert order(first) != order(other)
    assert len({tuple(names) for names in order(first)}) > 1


def test_raw_samples_of_every_round_are_kept(play):
    record = play(*SOUND, rounds=2)
    content = json.loads(json.dumps(results.to_file(record, fingerprint.fingerprint(["x"]))))

    assert content["schema"] == 2
    assert content["plan"]["seed"] == 7
    assert {"date", "cpu", "cores", "kernel", "python", "commit", "server", "versions"} <= set(
        content["fingerprint"]
    )
    assert content["fingerprint"]["server"]["version"]
    for entry in content["cells"]:
        assert (entry["experiment"], entry["version"], entry["part"]) == ("planted", 3, "only")
        assert [r["round"] for r in entry["rounds"]] == [0, 1]
        for told in entry["rounds"]:
            assert told["sentinel_ns"] > 0
            assert len(told["samples"]) == 2
            assert all(
                s["ops"] == 10 and s["wall_ns"] >= 1_000_000 and s["peak_rss"] > 0 for s in told["samples"]
            )


def test_another_answer_makes_a_red_cell_without_a_figure(play):
    record = play(*SOUND, "liar")

    assert "another answer" in cell(record, "liar").failures[0]
    assert not any(cell(record, name).failures for name in SOUND)
    text = printed(record)
    row = next(line for line in text.splitlines() if "planted liar" in line)
    assert "another answer" in text.partition("failed: no figure counts")[2]
    assert "FAILED" in row
    assert "µs" not in row


def test_a_contender_that_aborts_while_timed_is_shown_with_its_signal(play):
    record = play("sound-1", "aborts")

    assert "SIGABRT" in cell(record, "aborts").failures[0]
    assert not cell(record, "sound-1").failures
    assert "SIGABRT" in printed(record)


def test_trap_4_an_abort_at_exit_is_shown_and_keeps_the_figures(play):
    record = play("sound-1", "aborts-at-exit")

    assert not cell(record, "aborts-at-exit").failures
    assert [(entry["contender"], entry["signal"]) for entry in record.exits] == [
        ("aborts-at-exit", "SIGABRT")
    ]
    text = printed(record)
    assert "workers that did not end cleanly" in text
    assert "SIGABRT" in text


def test_trap_3_closing_a_client_is_in_no_operation_and_told_apart(play):
    record = play("sound-1", "slow-to-close")
    content = results.to_file(record, fingerprint.fingerprint(["x"]))
    rows = results.Results(content).rows

    samples = cell(record, "slow-to-close").rounds[0]["samples"]
    assert min(sample["wall_ns"] for sample in samples) < 300_000_000
    assert rows["planted", "only", "slow-to-close"].closed_ns[0] >= 300_000_000
    assert rows["planted", "only", "sound-1"].closed_ns == []
    html = page.render(content)
    assert '<th scope="col" class="n">close()</th>' in html


def test_an_exception_in_the_timed_part_is_shown_with_its_place(play):
    record = play("sound-1", "raises")

    assert "RuntimeError: planted failure" in cell(record, "raises").failures[0]
    assert "lab_plugin.py" in cell(record, "raises").failures[0]


def test_a_contender_that_falls_silent_is_ended_and_shown(play):
    record = play("sound-1", "hangs", timeout=2.0)

    assert "no answer within 2 s" in cell(record, "hangs").failures[0]
    assert record.exits[0]["signal"] == "SIGKILL"


def test_an_absent_contender_is_named_with_the_reason(play):
    record = play("sound-1", "absent", "unfinished")

    reasons = {entry["contender"]: entry["reason"] for entry in record.missing}
    assert reasons["absent"] == "not installed: no_such_package_anywhere"
    assert "json has no no_such_name" in reasons["unfinished"]
    assert "no_such_package_anywhere" in printed(record)


def test_a_failing_experiment_does_not_lose_the_others(play, monkeypatch):
    from mangonel.lab.experiment import Experiment

    class Broken(Experiment):
        id = "broken"

        def parts(self, size):
            raise LookupError("planted")

    known = registry.experiments()
    monkeypatch.setattr(registry, "experiments", lambda: {"broken": Broken(), **known})
    record = play(*SOUND, rounds=3, experiments=("broken", "planted"))

    assert [len(cell(record, name).rounds) for name in SOUND] == [3, 3, 3]
    assert "LookupError: planted" in record.missing[0]["reason"]
    assert len(record.missing) == 2  # after two rounds it is left out
    assert "LookupError" in printed(record)


def test_an_interrupted_run_keeps_what_it_has(play, tmp_path, monkeypatch):
    told = []

    def say(progress):
        told.append(progress)
        if len(told) == 5:
            raise KeyboardInterrupt

    path = tmp_path / "r.jsonl"
    with pytest.raises(KeyboardInterrupt):
        play(*SOUND, rounds=3, say=say, path=path)

    content = results.load(path)
    assert content["end"]["how"] == "interrupted"
    assert sum(len(entry["rounds"]) for entry in content["cells"]) == 4
    assert told[-1].left_s is not None
    assert told[-1].total == 9


def test_trap_8_a_disturbed_round_is_played_again_whole_and_both_are_kept(play, monkeypatch):
    from mangonel.lab import scheduler

    monkeypatch.setattr(scheduler, "marked_rounds", lambda order, rounds: [("planted", 1)])
    # A round is half of this run, or nearly all of it.
    monkeypatch.setattr(scheduler, "AGAIN_SHARE", 100.0)
    record = play(*SOUND, rounds=2, again=1)

    last = record.order[-1]
    assert (last["round"], last["instead_of"]) == (2, 1)
    assert sorted(last["contenders"]) == sorted(SOUND)
    assert {"loop_ns", "fsync_ns", "pressure", "ping_us", "stolen"} <= set(last["sentinel"])
    assert [len(cell(record, name).rounds) for name in SOUND] == [3, 3, 3]


def test_a_part_of_few_rounds_is_played_in_the_first_alone_even_when_one_is_played_again(play, monkeypatch):
    from mangonel.lab import scheduler

    planted = registry.experiments()["planted"]
    seldom = [dataclasses.replace(part, rounds=1) for part in planted.parts(Size(True))]
    monkeypatch.setattr(planted, "parts", lambda size: seldom)
    monkeypatch.setattr(scheduler, "marked_rounds", lambda order, rounds: [("planted", 0)])
    # A round is half of this run, or nearly all of it.
    monkeypatch.setattr(scheduler, "AGAIN_SHARE", 100.0)
    record = play(*SOUND, rounds=2, again=1)

    assert [told["round"] for told in cell(record, "sound-1").rounds] == [0, 2]


def test_a_planted_slowdown_is_in_the_timed_part(play):
    record = play("sound-1", "sound-2", rounds=2, plants={"sound-1": 3.0})
    walls = {
        name: min(s["wall_ns"] for entry in cell(record, name).rounds for s in entry["samples"])
        for name in ("sound-1", "sound-2")
    }
    assert walls["sound-1"] >= 4_000_000  # the work sleeps 1 ms


def test_everybody_plays_twice_when_a_contender_is_set_against_itself(play):
    record = play("sound-1", twice=True, rounds=2)
    assert sorted(order(record)[0]) == ["sound-1", "sound-1#2"]
    found = results.Results(results.to_file(record, fingerprint.fingerprint(["x"])))
    assert found.null([*found.rows.values()], "sound-1") is not None


def test_a_single_file_is_a_plugin(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(
        "from mangonel.lab.contender import Contender\n"
        "CONTENDERS = (Contender('mine', 'my own', frozenset()),)\n"
    )
    monkeypatch.setenv("MANGONEL_LAB_PLUGINS", str(file))
    assert registry.contender("mine").title == "my own"
    assert registry.contender("mine#2").copy_of == "mine"


def test_a_plugin_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MANGONEL_LAB_PLUGINS", str(tmp_path / "none.py"))
    with pytest.raises(ValueError, match=r"no such plugin: .*none\.py"):
        registry.contenders()


def test_a_budget_ends_the_run_after_whole_rounds(play):
    record = play(*SOUND, rounds=50, budget=0.5)

    played = {len(cell(record, name).rounds) for name in SOUND}
    assert len(played) == 1
    assert 1 <= played.pop() < 50


def test_parts_of_few_rounds_do_not_make_the_next_round_look_long(monkeypatch):
    scheduler = Scheduler(dataclasses.replace(plan_of("sound-1"), rounds=3, budget=200.0))
    # Of the first round's 110 s, 100 went into parts that the others have not.
    took = iter([(110.0, 100.0), (10.0, 0.0), (10.0, 0.0)])
    monkeypatch.setattr(scheduler, "_round", lambda this: next(took))
    monkeypatch.setattr(scheduler, "_is_over", lambda cost: cost > 50)
    scheduler._play_rounds([registry.experiments()["find-one"]])
    assert next(took, None) is None
    scheduler._fixtures.finish()


def test_the_seconds_of_a_part_of_one_round_are_counted_in_that_round_alone(play, monkeypatch):
    planted = registry.experiments()["planted"]
    seldom = [dataclasses.replace(part, rounds=1) for part in planted.parts(Size(True))]
    monkeypatch.setattr(planted, "parts", lambda size: seldom)
    played: list[Round] = []
    whole = Scheduler._whole_round
    monkeypatch.setattr(
        Scheduler, "_whole_round", lambda self, this: (played.append(this), whole(self, this))[1]
    )
    play("sound-1", rounds=2)

    assert [each.seldom_s > 0 for each in played] == [True, False]


def test_a_share_of_the_short_forms_time_is_no_limit_of_the_full_form():
    experiment = registry.experiments()["websessions"]
    for quick in (True, False):
        scheduler = Scheduler(dataclasses.replace(plan_of("web-none"), size=Size(quick), budget=3600.0))
        assert scheduler._is_enough(experiment, 1, 300.0) == quick
        scheduler._fixtures.finish()


def test_the_reference_plays_twice_under_two_names(monkeypatch):
    from mangonel.lab.scheduler import line_up

    experiment = registry.experiments()["find-one"]
    playing, _ = line_up(experiment, plan_of("pymongo", "pymongo-async", "raw-socket"))

    names = [contender.id for contender in playing]
    assert names == ["pymongo", "pymongo#2", "pymongo-async", "pymongo-async#2", "raw-socket"]
    assert playing[1].copy_of == "pymongo"


def test_without_a_reference_the_majority_is_right():
    assert disagreeing({"a": "1", "b": "1", "c": "2"}) == ["c"]


def test_with_a_reference_its_answer_is_right():
    assert disagreeing({"pymongo": "1", "b": "2", "c": "2"}) == ["b", "c"]


def test_equal_answers_leave_nobody_out():
    assert disagreeing({"pymongo": "1", "b": "1"}) == []
    assert disagreeing({}) == []


def test_a_pass_takes_one_sample_of_everybody(interleave):
    record = interleave(*SOUND)

    for name in SOUND:
        assert not cell(record, name).failures
        assert [entry["round"] for entry in cell(record, name).rounds] == [0, 1, 2]
        assert all(len(entry["samples"]) == 1 for entry in cell(record, name).rounds)
    for number in range(3):
        positions = [cell(record, name).rounds[number]["position"] for name in SOUND]
        assert sorted(positions) == [0, 1, 2]


def test_passes_go_on_while_an_interval_is_wide_and_there_is_time(interleave, monkeypatch):
    monkeypatch.setattr("mangonel.lab.samples.NARROW", 0.0)
    record = interleave(*SOUND, budget=1000.0)

    assert [len(cell(record, name).rounds) for name in SOUND] == [MOST] * 3


def test_passes_end_when_the_intervals_are_narrow(interleave):
    record = interleave(*SOUND, budget=1000.0)

    assert [len(cell(record, name).rounds) for name in SOUND] == [3, 3, 3]


@pytest.mark.parametrize("name", ["aborts", "raises"])
def test_whoever_fails_leaves_the_part_and_the_others_play_on(interleave, name):
    record = interleave("sound-1", name, "sound-2")

    assert cell(record, name).failures
    for sound in ("sound-1", "sound-2"):
        assert len(cell(record, sound).rounds) == 3
        assert not cell(record, sound).failures


def test_another_answer_makes_a_red_cell_when_interleaved_too(interleave):
    record = interleave(*SOUND, "liar")

    assert "another answer" in cell(record, "liar").failures[0]


def test_trap_3_closing_a_client_is_in_no_operation_when_interleaved_too(interleave):
    record = interleave("sound-1", "slow-to-close")
    closed = [line for line in record.lines if line["kind"] == "closed"]

    assert [line["cell"][2] for line in closed] == ["slow-to-close"]
    assert closed[0]["ns"] >= 300_000_000
    samples = [entry["samples"][0] for entry in cell(record, "slow-to-close").rounds]
    assert min(sample["wall_ns"] for sample in samples) < 300_000_000


def test_a_contender_that_cannot_be_used_is_named_when_interleaved_too(interleave):
    record = interleave("sound-1", "absent", "unfinished")

    reasons = {entry["contender"]: entry["reason"] for entry in record.missing}
    assert reasons["absent"] == "not installed: no_such_package_anywhere"
    assert "json has no no_such_name" in reasons["unfinished"]


def test_what_was_not_played_for_want_of_time_is_named(interleave):
    record = interleave(*SOUND, budget=9.0, late=10.0)

    assert not record.cells
    notes = [line["text"] for line in record.lines if line["kind"] == "note"]
    assert any(text.startswith("planted was not played") for text in notes)


def test_where_all_experiments_are_asked_for_none_is_left_out_for_want_of_time(interleave):
    record = interleave(*SOUND, budget=9.0, late=10.0, all_of_them=True)

    assert [len(cell(record, name).rounds) for name in SOUND] == [3, 3, 3]


@pytest.mark.parametrize(("took", "lean"), [(0.9, False), (1.1, False), (2.0, True)])
def test_only_few_play_what_follows_an_experiment_that_took_far_more_than_its_share(monkeypatch, took, lean):
    known = [registry.experiments()[name] for name in ("find-one", "insert")]
    plan = dataclasses.replace(plan_of("pymongo"), budget=1000.0, all_of_them=True)
    scheduler = Scheduler(plan)
    scheduler._interleaved = True
    seen, spent = [], [0.0]
    monkeypatch.setattr(scheduler, "_spent", lambda: spent[0])

    def whole(this):
        seen.append(this.lean)
        weight = sum(each.brief_s for each in known) if len(seen) == 1 else known[1].brief_s
        seconds = took * (1000.0 - spent[0]) * this.experiment.brief_s / weight
        spent[0] += seconds
        return seconds, 0.0

    monkeypatch.setattr(scheduler, "_round", whole)
    scheduler._share_time(known)
    scheduler._fixtures.finish()

    assert seen == [False, lean]


def test_a_cast_says_who_plays_an_experiment(interleave):
    record = interleave(*SOUND, cast={"planted": ("sound-1", "sound-2")})

    assert {name for _, _, name in record.cells} == {"sound-1", "sound-2"}


def test_a_worker_stays_for_the_next_experiment(interleave):
    record = interleave("sound-1", experiments=("planted", "planted"))

    assert not record.missing
    assert not record.exits
    assert sum(line["kind"] == "exit" for line in record.lines) == 1


def test_values_that_agree_by_chance_end_no_passes(interleave, monkeypatch):
    monkeypatch.setattr("mangonel.lab.samples.ENOUGH", 5)
    record = interleave(*SOUND, budget=1000.0)

    assert [len(cell(record, name).rounds) for name in SOUND] == [5, 5, 5]


def test_the_forms_have_their_own_figures():
    assert Size(quick=True, brief=True).choose(10, 100, 1) == 1
    assert Size(quick=True, brief=True).choose(10, 100) == 10
    assert Size(quick=True).choose(10, 100, 1) == 10
    assert Size().choose(10, 100, 1) == 100


def test_an_interval_of_few_values_is_wide_and_of_many_narrow():
    source = random.Random(1)
    values = [source.gauss(0, 0.05) for _ in range(50)]

    assert half_width(values[:1]) == math.inf
    assert half_width(values) < half_width(values[:5])
    assert 0.008 < half_width(values) < 0.03


def test_every_experiment_has_a_share_of_the_time():
    for experiment in registry.experiments().values():
        assert isinstance(experiment, Experiment)
        assert experiment.brief_s > 0
        assert experiment.passes >= 1
