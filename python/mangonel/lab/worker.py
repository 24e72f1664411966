"""Runs one contender through one experiment for one round, in its own process.

It waits before each sample, so imports, connecting, checking and warm-up are not timed. Started by the scheduler as
`python -m mangonel.lab.worker DESCRIPTOR`.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mangonel.lab import cores, protocol, registry
from mangonel.lab.contender import Target
from mangonel.lab.experiment import Bench, Part, Size, Task

BEST_OF = 5
INTERVAL_S = 0.0002  # the interval between two samples of the stack
WHO = {"self": resource.RUSAGE_SELF, "children": resource.RUSAGE_CHILDREN}


def main() -> int:
    """Play the requested experiments and parts; return the exit status."""
    channel = protocol.inherited()
    bench: Bench | None = None
    order: protocol.Message = {}
    while (message := channel.receive()) is not None:
        if "experiment" in message:
            order = message
            if bench is not None:
                bench.close()
            bench = _open(channel, order)
        elif "part" in message and bench is not None:
            _take(channel, bench, order, message)
    if bench is not None:
        bench.close()
    return 0


def _open(channel: protocol.Channel, order: protocol.Message) -> Bench | None:
    contender = registry.contender(order["contender"])
    if reason := contender.unusable(order["uri"]):
        channel.send({"event": "missing", "reason": reason})
        return None
    cores.use(order.get("places"))
    target = Target(order["uri"], order["database"], order["collection"])
    bench = Bench(
        contender,
        target,
        Size(**order["size"]),
        order["seed"],
        order.get("shared", ""),
        scratch=order.get("scratch", ""),
        plant=order.get("plant", 0.0),
    )
    channel.send({"event": "hello", **contender.installed()})
    return bench


def _take(
    channel: protocol.Channel, bench: Bench, order: protocol.Message, message: protocol.Message
) -> None:
    experiment = registry.experiments()[order["experiment"]]
    part = next(part for part in experiment.parts(bench.size) if part.id == message["part"])
    try:
        task = experiment.task(part, bench)
        if "profile" in message:
            _profile(task, message["profile"])
            channel.send({"event": "profiled"})
        else:
            written = _play(channel, part, task, bench.size.brief, order.get("plant", 0.0))
            # Part of no operation: a pooled client may take as long to close as all its operations took.
            channel.send({"event": "done", "written": written, "close_ns": bench.close_adapter()})
    except Exception as error:
        traceback.print_exc()
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}"[:500]
        channel.send({"event": "failed", "reason": text, "where": f"{where.filename}:{where.lineno}"})
    bench.close_adapter()


def _play(channel: protocol.Channel, part: Part, task: Task, brief: bool, plant: float) -> int | None:
    """Take as many samples as the scheduler requests, and return how many documents were written, if any."""
    channel.send({"event": "verified", "digest": task.verify()})
    task.warm_up()
    if brief:
        # Otherwise each collection before a sample would scan every imported object.
        gc.collect()
        gc.freeze()
    is_last = False
    while not is_last:
        task.arrange()
        gc.collect()
        channel.send({"event": "ready"})
        gate = channel.receive()
        if gate is None:
            raise EOFError("the scheduler went away")
        if not gate["go"]:
            break
        is_last = gate.get("last", False)
        # Work that never waits can only be slowed down, so the fastest of a few counts.
        repeats = BEST_OF if brief and part.judge == "client" and not part.server else 1
        taken = [_measure(part, task, plant) for _ in range(repeats)]
        channel.send({"event": "sample", **min(taken, key=lambda sample: sample["cpu_ns"])})
    return task.written()


def _measure(part: Part, task: Task, plant: float) -> dict[str, Any]:
    who = WHO[part.meter]
    before = resource.getrusage(who)
    # The artificial slowdown goes into the figure that compares contenders.
    clock = time.process_time_ns if part.judge in ("client", "user") else time.perf_counter_ns
    begun = clock()
    start = time.perf_counter_ns()
    operations = task.act()
    if plant > 0:
        _burn(clock, int((clock() - begun) * plant))
    wall = time.perf_counter_ns() - start
    after = resource.getrusage(who)
    user = after.ru_utime - before.ru_utime
    cpu = user + after.ru_stime - before.ru_stime
    extras = task.extras()
    return {
        # If another process does the work, the task reports its time and its processor time.
        "wall_ns": round(extras.pop("wall_ns", wall)),
        "ops": operations,
        "cpu_ns": round(extras.pop("cpu_ns", cpu * 1e9)),
        "user_ns": round(user * 1e9),
        "peak_rss": after.ru_maxrss * 1024,
        "switches": after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw,
        "extras": extras,
        "histograms": task.histograms(),
    }


def _profile(task: Task, paths: dict[str, str]) -> None:
    """Play one sample under pyinstrument and another under cProfile, and write the recordings."""
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
    Path(paths["page"]).write_text(HTMLRenderer().render(stacks.last_session), encoding="utf-8")
    task.arrange()
    calls = cProfile.Profile()
    calls.runcall(task.act)
    calls.dump_stats(paths["calls"])


def _burn(clock: Callable[[], int], ns: int) -> None:
    """Burn `ns` of that clock: an artificial slowdown, to test the lab."""
    end = clock() + ns
    while clock() < end:
        pass


if __name__ == "__main__":
    sys.exit(main())
