"""What operations cost the client's processor (`costs.toml`): the figure that this project is about.

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

__all__ = ["Cost", "costs", "quote"]

# A chart with more rows is not read.
ENOUGH = 8


@dataclass(frozen=True)
class Cost:
    """Client CPU of one operation in µs, ours and a peer's."""

    title: str
    peer_name: str
    ours: Estimate
    peer: Estimate
    times: Estimate  # how many times ours the peer's is


def costs(results: Results) -> list[Cost]:
    """Return the operations of a run whose difference is certain: the interval of the ratio does not touch 1."""
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["rows"]
    found: list[Cost] = []
    for title, experiment, part, ours, peer in rows:
        mine, theirs = (results.rows.get((experiment, part, name)) for name in (ours, peer))
        if mine is None or theirs is None or title in [each.title for each in found]:
            continue
        one, other = mine.estimate("client"), theirs.estimate("client")
        times = results.ratio((experiment, part, peer), (experiment, part, ours), "client")
        if one is None or other is None or times is None or not times.excludes(1.0):
            continue
        name = registry.contender(peer).title.removesuffix(", blocking")
        found.append(Cost(title, name, one, other, times))
    return found[:ENOUGH]


def quote(cost: Cost) -> str:
    """Return one sentence that can be quoted."""
    return (
        f"`{cost.title.partition(' ')[0].rstrip(',')}` costs the client {_us(cost.ours)} of processor time, "
        f"{cost.peer_name} {_us(cost.peer)}: {cost.times.value:.1f} times as much"
    )


def _us(figure: Estimate) -> str:
    return f"{figure.value:.1f} µs" if figure.value < 100 else f"{figure.value:.0f} µs"
