"""The scheduler: order, gate, checks, and contenders that misbehave. A planted experiment needs no driver."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from mangonel.lab import fingerprint, registry, results, table
from mangonel.lab.experiment import Experiment, Size
from mangonel.lab.record import Plan, Record
from mangonel.lab.report import page
from mangonel.lab.samples import ENOUGH, Player, Round, Samples, disagreeing
from mangonel.lab.scheduler import Scheduler, line_up

pytest.importorskip("pymongo", reason="the lab's fixtures works with PyMongo, which is not installed")

PLUGINS = str(Path(__file__).parent / "plugins")
SOUND = ("sound-1", "sound-2", "sound-3")
MISBEHAVING = ("liar", "aborts", "aborts-at-exit", "raises", "slow-to-close", "absent", "unfinished")


def play(
    uri: str, *contenders: str, path: Path | None = None, say=lambda progress: None, **changes
) -> Record:
    """Play the planted experiment once, or with the given changes of the plan."""
    usual = {"experiments": ("planted",), "rounds": 1, "seed": 7, "size": Size(True), "timeout": 60.0}
    plan = Plan(uri=uri, contenders=contenders, database="test_lab_scheduler", **{**usual, **changes})
    return Scheduler(plan, say, Record(plan, path, fingerprint.fingerprint(["test"]))).run()


def plan_of(*contenders: str, **changes) -> Plan:
    usual = {"experiments": ("find-one",), "size": Size(True), "rounds": 1, "seed": 1}
    return Plan(uri="", contenders=contenders, **{**usual, **changes})


def rounds_of(record: Record, contender: str) -> list[dict]:
    return next(each["rounds"] for each in record.content()["cells"] if each["contender"] == contender)


def failures(record: Record) -> dict[str, str]:
    return {each["contender"]: " ".join(each["failures"]) for each in record.content()["cells"]}


def order(record: Record) -> list[dict]:
    return record.content()["plan"]["order"]


def printed(record: Record) -> str:
    lines: list[str] = []
    table.show(json.loads(json.dumps(record.content())), lines.append, style="plain")
    return "\n".join(lines)


@pytest.fixture(scope="module", autouse=True)
def plugin():
    """Make the planted experiment and its contenders importable for workers and this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MANGONEL_LAB_PLUGINS", "lab_plugin")
        patch.setenv("PYTHONPATH", os.pathsep.join([PLUGINS, *filter(None, [os.environ.get("PYTHONPATH")])]))
        patch.syspath_prepend(PLUGINS)
        yield


@pytest.fixture(
    scope="module", params=[pytest.param("by rounds", marks=pytest.mark.no_sample), "interleaved"]
)
def played(request, server):
    """A run of sound contenders, the last of them slowed down, beside all that misbehave, with each policy."""
    is_brief = request.param == "interleaved"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mangonel.lab.samples.NARROW", math.inf)
        patch.setattr("mangonel.lab.samples.ENOUGH", 3)
        names, size = (*SOUND, *MISBEHAVING), Size(True, brief=is_brief)
        return play(server.uri, *names, size=size, plants={"sound-3": 3.0})


@pytest.fixture
def no_workers(monkeypatch):
    """Let rounds be played without a server and without workers."""
    idle = Mock(**{"process.poll.return_value": None})
    monkeypatch.setattr("mangonel.lab.scheduler.Child", lambda module: idle)
    monkeypatch.setattr("mangonel.lab.scheduler.CALM_S", 0.0)
    monkeypatch.setattr(Scheduler, "_seat", lambda *arguments: [])
    monkeypatch.setattr(Scheduler, "_ask", lambda self, message: {"ping_us": 90})


