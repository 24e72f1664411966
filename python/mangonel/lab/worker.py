"""Runs one contender through one experiment for one round, in a process of its own.

Waits at a gate before each sample: imports, connecting, checking and warm-up lie outside what is timed.
Started by the conductor as `python -m mangonel.lab.worker READ_FD WRITE_FD`.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
import traceback
from typing import Any

from mangonel.lab import profile, protocol, registry
from mangonel.lab.contender import Target
from mangonel.lab.experiment import Bench, Part, Size, Task

WHO = {"self": resource.RUSAGE_SELF, "children": resource.RUSAGE_CHILDREN}


def main() -> int:
    """Play the order that the first message holds; return the exit status."""
    channel = protocol.inherited()
    order = channel.receive()
    if order is None:
        return 1
    contender = registry.contender(order["contender"])
    if reason := contender.unusable(order["uri"]):
        channel.send({"event": "missing", "reason": reason})
        return 0
    experiment = registry.experiments()[order["experiment"]]
    size = Size(order["quick"], order["parameters"])
    target = Target(order["uri"], order["database"], order["collection"])
    bench = Bench(contender, target, size, order["seed"])
    channel.send({"event": "hello", "versions": contender.versions(), "builds": contender.builds()})
    parts = {part.id: part for part in experiment.parts(size)}
    while (message := channel.receive()) is not None and "part" in message:
        part = parts[message["part"]]
        try:
            task = experiment.task(part, bench)
            if "profile" in message:
                profile.record(task, message["profile"])
                channel.send({"event": "profiled"})
            else:
                _play(channel, part, task, order.get("plant", 0.0))
        except Exception as error:
            traceback.print_exc()
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error}"[:500]
            channel.send({"event": "failed", "reason": text, "where": f"{where.filename}:{where.lineno}"})
        bench.close_adapter()
    bench.close()
    return 0


def _play(channel: protocol.Channel, part: Part, task: Task, plant: float) -> None:
    channel.send({"event": "verified", "digest": task.verify()})
    task.warm_up()
    for _ in range(part.samples):
        task.arrange()
        gc.collect()
        channel.send({"event": "ready"})
        gate = channel.receive()
        if gate is None or not gate.get("go"):
            raise EOFError("the conductor went away")
        channel.send({"event": "sample", **_measure(part, task, plant)})
    channel.send({"event": "done", "written": task.written()})


def _measure(part: Part, task: Task, plant: float) -> dict[str, Any]:
    who = WHO[part.meter]
    before = resource.getrusage(who)
    start = time.perf_counter_ns()
    operations = task.act()
    if plant > 0:
        _burn(int((time.perf_counter_ns() - start) * plant))
    wall = time.perf_counter_ns() - start
    after = resource.getrusage(who)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    extras = task.extras()
    return {
        # Where another process does the work, the task tells its time and its processor time instead.
        "wall_ns": round(extras.pop("wall_ns", wall)),
        "ops": operations,
        "cpu_ns": round(extras.pop("cpu_ns", cpu * 1e9)),
        "peak_rss": after.ru_maxrss * 1024,
        "switches": after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw,
        "extras": extras,
        "histograms": task.histograms(),
    }


def _burn(ns: int) -> None:
    """Waste so much time: a planted slowdown, with which the lab is tested."""
    end = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < end:
        pass


if __name__ == "__main__":
    sys.exit(main())
