"""Promises of the method: intervals and A/A hold, planted slowdowns are found, disturbed rounds are repeated."""

from __future__ import annotations

import math
import random

import pytest

from mangonel.cli import main
from mangonel.lab import noise, results, statistics
from mangonel.lab.commands.look import against_itself, changes, obstacles
from mangonel.lab.experiment import Size
from mangonel.lab.samples import grown, other_concern
from tools.lab_results import Subject, brief, new_record, run, tell


def rounds_of(
    level: float, spread: float, seed: int, rounds: int = 10, samples: int = 4
) -> dict[int, list[float]]:
    source = random.Random(seed)
    return {n: [level * (1 + source.gauss(0, spread)) for _ in range(samples)] for n in range(rounds)}


def test_one_wild_sample_does_not_move_the_median():
    assert statistics.estimate([[10, 10, 900], [10, 10, 10]]).value == 10


def test_equal_samples_have_an_interval_of_no_width():
    found = statistics.estimate([[5.0, 5.0], [5.0, 5.0]])
    assert (found.value, found.low, found.high) == (5.0, 5.0, 5.0)


def test_the_interval_contains_the_median_lies_within_the_samples_and_is_the_same_each_time():
    rounds = list(rounds_of(100, 0.1, seed=3).values())
    found = statistics.estimate(rounds)
    assert min(map(min, rounds)) <= found.low <= found.value <= found.high <= max(map(max, rounds))
    assert found.low < found.high
    assert statistics.estimate(rounds) == found


def test_more_spread_makes_a_wider_interval():
    calm = statistics.estimate(list(rounds_of(100, 0.01, seed=4).values()))
    wild = statistics.estimate(list(rounds_of(100, 0.2, seed=4).values()))
    assert wild.high - wild.low > 5 * (calm.high - calm.low)


def test_drift_from_round_to_round_cancels_in_a_paired_ratio():
    drift = {0: 1.0, 1: 7.0, 2: 100.0, 3: 3.0}
    slow = {number: [20 * factor] * 3 for number, factor in drift.items()}
    fast = {number: [10 * factor] * 3 for number, factor in drift.items()}
    found = statistics.ratio(slow, fast)
    assert found.value == found.low == found.high == 2.0


def test_a_ratio_uses_only_rounds_that_both_have_played():
    found = statistics.ratio({0: [2.0], 1: [8.0], 5: [1000.0]}, {0: [1.0], 1: [4.0], 9: [1.0]})
    assert found.value == 2.0


def test_a_ratio_without_a_common_round_is_refused():
    with pytest.raises(ValueError, match="in common"):
        statistics.ratio({0: [1.0]}, {1: [1.0]})


def test_an_interval_of_few_values_is_wide_and_of_many_narrow():
    source = random.Random(1)
    values = [source.gauss(0, 0.05) for _ in range(50)]

    assert statistics.half_width(values[:1]) == math.inf
    assert statistics.half_width(values) < statistics.half_width(values[:5])
    assert 0.008 < statistics.half_width(values) < 0.03


def test_a_contender_against_itself_holds_1_in_95_of_100_cells():
    # Each run is checked as by `lab aa`; the seeds are fixed, so this cannot fail by chance.
    held, bad = 0, []
    for seed in range(6):
        one, others = against_itself(run(seed, parts=10))
        held, bad = held + one, bad + others
    assert held + len(bad) == 60
    assert held >= 0.95 * 60


@pytest.mark.enough(1)
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
    found = changes(run(1), run(2, slow=1.15))

    assert {change.key[2] for change in found} == {"mangonel"}
    assert all(change.word == "slower" for change in found)
    assert all(1.08 < change.ratio.value < 1.22 for change in found)


def test_two_runs_of_the_same_differ_nowhere():
    stands = [change.stands for seed in range(4) for change in changes(run(seed), run(seed + 50))]

    assert len(stands) == 24
    assert sum(stands) <= 1


def test_a_change_below_three_percent_does_not_stand():
    assert not any(change.stands for change in changes(run(1), run(1, slow=1.02)))


def test_drift_between_two_runs_cancels_against_the_reference():
    slower_machine = run(3)
    for row in slower_machine.rows.values():
        for entry in row.rounds:
            for sample in entry["samples"]:
                sample["wall_ns"] *= 3

    assert not any(change.stands for change in changes(run(4), slower_machine))
    assert any(change.stands for change in changes(run(4), slower_machine, absolute=True))


