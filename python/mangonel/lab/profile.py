"""Profiles of one contender: in the worker the recording, in the command the flame graph and the callgrind file.

Two recordings of two samples of the same work: stacks looked at every 0.2 ms (pyinstrument) for the flame graph, and
every call counted (cProfile) for callgrind, whose numbers of calls are exact and whose times are dearer than real.
Format: "Callgrind Format Specification" of Valgrind's manual, version 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from mangonel.lab.experiment import Task

INTERVAL_S = 0.0002
NS = 1_000_000_000
Place: TypeAlias = tuple[str, int, str]  # file, line, function
Stack: TypeAlias = tuple[str, ...]

# What stands below the task in each stack.
OUTSIDE = ("lab/worker.py", "lab/profile.py", "runpy", "MainThread", "_run_module_as_main", "_run_code")


def record(task: Task, order: dict[str, Any]) -> None:
    """Play two samples of a task and leave the recordings where the order says.

    Args:
        order: "stacks" and "calls", the paths of the two files.
    """
    task.verify()
    task.warm_up()
    Path(order["stacks"]).write_text(json.dumps(_stacks(task)))
    Path(order["calls"]).write_text(json.dumps(_calls(task)))


def _stacks(task: Task) -> list[list[Any]]:
    from pyinstrument import Profiler

    task.arrange()
    profiler = Profiler(interval=INTERVAL_S, async_mode="disabled")
    profiler.start()
    try:
        task.act()
    finally:
        session = profiler.stop()
    return [[list(map(_frame, stack)), seconds] for stack, seconds in session.frame_records]


def _frame(identifier: str) -> str:
    """Return "function (file:line)" of pyinstrument's own name of a frame, its parts apart by NUL."""
    name, file, line = [*identifier.split("\x01")[0].split("\x00"), "", ""][:3]
    return f"{name} ({_short(file)}:{line})" if file and not file.startswith("<") else name


def _calls(task: Task) -> list[list[Any]]:
    import cProfile
    import pstats

    task.arrange()
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        task.act()
    finally:
        profiler.disable()
    stats: dict[Place, tuple[int, int, float, float, dict[Place, tuple[int, int, float, float]]]]
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    return [
        [
            _place(place),
            calls,
            own,
            [[_place(c), count, total] for c, (_, count, _, total) in callers.items()],
        ]
        for place, (_, calls, own, _, callers) in stats.items()
    ]


def _place(place: Place) -> Place:
    file, line, name = place
    return ("native code" if file == "~" else _short(file), line, name)


def _short(file: str) -> str:
    """Return the end of a path: enough to know the module, without naming whose machine it was."""
    for mark in ("/site-packages/", "/python/"):
        if mark in file:
            return file.rpartition(mark)[2]
    return "/".join(file.split("/")[-2:])


def callgrind(calls: Iterable[Any], title: str) -> str:
    """Return a callgrind file: self time in ns of each function, and of each call how often and how long in all."""
    lines = ["# callgrind format", "version: 1", "creator: mangonel lab", f"cmd: {title}", "positions: line"]
    lines += ["event: ns : time in ns", "events: ns"]
    callees: dict[Place, list[tuple[Place, int, float]]] = {}
    entries: dict[Place, float] = {}
    for place, _, own, callers in calls:
        entries[tuple(place)] = own
        for caller, count, total in callers:
            callees.setdefault(tuple(caller), []).append((tuple(place), count, total))
            entries.setdefault(tuple(caller), 0.0)
    lines.append(f"summary: {round(sum(entries.values()) * NS)}")
    for (file, line, name), own in entries.items():
        lines += ["", f"fl={file}", f"fn={_function(name, file, line)}", f"{line} {round(own * NS)}"]
        for (called_file, called_line, called), count, total in callees.get((file, line, name), []):
            lines += [
                f"cfi={called_file}",
                f"cfn={_function(called, called_file, called_line)}",
                f"calls={count} {called_line}",
                f"{line} {round(total * NS)}",
            ]
    return "\n".join(lines) + "\n"


def _function(name: str, file: str, line: int) -> str:
    # Several functions of one file may have one name, as methods have.
    return name if file == "native code" else f"{name}:{line}"


def merge(stacks: Iterable[Any]) -> dict[Stack, float]:
    """Return seconds by stack, outermost frame first, without the lab's own frames outside the task."""
    found: dict[Stack, float] = {}
    for frames, seconds in stacks:
        kept = list(frames)
        while kept and _is_outside(kept[0]):
            kept.pop(0)
        stack = tuple(kept) or ("(the lab)",)
        found[stack] = found.get(stack, 0.0) + seconds
    return found


def _is_outside(frame: str) -> bool:
    return any(mark in frame for mark in OUTSIDE)
