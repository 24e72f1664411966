"""A Python program of the comparison between languages, started as `python program.py ROW`.

It answers requests on its standard input, one a line, each with one JSON object on its standard output; the protocol is
in `PROTOCOL.md` beside the programs. A row is a driver on a face: `blocking.py` and `on_a_loop.py` hold the work, and
`floor.py` that of bare sockets.
"""

from __future__ import annotations

import json
import platform
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def main() -> int:
    """Serve requests until the input ends; return the exit status."""
    row = sys.argv[1]
    driver = "pymongo" if row.startswith(("pymongo", "raw")) else "mangonel"
    if row.endswith(("asyncio", "uvloop")):
        from on_a_loop import Work
    elif row == "raw":
        from floor import Work
    else:
        from blocking import Work
    if sys.argv[2:3] == ["version"]:
        print(json.dumps(_version(driver)))
        return 0
    work = Work(driver, row)
    for line in sys.stdin:
        verb, *words = line.split()
        try:
            told: Any = REQUESTS[verb](work, *words)
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        print(told if isinstance(told, str) else json.dumps(told), flush=True)
    work.close()
    return 0


def _version(driver: str) -> dict[str, str]:
    try:
        found = version(driver)
    except PackageNotFoundError:
        found = "source"
    return {"driver": f"{driver} {found}", "runtime": f"CPython {platform.python_version()}"}


def _open(work: Any, *words: str) -> dict[str, Any]:
    work.open(*words)
    return {}


def _clear(work: Any, verb: str, count: str) -> dict[str, Any]:
    work.clear(verb, int(count))
    return {}


def _file(work: Any, path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        work.data = file.read()
    return {}


def _idle(work: Any, connections: str) -> dict[str, Any]:
    work.idle(int(connections))
    return {}


def _run(work: Any, verb: str, count: str, plant: str) -> dict[str, Any]:
    call: Callable[[int], None] = work.ready(verb)
    before, start = _usage(), time.perf_counter_ns()
    call(int(count))
    share = float(plant)
    if share > 0:
        # An artificial slowdown, to test the lab: a share of additional processor time.
        until = time.process_time_ns() + int((sum(_usage()) - sum(before)) * 1000 * share)
        while time.process_time_ns() < until:
            pass
    wall, after = time.perf_counter_ns() - start, _usage()
    return {"wall_ns": wall, "user_us": after[0] - before[0], "system_us": after[1] - before[1]}


def _usage() -> tuple[float, float]:
    """Return the user and the system time of this process in µs."""
    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_utime * 1e6, found.ru_stime * 1e6


REQUESTS: dict[str, Callable[..., dict[str, Any] | str]] = {
    "open": _open,
    "answer": lambda work, verb: f'{{"answer": {work.answer(verb)}}}',
    "clear": _clear,
    "file": _file,
    "idle": _idle,
    "run": _run,
}

if __name__ == "__main__":
    raise SystemExit(main())
