"""What the method promises: A/A holds, planted slowdowns are found, disturbed rounds are played again whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mangonel.cli import main
from mangonel.lab import compare, noise, results, statistics
from mangonel.lab.checks import grown, other_concern
from mangonel.lab.commands.judge import against_itself
from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment, Part, Size
from mangonel.lab.record import Plan, Record

MACHINE = {
    "date": "2026-01-01T00:00:00Z",
    "cpu": "a processor",
    "cores": 2,
    "memory_mb": 2048,
    "virtual": True,
    "kernel": "6",
    "python": "3.11",
    "load": [0.5],
    "commit": "abc",
}


class _Subject(Experiment):
    id = "subject"

    def __init__(self, version: int = 1) -> None:
        self.version = version


def run(
    seed: int,
    slow: float = 1.0,
    parts: int = 6,
    rounds: int = 5,
    version: int = 1,
    sentinels: list[int] | None = None,
    instead: dict[int, int] | None = None,
    machine: dict | None = None,
    path: Path | None = None,
):
    """Return a run of synthetic rounds: drift shared by a round's contenders, noise of each, `slow` for ours."""
    source = random.Random(seed)
    experiment = _Subject(version)
    plan = Plan("", ("subject",), ("pymongo", "mangonel"), Size(), rounds, seed)
    record = Record(plan, path, machine or MACHINE)
    record.describe({"version": "6.0", "topology": "standalone", "ping_us": 90})
    contenders = {"pymongo": 100.0, "pymongo#2": 100.0, "mangonel": 25.0 * slow}
    for number in range(rounds):
        drift = source.lognormvariate(0, 0.3)
        loop_ns = (sentinels or [1000] * rounds)[number]
        for turn in range(parts):
            part = Part(f"part-{turn}", "a part", frozenset(), 10)
            for name, us in contenders.items():
                cell = record.cell(experiment, part, Contender(name, name, frozenset()))
                mine = us * drift * source.lognormvariate(0, 0.02)
                walls = [round(mine * source.lognormvariate(0, 0.01) * 10_000) for _ in range(3)]
                samples = [
                    {"wall_ns": wall, "ops": 10, "cpu_ns": wall // 2, "peak_rss": 10**7, "extras": {}}
                    for wall in walls
                ]
                told = {"round": number, "at": float(number), "sentinel_ns": loop_ns, "samples": samples}
                record.tell("round", cell=cell, **told)
        record.tell(
            "played",
            experiment="subject",
            round=number,
            contenders=list(contenders),
            seconds=1.0,
            sentinel={"loop_ns": loop_ns, "stolen": 0.0},
            instead_of=(instead or {}).get(number),
        )
    record.end("complete")
    record.close()
    return results.Results(record.content())


def test_a_contender_against_itself_holds_1_in_95_of_100_cells():
    # Each run is checked as `lab aa` checks it; the seeds are fixed, so this cannot fail by chance.
    held, bad = 0, []
    for seed in range(6):
        one, others = against_itself(run(seed, parts=10))
        held, bad = held + one, bad + others
    assert held + len(bad) == 60
    assert held >= 0.95 * 60


@pytest.mark.parametrize("rounds", [3, 5, 10])
def test_intervals_of_few_rounds_cover_as_often_as_they_say(rounds):
    source = random.Random(rounds)
    covered = 0
    for _ in range(60):
        above, below = (
            {number: [source.lognormvariate(0, 0.1) for _ in range(3)] for number in range(rounds)}
            for _ in range(2)
        )
        covered += not statistics.ratio(above, below).excludes(1.0)
    assert covered >= 0.94 * 60


def test_a_planted_slowdown_of_15_percent_is_found():
    changes = compare.changes(run(1), run(2, slow=1.15))

    assert {change.key[2] for change in changes} == {"mangonel"}
    assert all(change.word == "slower" for change in changes)
    assert all(1.08 < change.ratio.value < 1.22 for change in changes)


def test_two_runs_of_the_same_differ_nowhere():
    stands = [change.stands for seed in range(4) for change in compare.changes(run(seed), run(seed + 50))]

    assert len(stands) == 24
    assert sum(stands) <= 1


def test_a_change_below_three_percent_does_not_stand():
    assert not any(change.stands for change in compare.changes(run(1), run(1, slow=1.02)))


def test_drift_between_two_runs_cancels_against_the_reference():
    slower_machine = run(3)
    for row in slower_machine.rows.values():
        for entry in row.rounds:
            for sample in entry["samples"]:
                sample["wall_ns"] *= 3

    assert not any(change.stands for change in compare.changes(run(4), slower_machine))
    assert any(change.stands for change in compare.changes(run(4), slower_machine, absolute=True))


def test_other_machines_servers_and_versions_do_not_compare():
    before = run(1)
    assert compare.obstacles(before, run(2)) == []
    assert compare.obstacles(before, run(2, version=2)) == ["version of subject: 1 and 2"]
    other = {**MACHINE, "cpu": "another", "python": "3.12"}
    assert compare.obstacles(before, run(2, machine=other)) == [
        "processor: a processor and another",
        "CPython: 3.11 and 3.12",
    ]


def test_results_with_equipment_elsewhere_do_not_compare():
    before, after = run(1), run(2)
    for row in after.rows.values():
        row.equipment = "core 1"

    assert compare.obstacles(before, after) == ["equipment of subject: not kept anywhere and core 1"]
    assert compare.obstacles(after, after) == []


def test_a_disturbed_round_is_marked_and_the_calmer_one_counts():
    found = run(1, sentinels=[1000, 1000, 1400, 1010, 1020], instead={4: 2}, rounds=5)

    assert found.content["marked"] == [("subject", 2)]
    assert found.left_out == {("subject", 2)}
    row = found.rows["subject", "part-0", "mangonel"]
    assert [entry["round"] for entry in row.rounds] == [0, 1, 3, 4]
    kept = next(cell for cell in found.content["cells"] if cell["contender"] == "mangonel")
    assert len(kept["rounds"]) == 5  # the file has both


def test_a_round_played_again_under_worse_conditions_does_not_replace_the_first():
    found = run(1, sentinels=[1000, 1400, 1000, 1000, 1900], instead={4: 1})
    assert found.left_out == {("subject", 4)}


def test_time_that_the_hypervisor_took_marks_a_round():
    order = [
        {"experiment": "a", "round": 0, "sentinel": {"loop_ns": 10, "stolen": 0.0}},
        {"experiment": "a", "round": 1, "sentinel": {"loop_ns": 10, "stolen": 0.2}},
    ]
    assert noise.marked_rounds(order, []) == [("a", 1)]


def test_a_quiet_run_is_fit_and_a_busy_one_is_not():
    assert noise.unfit(run(1)) == []
    reasons = noise.unfit(run(1, sentinels=[1000, 1400, 1400, 1000, 1000]))
    assert "2 of 5 rounds" in reasons[0]


def test_the_brief_form_says_that_it_does_less_than_its_marks_name():
    played = run(1)
    played.content["plan"]["form"] = "brief"
    assert ["less work" in reason for reason in noise.unfit(played)] == [True]


def test_a_run_that_was_cut_off_keeps_what_it_has_and_says_so(tmp_path):
    whole = run(1)
    path = tmp_path / "r.jsonl"
    record = Record(Plan("", ("subject",), ("mangonel",), Size(), 1, 1), path, MACHINE)
    record.describe({"version": "6.0"})
    cell = record.cell(
        _Subject(), Part("p", "a part", frozenset(), 1), Contender("mangonel", "m", frozenset())
    )
    record.tell("round", cell=cell, **whole.rows["subject", "part-0", "mangonel"].rounds[0])
    record.close()
    with path.open("a") as file:
        file.write('{"kind": "round", "cell": ["sub')

    content = results.load(path)

    assert len(content["cells"][0]["rounds"]) == 1
    assert "cut off" in noise.unfit(results.Results(content))[-1]


def test_counters_leave_out_what_asking_for_them_adds():
    before, after = {"query": 10, "command": 5}, {"query": 110, "command": 6, "insert": 3}
    assert grown(before, after, {"command": 1}) == {"query": 100, "insert": 3}


def test_another_write_concern_than_stated_is_told():
    sample = {"counters": {"w:majority insert": 90, "w:1 insert": 10, "insert": 100}}
    assert other_concern("w:1", [sample]) == "the server saw 90 writes with w:majority"
    assert other_concern("w:1", [{"counters": {"w:1 insert": 95, "w:majority update": 5}}]) == ""
    assert other_concern("", [sample]) == ""
    assert other_concern("w:1", [{"counters": {"insert": 5}}]) == ""  # a server that does not count them


def test_benjamini_hochberg_lets_few_chances_stand():
    assert statistics.discoveries([0.001, 0.9, 0.04, 0.03]) == [True, False, False, False]
    assert statistics.discoveries([0.01, 0.02, 0.03, 0.04]) == [True] * 4
    assert statistics.discoveries([]) == []


def test_a_chance_agrees_with_its_interval():
    assert statistics.p_value(statistics.Estimate(1.2, 1.01, 1.4)) < 0.05
    assert statistics.p_value(statistics.Estimate(1.2, 0.99, 1.4)) > 0.05
    assert statistics.p_value(statistics.Estimate(0.8, 0.7, 0.99)) < 0.05
    assert statistics.p_value(statistics.Estimate(1.0, 1.0, 1.0)) == 1.0


def test_compare_and_guard_say_by_their_status_what_was_lost(tmp_path, capsys):
    before, after = (tmp_path / name for name in ("before.jsonl", "after.jsonl"))
    run(1, path=before)
    run(2, slow=1.15, path=after)

    assert main(["lab", "compare", "--plain", str(before), str(after), "--fail-on", "5%"]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if " mangonel " in line]
    assert len(lines) == 6
    assert all(line.endswith("slower") for line in lines)
    assert main(["lab", "compare", str(before), str(before), "--fail-on", "0%"]) == 0
    assert main(["lab", "guard", str(before), str(after), "--max-loss", "10%", "--plain"]) == 1
    assert "LOST: subject part-0 mangonel: 1" in capsys.readouterr().out
    assert main(["lab", "guard", str(before), str(after), "--max-loss", "30%"]) == 0
    assert main(["lab", "guard", str(after), str(before)]) == 0  # a gain is no loss
    assert main(["lab", "guard", str(before), str(after), "--contender", "nobody"]) == 2


def test_results_of_two_machines_are_refused_unless_forced(tmp_path, capsys):
    before, after = (tmp_path / name for name in ("before.jsonl", "after.jsonl"))
    run(1, path=before)
    run(2, path=after, machine={**MACHINE, "cpu": "another processor"})

    assert main(["lab", "compare", str(before), str(after)]) == 2
    assert "another processor" in capsys.readouterr().err
    assert main(["lab", "compare", str(before), str(after), "--force"]) == 0


def test_aa_of_a_result_file_counts_its_null_controls(tmp_path, capsys):
    run(1, path=tmp_path / "r.jsonl")
    assert main(["lab", "aa", "--from", str(tmp_path / "r.jsonl")]) == 0
    assert "in 6 of 6 cells (100.0 %)" in capsys.readouterr().out


def brief(seed: int, slow: float = 1.0, parts: int = 12):
    """Return a run of the brief form: processes differ by 3 %, the samples of one by 1 %."""
    source = random.Random(seed)
    plan = Plan("", ("subject",), ("pymongo", "mangonel"), Size(quick=True, brief=True), 1, seed)
    record = Record(plan, None, MACHINE)
    record.describe({"version": "6.0", "topology": "standalone", "ping_us": 90})
    for turn in range(parts):
        part = Part(f"part-{turn}", "a part", frozenset(), 10)
        for name, usual in {"pymongo": 100.0, "mangonel": 25.0 * slow}.items():
            for twin in ("", "#2"):
                process = source.gauss(1, 0.03)
                contender = Contender(name + twin, name + twin, frozenset(), copy_of=name if twin else "")
                cell = record.cell(_Subject(), part, contender)
                for number in range(4):
                    wall = round(usual * process * source.gauss(1, 0.01) * 1000)
                    sample = {"wall_ns": wall, "ops": 10, "cpu_ns": wall, "peak_rss": 1, "extras": {}}
                    told = {"round": number, "sentinel_ns": 1000, "samples": [sample]}
                    record.tell("round", cell=cell, **told)
    record.end("complete")
    return results.Results(record.content())


def test_in_the_brief_form_a_contender_against_itself_is_within_its_interval_though_processes_differ():
    held = total = 0
    for seed in range(12):
        good, bad = against_itself(brief(seed))
        held, total = held + good, total + good + len(bad)

    assert total == 288
    assert held >= 0.92 * total  # 95 % of many; so many are within two standard deviations of that


def test_in_the_brief_form_a_planted_slowdown_is_found_and_equals_are_not_called_different():
    slower = compare.changes(brief(1), brief(2, slow=1.15, parts=12))
    same = compare.changes(brief(3), brief(4))

    ours = [change for change in slower if change.key[2] == "mangonel"]
    assert sum(change.word == "slower" for change in ours) >= 0.5 * len(ours)
    assert sum(change.stands for change in same) == 0
