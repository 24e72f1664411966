"""The brief form: samples in turn, one process each, and time shared out among experiments."""

from __future__ import annotations

import math
import os
import random
from pathlib import Path

import pytest

from mangonel.lab import fingerprint, registry
from mangonel.lab.experiment import Experiment, Size
from mangonel.lab.record import Plan, Record
from mangonel.lab.samples import MOST
from mangonel.lab.scheduler import Scheduler
from mangonel.lab.statistics import half_width

pytest.importorskip("pymongo", reason="the lab's fixtures works with PyMongo, which is not installed")

PLUGINS = str(Path(__file__).parent / "plugins")
SOUND = ("sound-1", "sound-2", "sound-3")


@pytest.fixture
def play(server, database_name, monkeypatch):
    """Play the planted experiment in the brief form."""
    monkeypatch.setenv("MANGONEL_LAB_PLUGINS", "lab_plugin")
    path = [PLUGINS, *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.syspath_prepend(PLUGINS)

    monkeypatch.setattr("mangonel.lab.samples.NARROW", math.inf)
    monkeypatch.setattr("mangonel.lab.samples.ENOUGH", 3)

    def run(*contenders: str, budget: float = 0.0, experiments=("planted",), late=0.0, **changes) -> Record:
        size = Size(quick=True, brief=True)
        plan = Plan(
            server.uri,
            experiments,
            contenders,
            size,
            1,
            7,
            budget=budget,
            database=database_name,
            **changes,
        )
        scheduler = Scheduler(plan, record=Record(plan, None, fingerprint.fingerprint(["test"])))
        scheduler._started -= late
        return scheduler.run()

    return run


def cell(record: Record, contender: str):
    return record.cells["planted", "only", contender]


def test_a_pass_takes_one_sample_of_everybody(play):
    record = play(*SOUND)

    for name in SOUND:
        assert not cell(record, name).failures
        assert [entry["round"] for entry in cell(record, name).rounds] == [0, 1, 2]
        assert all(len(entry["samples"]) == 1 for entry in cell(record, name).rounds)
    for number in range(3):
        positions = [cell(record, name).rounds[number]["position"] for name in SOUND]
        assert sorted(positions) == [0, 1, 2]


def test_passes_go_on_while_an_interval_is_wide_and_there_is_time(play, monkeypatch):
    monkeypatch.setattr("mangonel.lab.samples.NARROW", 0.0)
    record = play(*SOUND, budget=1000.0)

    assert [len(cell(record, name).rounds) for name in SOUND] == [MOST] * 3


def test_passes_end_when_the_intervals_are_narrow(play):
    record = play(*SOUND, budget=1000.0)

    assert [len(cell(record, name).rounds) for name in SOUND] == [3, 3, 3]


@pytest.mark.parametrize("name", ["aborts", "raises"])
def test_whoever_fails_leaves_the_part_and_the_others_play_on(play, name):
    record = play("sound-1", name, "sound-2")

    assert cell(record, name).failures
    for sound in ("sound-1", "sound-2"):
        assert len(cell(record, sound).rounds) == 3
        assert not cell(record, sound).failures


def test_another_answer_makes_a_red_cell_when_interleaved_too(play):
    record = play(*SOUND, "liar")

    assert "another answer" in cell(record, "liar").failures[0]


def test_trap_3_closing_a_client_is_in_no_operation_when_interleaved_too(play):
    record = play("sound-1", "slow-to-close")
    closed = [line for line in record.lines if line["kind"] == "closed"]

    assert [line["cell"][2] for line in closed] == ["slow-to-close"]
    assert closed[0]["ns"] >= 300_000_000
    samples = [entry["samples"][0] for entry in cell(record, "slow-to-close").rounds]
    assert min(sample["wall_ns"] for sample in samples) < 300_000_000


def test_a_contender_that_cannot_be_used_is_named(play):
    record = play("sound-1", "absent", "unfinished")

    reasons = {entry["contender"]: entry["reason"] for entry in record.missing}
    assert reasons["absent"] == "not installed: no_such_package_anywhere"
    assert "json has no no_such_name" in reasons["unfinished"]


def test_what_was_not_played_for_want_of_time_is_named(play):
    record = play(*SOUND, budget=9.0, late=10.0)

    assert not record.cells
    notes = [line["text"] for line in record.lines if line["kind"] == "note"]
    assert any(text.startswith("planted was not played") for text in notes)


def test_where_all_experiments_are_asked_for_none_is_left_out_for_want_of_time(play):
    record = play(*SOUND, budget=9.0, late=10.0, all_of_them=True)

    assert [len(cell(record, name).rounds) for name in SOUND] == [3, 3, 3]


def test_a_cast_says_who_plays_an_experiment(play):
    record = play(*SOUND, cast={"planted": ("sound-1", "sound-2")})

    assert {name for _, _, name in record.cells} == {"sound-1", "sound-2"}


def test_a_worker_stays_for_the_next_experiment(play):
    record = play("sound-1", experiments=("planted", "planted"))

    assert not record.missing
    assert not record.exits
    assert sum(line["kind"] == "exit" for line in record.lines) == 1


def test_values_that_agree_by_chance_end_no_passes(play, monkeypatch):
    monkeypatch.setattr("mangonel.lab.samples.ENOUGH", 5)
    record = play(*SOUND, budget=1000.0)

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
