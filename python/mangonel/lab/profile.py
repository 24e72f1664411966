"""Where the time of one contender goes: pyinstrument's page of the stacks, and every call counted for callgrind.

Two recordings of two samples of the same work. cProfile's numbers of calls are exact and its times dearer than real.
Format: "Callgrind Format Specification" of Valgrind's manual, version 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from mangonel.lab.experiment import Task

INTERVAL_S = 0.0002
NS = 1_000_000_000
Place: TypeAlias = tuple[str, int, str]  # file, line, function
Call: TypeAlias = tuple[
    Place, int, float, dict[Place, tuple[int, float]]
]  # calls, own s; by caller: calls, all s


def record(task: Task, order: dict[str, Any]) -> None:
    """Play two samples of a task, and leave what was recorded at the order's paths, "page" and "calls"."""
    import cProfile

    from pyinstrument import Profiler
    from pyinstrument.renderers import HTMLRenderer

    task.verify()
    task.warm_up()
    task.arrange()
    stacks = Profiler(interval=INTERVAL_S, async_mode="disabled")
    with stacks:
        task.act()
    assert stacks.last_session is not None
    Path(order["page"]).write_text(HTMLRenderer().render(stacks.last_session), encoding="utf-8")
    task.arrange()
    calls = cProfile.Profile()
    calls.runcall(task.act)
    calls.dump_stats(order["calls"])


def read(path: Path) -> list[Call]:
    """Return the calls that cProfile counted."""
    import pstats

    stats: dict[Any, Any] = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
    return [
        (
            _place(place),
            calls,
            own,
            {_place(each): (count, total) for each, (_, count, _, total) in callers.items()},
        )
        for place, (_, calls, own, _, callers) in stats.items()
    ]


def callgrind(calls: Iterable[Call], title: str) -> str:
    """Return a callgrind file: self time in ns of each function, and of each call how often and how long in all."""
    callees: dict[Place, list[tuple[Place, int, float]]] = {}
    entries: dict[Place, float] = {}
    for place, _, own, callers in calls:
        entries[place] = own
        for caller, (count, total) in callers.items():
            callees.setdefault(caller, []).append((place, count, total))
            entries.setdefault(caller, 0.0)
    lines = ["# callgrind format", "version: 1", "creator: mangonel lab", f"cmd: {title}", "positions: line"]
    lines += ["event: ns : time in ns", "events: ns", f"summary: {round(sum(entries.values()) * NS)}"]
    for place, own in entries.items():
        lines += ["", f"fl={place[0]}", f"fn={_function(place)}", f"{place[1]} {round(own * NS)}"]
        for called, count, total in callees.get(place, []):
            lines += [f"cfi={called[0]}", f"cfn={_function(called)}", f"calls={count} {called[1]}"]
            lines.append(f"{place[1]} {round(total * NS)}")
    return "\n".join(lines) + "\n"


def _function(place: Place) -> str:
    # Several functions of one file may have one name, as methods have.
    return place[2] if place[0] == "native code" else f"{place[2]}:{place[1]}"


def _place(place: Place) -> Place:
    """Return a place with the end of its path: enough to know the module, without naming whose machine it was."""
    file, line, name = place
    for mark in ("/site-packages/", "/python/"):
        if mark in file:
            return file.rpartition(mark)[2], line, name
    return ("native code" if file == "~" else "/".join(file.split("/")[-2:])), line, name
