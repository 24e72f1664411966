"""The experiment `everyday`: the length of its samples, and the effect of the kernel's ticks on a known ratio."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from mangonel.lab.contender import Contender, Target
from mangonel.lab.experiment import Bench, Size
from mangonel.lab.experiments import everyday
from mangonel.lab.results import Results
from mangonel.lab.statistics import Estimate
from tools.lab_results import Subject, new_record, tell

TICK_NS = 4_000_000
QUICK = Size(quick=True)


@pytest.mark.parametrize("cost_ns", [20_000, 700_000])
@pytest.mark.parametrize("part", ["find-one", "names"])
def test_a_sample_is_as_many_calls_as_take_its_processor_time(monkeypatch, part: str, cost_ns: int):
    used = [0]

    def costly(*arguments: object) -> None:
        used[0] += cost_ns

    class Client(dict):
        def __getitem__(self, name: str) -> dict:
            costly()
            return {"people": None}

    adapter = SimpleNamespace(
        _client=Client(), _collection=SimpleNamespace(find_one=costly), close=lambda: None
    )
    monkeypatch.setattr(everyday.time, "process_time_ns", lambda: used[0])
    contender = Contender("fake", "fake", frozenset(), blocking=lambda target: adapter)
    bench = Bench(contender, Target("", "", ""), QUICK, 1)
    task = everyday.EverydayTask(
        next(each for each in everyday.EXPERIMENT.parts(QUICK) if each.id == part), bench
    )
    task.warm_up()
    task.arrange()
    begun = used[0]
    operations = task.act()

    assert operations * cost_ns == used[0] - begun
    assert used[0] - begun == pytest.approx(400e6, rel=0.2)


def test_a_sample_of_the_brief_form_is_judged_by_all_its_processor_time():
    assert [
        {part.judge for part in everyday.EXPERIMENT.parts(size)}
        for size in (Size(quick=True, brief=True), QUICK, Size())
    ] == [{"client"}, {"user"}, {"user"}]


def test_the_eighteen_operations_are_played_on_both_faces():
    parts = everyday.EXPERIMENT.parts(QUICK)
    blocking, event_loop = (
        [part for part in parts if face in part.needs] for face in ("blocking", "asyncio")
    )

    assert len(blocking) == 18
    assert [part.id for part in event_loop] == [f"{part.id}-asyncio" for part in blocking]


def planted_ratio(cpu_ms: int, seed: int) -> Estimate:
    """Return the measured ratio of user CPU in ten rounds, where one driver takes five times the other's."""
    source = random.Random(seed)
    record = new_record(QUICK, 10, seed)
    for number in range(10):
        drift = source.lognormvariate(0, 0.2)
        # Microseconds of an operation in the program, and in the system.
        for name, (user, system) in {"pymongo": (75, 20), "mangonel": (15, 20)}.items():
            each_ns = (user + system) * drift * source.lognormvariate(0, 0.02) * 1000
            cpu_ns = cpu_ms * 1_000_000
            ticks = max(1, round(cpu_ns / TICK_NS))
            in_the_program = sum(source.random() < user / (user + system) for _ in range(ticks))
            tell(
                record,
                (Subject(), "part", name),
                number,
                [round(each_ns)],
                samples=[
                    {
                        "ops": cpu_ns / each_ns,
                        "wall_ns": 2 * cpu_ns,
                        "cpu_ns": cpu_ns,
                        "user_ns": cpu_ns * in_the_program / ticks,
                        "peak_rss": 10**7,
                        "extras": {},
                    }
                ],
            )
    record.end("complete")
    keys = (("subject", "part", name) for name in ("pymongo", "mangonel"))
    found = Results(record.content()).ratio(*keys, "user")
    assert found is not None
    return found


def is_close(found: Estimate) -> bool:
    return found.low > 3.5 and found.high < 7.5 and not found.excludes(5.0)


def test_a_planted_ratio_of_user_time_is_found_by_samples_of_a_hundred_ticks_and_not_by_short_ones():
    wanted = everyday.EXPERIMENT.figures(QUICK)["cpu_ms"]

    assert wanted * 1_000_000 >= 100 * TICK_NS
    assert sum(is_close(planted_ratio(wanted, seed)) for seed in range(20)) >= 18
    assert sum(is_close(planted_ratio(20, seed)) for seed in range(20)) <= 4