def test_other_machines_servers_versions_and_places_do_not_compare():
    before, after = run(1, parts=1), run(2, parts=1)
    assert obstacles(before, after) == []
    assert obstacles(before, run(2, parts=1, version=2)) == ["version of subject: 1 and 2"]
    assert obstacles(before, run(2, parts=1, cpu="another", python="3.12")) == [
        "processor: a processor and another",
        "CPython: 3.11 and 3.12",
    ]
    for row in after.rows.values():
        row.equipment = "core 1"
    assert obstacles(before, after) == ["equipment of subject: not kept anywhere and core 1"]
    assert obstacles(after, after) == []


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


def test_a_run_in_which_each_contender_failed_is_not_fit():
    played = run(1)
    for row in played.rows.values():
        row.failures.append("FileNotFoundError")
    assert noise.unfit(played)[-1] == "no contender was measured, each failed"


def test_the_brief_form_says_that_it_does_less_than_its_marks_name():
    played = run(1)
    played.content["plan"]["form"] = "brief"
    assert ["less work" in reason for reason in noise.unfit(played)] == [True]


def test_a_run_that_was_cut_off_keeps_what_it_has_and_says_so(tmp_path):
    path = tmp_path / "r.jsonl"
    record = new_record(Size(), 1, 1, path)
    tell(record, (Subject(), "part-0", "mangonel"), 0, [1000])
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
    assert (
        other_concern("w:1", [{"counters": {"insert": 5}}]) == ""
    )  # a server that does not count checkpoints


def test_benjamini_hochberg_lets_few_chances_stand():
    assert statistics.discoveries([0.001, 0.9, 0.04, 0.03]) == [True, False, False, False]
    assert statistics.discoveries([0.01, 0.02, 0.03, 0.04]) == [True] * 4
    assert statistics.discoveries([]) == []


def test_a_chance_agrees_with_its_interval():
    assert statistics.p_value(statistics.Estimate(1.2, 1.01, 1.4)) < 0.05
    assert statistics.p_value(statistics.Estimate(1.2, 0.99, 1.4)) > 0.05
    assert statistics.p_value(statistics.Estimate(0.8, 0.7, 0.99)) < 0.05
    assert statistics.p_value(statistics.Estimate(1.0, 1.0, 1.0)) == 1.0


def test_compare_and_guard_say_by_their_status_what_was_lost_and_refuse_two_machines_unless_forced(
    tmp_path, capsys
):
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
    run(2, path=after, cpu="another processor")
    assert main(["lab", "compare", str(before), str(after)]) == 2
    assert "another processor" in capsys.readouterr().err
    assert main(["lab", "compare", str(before), str(after), "--force"]) == 0


def test_aa_of_a_result_file_counts_its_null_controls(tmp_path, capsys):
    run(1, path=tmp_path / "r.jsonl")
    assert main(["lab", "aa", "--from", str(tmp_path / "r.jsonl")]) == 0
    assert "in 6 of 6 cells (100.0 %)" in capsys.readouterr().out


def test_in_the_brief_form_a_contender_against_itself_is_within_its_interval_though_processes_differ():
    held = total = 0
    for seed in range(12):
        good, bad = against_itself(brief(seed))
        held, total = held + good, total + good + len(bad)

    assert total == 288
    assert held >= 0.92 * total  # 95 % of many runs; this many are within two standard deviations


def test_a_contender_that_was_slowed_down_on_purpose_is_no_null_control():
    found = brief(5, slow=1.15)
    before = found.between_processes("subject", "wall")
    for key, row in found.rows.items():
        if key[2] == "mangonel":
            for entry in row.rounds:
                for sample in entry["samples"]:
                    sample["wall_ns"] *= 2
    planted = results.Results(
        {**found.content, "plan": {**found.content["plan"], "plants": {"mangonel": 1.0}}}
    )

    assert before < 0.15
    assert planted.between_processes("subject", "wall") < 0.15  # of PyMongo and its twin
    rows = [row for row in planted.rows.values() if row.key[1] == "part-0"]
    assert planted.null(rows, "mangonel") is None
    assert planted.null(rows, "pymongo") is not None


def test_in_the_brief_form_a_planted_slowdown_is_found_and_equals_are_not_called_different():
    slower = changes(brief(1), brief(2, slow=1.15, parts=12))
    same = changes(brief(3), brief(4))

    ours = [change for change in slower if change.key[2] == "mangonel"]
    assert sum(change.word == "slower" for change in ours) >= 0.5 * len(ours)
    assert sum(change.stands for change in same) == 0