def test_the_scheduler_imports_no_peer():
    # This package's own driver is installed with the lab.
    code = (
        "import sys; from mangonel.lab import cli, scheduler, registry, results, table, marks\n"
        "registry.contenders(); registry.experiments()\n"
        "for c in registry.contenders().values(): c.missing()\n"
        "drivers = {'pymongo', 'motor', 'mongojet', 'bson', 'uvloop'}\n"
        "print(sorted(drivers & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_every_contender_plays_every_round_in_an_order_that_the_seed_decides(no_workers):
    first, same, other = (
        [entry["contenders"] for entry in order(play("", *SOUND, rounds=4, seed=seed))] for seed in (1, 1, 2)
    )
    assert all(sorted(names) == sorted(SOUND) for names in first)
    assert first == same != other
    assert len({tuple(names) for names in first}) > 1


def test_raw_samples_of_every_round_are_kept(played):
    content = json.loads(json.dumps(played.content()))

    assert (content["schema"], content["plan"]["seed"], content["end"]["how"]) == (2, 7, "complete")
    told = {"date", "cpu", "cores", "kernel", "python", "commit", "server", "versions"}
    assert told <= set(content["fingerprint"])
    assert content["fingerprint"]["server"]["version"]
    for cell in [each for each in content["cells"] if each["contender"] in SOUND]:
        assert (cell["experiment"], cell["version"], cell["part"]) == ("planted", 3, "only")
        samples = [sample for entry in cell["rounds"] for sample in entry["samples"]]
        is_brief = content["plan"]["form"] == "brief"
        assert [entry["round"] for entry in cell["rounds"]] == ([0, 1, 2] if is_brief else [0])
        assert all(entry["sentinel_ns"] > 0 for entry in cell["rounds"])
        assert len(samples) == (3 if is_brief else 2)
        assert all(s["ops"] == 10 and s["wall_ns"] >= 1_000_000 and s["peak_rss"] > 0 for s in samples)


def test_a_pass_takes_one_sample_of_everybody_in_some_order(played):
    cells = played.content()["cells"]
    for number in {entry["round"] for cell in cells for entry in cell["rounds"]}:
        places = [e["position"] for cell in cells for e in cell["rounds"] if e["round"] == number]
        assert len(places) == len(set(places)) >= len(SOUND)


def test_another_answer_makes_a_red_cell_without_a_figure(played):
    text = printed(played)

    assert "another answer" in failures(played)["liar"]
    assert "another answer" in text.partition("failed: no figure counts")[2]
    row = next(line for line in text.splitlines() if "planted liar" in line)
    assert "FAILED" in row
    assert "µs" not in row


def test_whoever_fails_leaves_and_the_others_play_on(played):
    found = failures(played)

    assert not any(found[name] for name in (*SOUND, "aborts-at-exit", "slow-to-close"))
    assert "RuntimeError: planted failure" in found["raises"]
    assert "lab_plugin.py" in found["raises"]
    assert "SIGABRT" in found["aborts"]
    assert "SIGABRT" in printed(played).partition("failed: no figure counts")[2]


def test_trap_4_an_abort_at_exit_is_shown_and_keeps_the_figures(played):
    exits = {entry["contender"]: entry.get("signal") for entry in played.content()["exits"]}

    assert exits["aborts"] == exits["aborts-at-exit"] == "SIGABRT"
    assert rounds_of(played, "aborts-at-exit")
    assert "SIGABRT" in printed(played).partition("workers that did not end cleanly")[2]


def test_trap_3_closing_a_client_is_in_no_operation_and_told_apart(played):
    content = played.content()
    rows = results.Results(content).rows

    samples = [s for entry in rounds_of(played, "slow-to-close") for s in entry["samples"]]
    assert min(sample["wall_ns"] for sample in samples) < 1_500_000_000
    assert rows["planted", "only", "slow-to-close"].closed_ns[0] >= 1_500_000_000
    assert rows["planted", "only", "sound-1"].closed_ns == []
    assert '<th scope="col" class="n">close()</th>' in page.render(content)


def test_an_absent_contender_is_named_with_the_reason(played):
    reasons = {entry["contender"]: entry["reason"] for entry in played.content()["missing"]}

    assert reasons["absent"] == "not installed: no_such_package_anywhere"
    assert "json has no no_such_name" in reasons["unfinished"]
    assert "no_such_package_anywhere" in printed(played)


def test_a_planted_slowdown_is_in_the_timed_part(played):
    samples = [s for entry in rounds_of(played, "sound-3") for s in entry["samples"]]
    assert min(sample["wall_ns"] for sample in samples) >= 4_000_000  # the work sleeps 1 ms


def test_a_contender_that_falls_silent_is_ended_and_shown(server, monkeypatch):
    sample = Samples._sample

    def impatient(self, *arguments):
        self.timeout = 1.0
        sample(self, *arguments)

    monkeypatch.setattr(Samples, "_sample", impatient)
    record = play(server.uri, "hangs")

    assert "no answer within 1 s" in failures(record)["hangs"]
    assert record.content()["exits"][0]["signal"] == "SIGKILL"


def test_a_failing_experiment_does_not_lose_the_others(no_workers, monkeypatch):
    class Broken(Experiment):
        id = "broken"

        def parts(self, size):
            raise LookupError("planted")

    known = registry.experiments()
    monkeypatch.setattr(registry, "experiments", lambda: {"broken": Broken(), **known})
    record = play("", *SOUND, rounds=3, experiments=("broken", "planted"))

    assert [(entry["experiment"], entry["round"]) for entry in order(record)] == [
        ("planted", number) for number in range(3)
    ]
    missing = record.content()["missing"]
    assert len(missing) == 2  # it is left out after two rounds
    assert "LookupError: planted" in missing[0]["reason"]


def test_an_interrupted_run_keeps_what_it_has(server, tmp_path):
    told = []

    def say(progress):
        told.append(progress)
        if len(told) == 4:
            raise KeyboardInterrupt

    path = tmp_path / "r.jsonl"
    with pytest.raises(KeyboardInterrupt):
        play(server.uri, *SOUND[:2], rounds=3, say=say, path=path)

    content = results.load(path)
    assert content["end"]["how"] == "interrupted"
    assert sum(len(entry["rounds"]) for entry in content["cells"]) == 3
    assert (told[-1].left_s is not None, told[-1].total) == (True, 6)


def test_trap_8_a_disturbed_round_is_played_again_whole(no_workers, monkeypatch):
    monkeypatch.setattr("mangonel.lab.record.marked_rounds", lambda order, rounds: [("planted", 1)])
    # A round is half of this run, or nearly all of it.
    monkeypatch.setattr("mangonel.lab.scheduler.AGAIN_SHARE", 100.0)
    found = order(play("", *SOUND, rounds=2, again=1))

    assert [(entry["round"], entry["instead_of"]) for entry in found] == [(0, None), (1, None), (2, 1)]
    assert sorted(found[-1]["contenders"]) == sorted(SOUND)
    assert {"loop_ns", "fsync_ns", "pressure", "ping_us", "stolen"} <= set(found[-1]["sentinel"])


def test_a_part_of_few_rounds_is_played_in_the_first_alone_even_when_one_is_played_again(
    no_workers, monkeypatch
):
    planted = registry.experiments()["planted"]
    seldom = [dataclasses.replace(part, rounds=1) for part in planted.parts(Size(True))]
    monkeypatch.setattr(planted, "parts", lambda size: seldom)
    taken: list[Round] = []
    played: list[Round] = []
    whole = Scheduler._whole_round
    monkeypatch.setattr(
        Scheduler, "_whole_round", lambda self, this: (played.append(this), whole(self, this))[1]
    )
    monkeypatch.setattr(Samples, "take", lambda self, until: taken.append(self.round))
    monkeypatch.setattr("mangonel.lab.record.marked_rounds", lambda order, rounds: [("planted", 0)])
    monkeypatch.setattr("mangonel.lab.scheduler.AGAIN_SHARE", 100.0)
    play("", "sound-1", rounds=2, again=1)

    assert [each.number for each in taken] == [0, 2]
    # Only its seconds are counted in these rounds.
    assert [each.number for each in played if each.seldom_s > 0] == [0, 2]


@pytest.mark.parametrize(("paired", "together"), [(True, [3, 3]), (False, [1] * 6)])
def test_contenders_of_a_paired_experiment_alternate_in_each_round(no_workers, monkeypatch, paired, together):
    monkeypatch.setattr(registry.experiments()["planted"], "paired", paired)
    monkeypatch.setattr(
        Scheduler,
        "_seat",
        lambda self, this, group, *more: [
            Player(each, Mock(**{"process.poll.return_value": None}), "") for each in group
        ],
    )
    monkeypatch.setattr(Scheduler, "_leave", lambda *arguments: None)
    taken: list[int] = []
    monkeypatch.setattr(Samples, "take", lambda self, until: taken.append(len(self.players)))
    play("", *SOUND, rounds=2)

    assert taken == together


def scheduled(monkeypatch, plan: Plan, cost, seldom: float = 0.0) -> tuple[Scheduler, list[Round]]:
    """Return a scheduler whose first round takes `seldom` seconds more than usual, and the rounds that it plays."""
    scheduler, rounds, spent = Scheduler(plan), [], [0.0]

    def play_round(this: Round) -> tuple[float, float]:
        rounds.append(this)
        rare = seldom if len(rounds) == 1 else 0.0
        seconds = rare + (cost(this, spent[0]) if callable(cost) else cost)
        spent[0] += seconds
        return seconds, rare

    monkeypatch.setattr(scheduler, "_spent", lambda: spent[0])
    monkeypatch.setattr(scheduler, "_round", play_round)
    return scheduler, rounds


@pytest.mark.parametrize(
    ("asked", "budget", "seldom", "played"),
    [
        pytest.param(50, 105.0, 0.0, 10, id="the budget ends the run after whole rounds"),
        # Of the first round's 110 s, parts that the other rounds lack took 100.
        pytest.param(3, 135.0, 100.0, 3, id="parts of few rounds do not make the next one look long"),
    ],
)
def test_rounds_go_on_as_the_budget_allows(monkeypatch, asked, budget, seldom, played):
    scheduler, rounds = scheduled(monkeypatch, plan_of("pymongo", rounds=asked, budget=budget), 10.0, seldom)
    scheduler._play_rounds([registry.experiments()["find-one"]])

    assert len(rounds) == played


def test_a_share_of_the_short_forms_time_is_no_limit_of_the_full_form():
    experiment = registry.experiments()["websessions"]
    for quick in (True, False):
        scheduler = Scheduler(plan_of("web-none", size=Size(quick), budget=3600.0))
        assert scheduler._is_enough(experiment, 1, 300.0) == quick


@pytest.mark.parametrize(("took", "lean"), [(0.9, False), (1.1, False), (2.0, True)])
def test_only_few_play_what_follows_an_experiment_that_took_far_more_than_its_share(monkeypatch, took, lean):
    known = [registry.experiments()[name] for name in ("find-one", "insert")]
    weights = {"find-one": sum(each.brief_s for each in known), "insert": known[1].brief_s}

    def cost(this, spent):
        return took * (1000.0 - spent) * this.experiment.brief_s / weights[this.experiment.id]

    plan = plan_of("pymongo", budget=1000.0, all_of_them=True, size=Size(True, brief=True))
    scheduler, rounds = scheduled(monkeypatch, plan, cost)
    scheduler._share_time(known)

    assert [each.lean for each in rounds] == [False, lean]


@pytest.mark.parametrize("all_of_them", [True, False])
def test_what_is_not_played_for_want_of_time_is_named_and_nothing_is_where_all_are_asked_for(
    monkeypatch, all_of_them
):
    plan = plan_of("pymongo", budget=9.0, all_of_them=all_of_them, size=Size(True, brief=True))
    scheduler, rounds = scheduled(monkeypatch, plan, 10.0)
    scheduler._share_time([registry.experiments()[name] for name in ("find-one", "insert")])

    notes = scheduler.record.content()["notes"]
    assert len(rounds) == (2 if all_of_them else 1)
    assert [text.partition(":")[0] for text in notes] == ([] if all_of_them else ["insert was not played"])


def test_the_reference_plays_twice_under_two_names_and_everybody_where_that_is_asked_for():
    experiment = registry.experiments()["find-one"]
    playing, _ = line_up(experiment, plan_of("pymongo", "pymongo-async", "raw-socket"))

    names = [contender.id for contender in playing]
    assert names == ["pymongo", "pymongo#2", "pymongo-async", "pymongo-async#2", "raw-socket"]
    assert playing[1].copy_of == "pymongo"
    playing, _ = line_up(experiment, plan_of("raw-socket", twice=True))
    assert [contender.id for contender in playing] == ["raw-socket", "raw-socket#2"]


def test_a_cast_says_who_plays_an_experiment():
    plan = plan_of(*SOUND, cast={"planted": ("sound-1", "sound-2")})
    playing, _ = line_up(registry.experiments()["planted"], plan)

    assert [contender.id for contender in playing] == ["sound-1", "sound-2"]


@pytest.mark.parametrize(
    ("narrow", "seconds", "passes"),
    [
        pytest.param(True, 1000.0, ENOUGH, id="few values agree by chance, so some are taken in any case"),
        pytest.param(False, 1000.0, Experiment.most_passes, id="while an interval is wide and there is time"),
        pytest.param(False, -1.0, Experiment.passes, id="out of time"),
    ],
)
def test_passes_end_when_the_intervals_are_narrow_or_time_is_up(monkeypatch, narrow, seconds, passes):
    taken: list[int] = []
    for name in ("_get_ready", "_end"):
        monkeypatch.setattr(Samples, name, lambda *arguments: None)
    monkeypatch.setattr(Samples, "_pass", lambda self, number: taken.append(number))
    monkeypatch.setattr(Samples, "_is_narrow", lambda self: narrow)
    experiment, brief = registry.experiments()["find-one"], Size(True, brief=True)
    part = experiment.parts(brief)[0]
    player = Player(registry.contender("pymongo"), None, "")  # type: ignore[arg-type]  # no worker is asked
    record = Record(plan_of("pymongo", size=brief))
    samples = Samples(Round(experiment, 0), part, part, [player], record, dict, random.Random(1))
    samples.take(math.inf if seconds > 0 else 0.0)

    assert taken == list(range(passes))


def test_a_worker_stays_for_the_next_experiment(server):
    size = Size(True, brief=True)
    record = play(server.uri, "sound-1", size=size, experiments=("planted", "planted"))

    content = record.content()
    assert (content["missing"], content["exits"], content["workers"]) == ([], [], 1)


def test_a_single_file_is_a_plugin_and_one_that_is_not_there_is_named(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(
        "from mangonel.lab.contender import Contender\n"
        "CONTENDERS = (Contender('mine', 'my own', frozenset()),)\n"
    )
    monkeypatch.setenv("MANGONEL_LAB_PLUGINS", str(file))
    assert registry.contender("mine").title == "my own"
    assert registry.contender("mine#2").copy_of == "mine"

    monkeypatch.setenv("MANGONEL_LAB_PLUGINS", str(tmp_path / "none.py"))
    with pytest.raises(ValueError, match=r"no such plugin: .*none\.py"):
        registry.contenders()


@pytest.mark.parametrize(
    ("digests", "wrong"),
    [
        pytest.param({"a": "1", "b": "1", "c": "2"}, ["c"], id="the majority is right"),
        pytest.param({"pymongo": "1", "b": "2", "c": "2"}, ["b", "c"], id="a reference is right"),
        pytest.param({"pymongo": "1", "b": "1"}, [], id="equal answers"),
        pytest.param({}, [], id="no answers"),
    ],
)
def test_whoever_disagrees_with_the_reference_or_the_majority_is_named(digests, wrong):
    assert disagreeing(digests) == wrong


def test_the_forms_have_their_own_figures():
    forms = Size(quick=True, brief=True), Size(quick=True), Size()
    assert [size.of([10, 100, 1]) for size in forms] == [1, 10, 100]
    assert [size.of([10, 100]) for size in forms] == [10, 10, 100]


def test_every_experiment_has_a_share_of_the_time():
    for experiment in registry.experiments().values():
        assert isinstance(experiment, Experiment)
        assert experiment.brief_s > 0
        assert experiment.passes >= 1
