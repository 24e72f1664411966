"""Sessions of other packages in the experiment `websessions`, each in the framework that it is made for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangonel.lab import environment, registry, results
from mangonel.lab.contender import Target
from mangonel.lab.experiment import Size
from mangonel.lab.experiments.websessions import EXPERIMENT
from tools.needed import needed

SIZE = Size(quick=True, parameters={"peers": 60})
PARTS = {part.id: part for part in EXPERIMENT.parts(SIZE) if next(iter(part.needs)).startswith("peer-")}
PEERS = [
    each for each in registry.contenders().values() if any(name.startswith("peer-") for name in each.offers)
]


@pytest.fixture
def task_of(bench_of: Any, server: Any, database_name: str) -> Iterator[Any]:
    def make(contender: str, kind: str) -> Any:
        if contender.endswith("-redis"):
            needed("redis-server")
        part = PARTS[f"{contender.partition('-')[0]}-{kind}"]
        return EXPERIMENT.task(part, bench_of(contender, Target(server.uri, database_name, "peers"), SIZE))

    yield make
    environment._close_all()


# Django is configured once in a process, and other tests do that.
@pytest.mark.enough(2)
@pytest.mark.parametrize("contender", [each.id for each in PEERS if not each.id.startswith("django-")])
def test_known_visitors_are_shown_what_they_stored(contender: str, task_of: Any) -> None:
    for kind in ("new", "reads", "writes"):
        task = task_of(contender, kind)
        assert task.verify()
        assert task.act() == 60


def test_sessions_that_forget_void_a_row(task_of: Any) -> None:
    task = task_of("starlette-none", "reads")
    task._what = "starsessions"
    with pytest.raises(AssertionError, match="expected the visitor's value"):
        task.verify()


# Allows for a minute on a busy machine.
@pytest.mark.no_sample
@pytest.mark.timeout(900)
def test_the_lab_plays_djangos_in_processes_of_their_own(server: Any, tmp_path: Path) -> None:
    needed("redis-server")
    names = [each.id for each in PEERS if each.id.startswith("django-")]
    found = tmp_path / "found.jsonl"
    command = [sys.executable, "-m", "mangonel", "lab", "run", server.uri, "websessions", "--rounds", "1"]
    command += ["--quick", "--set", "peers=20", "-o", str(found)]
    command += [word for name in names for word in ("--contender", name)]
    command += [word for kind in ("new", "reads", "writes") for word in ("--part", f"django-{kind}")]
    subprocess.run(command, check=True, capture_output=True, timeout=800)
    cells = results.load(found)["cells"]
    assert {cell["contender"] for cell in cells} >= set(names)
    assert len({cell["part"] for cell in cells}) == 3
    assert not [failure for cell in cells for failure in cell["failures"]]


def test_the_short_form_plays_them_only_when_it_is_told_to() -> None:
    assert not [part.id for part in EXPERIMENT.parts(Size(quick=True)) if "peer" in "".join(part.needs)]
    assert {part.id.partition("-")[0] for part in PARTS.values()} == {"flask", "starlette", "django"}
    for part in PARTS.values():
        playing = [each.id for each in PEERS if not part.excludes(each)]
        assert sum(each in EXPERIMENT.references for each in playing) == 1, part.id
        assert sum("mangonel" in each for each in playing) == 2, part.id
