"""`python tools/agents.py [NAME ...]`: run monitoring agents over each package on each face, and count their spans.

Each agent runs in a virtual environment of the cache (`$XDG_CACHE_HOME/mangonel/agents`) and observes `workload.py` in
`tools/agent_programs` on a mongod; a program there keeps the data that the agent sends. Exit status 1 if a cell has no
span or no statement, or if a span shows a value or has no parent. Writes nothing into the repository except, with
`--write`, the table in docs/observability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/observability.md"
START, END = "<!-- written by tools/agents.py -->\n", "<!-- end -->"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mangonel" / "agents"
SECRET = "a-value-that-no-span-shows"
CELLS = [
    f"{face} {package}"
    for package in ("driver", "mapper", "GridFS", "web sessions")
    for face in ("blocking", "asyncio")
]
SHARED = ("dnspython==2.9.2", "msgspec==0.22.0")
INSTRUMENTATION = "opentelemetry-instrumentation==0.66b2"
API = ("opentelemetry-api==1.45.2", "opentelemetry-sdk==1.45.2")


@dataclass(frozen=True)
class Agent:
    """One agent.

    Args:
        label: its name in the table.
        way: how it gets the spans.
        requirements: its package, pinned, first; and what its program needs besides.
    """

    label: str
    way: str
    requirements: tuple[str, ...]


AGENTS = {
    "opentelemetry": Agent(
        "OpenTelemetry",
        "`MangonelInstrumentor`",
        (INSTRUMENTATION, *API),
    ),
    "sentry": Agent("Sentry", "`mangonel.contrib.sentry`", ("sentry-sdk==2.75.0",)),
    "datadog": Agent(
        "Datadog", "its OpenTelemetry API", ("ddtrace==4.16.0", "msgpack==1.1.2", INSTRUMENTATION, *API)
    ),
    "newrelic": Agent("New Relic", "its hybrid agent", ("newrelic==14.1.0", INSTRUMENTATION, *API)),
    "elastic": Agent("Elastic APM", "`mangonel.contrib.elastic`", ("elastic-apm==6.26.2",)),
}


def environment(name: str, agent: Agent) -> Path:
    """Return the interpreter of an agent's environment; make the environment if it does not exist."""
    folder = CACHE / f"{name}-{agent.requirements[0].partition('==')[2]}"
    python = folder / "bin/python"
    done = folder / "ready"
    wanted = "\n".join((*agent.requirements, *SHARED))
    if not done.exists() or done.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", *agent.requirements, *SHARED], check=True)
        done.write_text(wanted)
    return python


def spans_of(name: str, agent: Agent, uri: str) -> list[dict[str, Any]]:
    """Run an agent's program; return the spans of this driver that its collector got.

    Raises:
        RuntimeError: the program failed.
    """
    python = environment(name, agent)
    program = ROOT / "tools/agent_programs" / f"{name}_agent.py"
    finished = subprocess.run(
        [python, program, uri],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if finished.returncode:
        raise RuntimeError(f"{program.name} failed: {finished.stderr[-3000:]}")
    spans: list[dict[str, Any]] = json.loads(finished.stdout.splitlines()[-1])
    return spans


def problems_of(spans: list[dict[str, Any]]) -> list[str]:
    """Return the faults of an agent's spans in words."""
    problems = [f"no span in {cell!r}" for cell in CELLS if not any(span["cell"] == cell for span in spans)]
    for face in ("blocking", "asyncio"):
        of_driver = [span for span in spans if span["cell"] == f"{face} driver"]
        if not any(span["failed"] for span in of_driver):
            problems.append(f"no failed span in '{face} driver'")
        if all(span["failed"] for span in of_driver):
            problems.append(f"every span failed in '{face} driver'")
        if not any("find" in span["name"] for span in of_driver):
            problems.append(f"no find in '{face} driver'")
        if not any('"filter":{"name":"?"}' in (span["statement"] or "") for span in of_driver):
            problems.append(f"no statement of the find in '{face} driver'")
    for cell in CELLS:
        of_cell = [span for span in spans if span["cell"] == cell]
        if not any(span["statement"] for span in of_cell):
            problems.append(f"no statement in {cell!r}")
        if not any("127.0.0.1" in span["all"] for span in of_cell):
            problems.append(f"no server in {cell!r}")
    for span in spans:
        if span["parent"] is None:
            problems.append(f"{span['name']} in {span['cell']!r} is below no span that was sent")
        if SECRET in span["all"]:
            problems.append(f"a value is shown: {span['all'][:300]}")
        if not 0 <= span["seconds"] < 300:
            problems.append(f"{span['name']} took {span['seconds']} s")
    return problems


def table(counts: dict[str, dict[str, int]]) -> str:
    """Return the table of the page: spans by agent, face and package."""
    lines = ["| agent | how | " + " | ".join(CELLS) + " |", "|---|---" * 1 + "|---" * len(CELLS) + "|"]
    for name, found in counts.items():
        agent = AGENTS[name]
        version = agent.requirements[0].partition("==")[2]
        cells = " | ".join(str(found[cell]) for cell in CELLS)
        lines.append(f"| {agent.label} {version} | {agent.way} | {cells} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the agents; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(AGENTS)}; all by default"
    )
    parser.add_argument("--write", action="store_true", help="write the table into docs/observability.md")
    options = parser.parse_args(arguments)
    from mangonel.server import start

    counts: dict[str, dict[str, int]] = {}
    failures = 0
    with start() as server:
        for name in options.names or AGENTS:
            spans = spans_of(name, AGENTS[name], server.uri)
            counts[name] = {cell: sum(span["cell"] == cell for span in spans) for cell in CELLS}
            print(AGENTS[name].label, counts[name])
            for problem in problems_of(spans):
                failures += 1
                print(f"  {problem}")
    if options.write:
        text = PAGE.read_text()
        before, _, rest = text.partition(START)
        PAGE.write_text(before + START + table(counts) + END + rest.partition(END)[2])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
