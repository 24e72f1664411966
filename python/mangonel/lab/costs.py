"""The client's processor time for each operation (`costs.toml`): the figure that this project is about.

Unlike wall-clock time, it hardly depends on the network, the server and other work of the machine. Reads only a result
file.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from mangonel.lab import registry
from mangonel.lab.results import Results
from mangonel.lab.statistics import Estimate

# A chart with more rows is not read.
ENOUGH = 8


@dataclass(frozen=True)
class Cost:
    """Client CPU of one operation in µs, ours and that of peers."""

    title: str
    ours: Estimate
    peers: tuple[tuple[str, Estimate], ...]  # names and figures
    times: Estimate  # how many times ours the first peer's is


def costs(results: Results) -> list[Cost]:
    """Return the operations of a run whose difference from the first peer is certain: its interval does not touch 1."""
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["rows"]
    found: list[Cost] = []
    for title, experiment, part, ours, first, *others in rows:
        mine = results.rows.get((experiment, part, ours))
        one = mine.estimate("client") if mine is not None else None
        times = results.ratio((experiment, part, first), (experiment, part, ours), "client")
        if one is None or times is None or not times.excludes(1.0) or title in [each.title for each in found]:
            continue
        peers = [_cheapest(results, experiment, part, names.split()) for names in (first, *others)]
        found.append(Cost(title, one, tuple(peer for peer in peers if peer is not None), times))
    return found[:ENOUGH]


def _cheapest(results: Results, experiment: str, part: str, names: list[str]) -> tuple[str, Estimate] | None:
    rows = (results.rows.get((experiment, part, name)) for name in names)
    figures = {row.key[2]: row.estimate("client") for row in rows if row is not None and not row.failures}
    played = {name: figure for name, figure in figures.items() if figure is not None}
    least = min(played, key=lambda name: played[name].value, default="")
    if not least:
        return None
    title = registry.contender(least).title.removesuffix(", blocking").removeprefix("Python, ")
    return title, played[least]


def quote(cost: Cost) -> str:
    """Return one sentence that can be quoted."""
    says = f"`{cost.title.partition(' ')[0].rstrip(',')}` costs the client {_us(cost.ours)} of processor time"
    if len(cost.peers) > 1:
        peers = sorted(cost.peers, key=lambda peer: peer[1].value)
        told = ", ".join(f"{name.partition(',')[0]} {_us(figure)}" for name, figure in peers)
        return f"{says} with Mangonel; {told}"
    ((name, figure),) = cost.peers
    return f"{says}, {name} {_us(figure)}: {cost.times.value:.1f} times as much"


def _us(figure: Estimate) -> str:
    return f"{figure.value:.1f} µs" if figure.value < 100 else f"{figure.value:.0f} µs"
