"""find_one by `_id` at a constant rate: how long an answer takes when the load does not wait for answers.

Rates that are the same for all lie far below what any contender can do at most, so that figures tell of the way through
the driver and not of a queue; a contender that cannot keep up is saturated, and its percentiles say so. The full form
has shares of each contender's own capacity beside them: how it behaves near its limit, wherever that is.
"""

from __future__ import annotations

import time

from mangonel.lab.experiment import Bench, Part, Task
from mangonel.lab.experiments._parts import Tabled
from mangonel.lab.experiments.find_one import FindOneTask
from mangonel.lab.latency import Paced

CONNECTIONS = 8
PROBES = 500
OWN_S = 2


class RateTask(FindOneTask):
    """So many find_one a second, each due at its time, whatever became of the one before."""

    def __init__(self, part: Part, bench: Bench) -> None:
        super().__init__(part, bench, CONNECTIONS)
        self.figure = int(part.id.rpartition("-")[2])
        self.rate = float(self.figure)
        self._paced: Paced | None = None

    def act(self) -> int:
        self._paced = self.bench.drive_at_rate(self.adapter.find_one, self.keys, self.rate, CONNECTIONS)
        return len(self.keys)

    def extras(self) -> dict[str, float]:
        return self._paced.extras() if self._paced else {}

    def histograms(self) -> dict[str, str]:
        return self._paced.histograms() if self._paced else {}


class ShareTask(RateTask):
    """The same at a share of what the contender can do just now, which the warm-up finds out."""

    def warm_up(self) -> None:
        """Find out how many a second there are at most, with as many in flight as there are connections."""
        super().warm_up()
        probes = (self.keys * (PROBES // len(self.keys) + 1))[:PROBES]
        begun = time.perf_counter()
        self.drive(probes)
        self.rate = self.figure / 100 * PROBES / (time.perf_counter() - begun)
        # So many seconds, whatever the rate.
        wanted = max(PROBES, round(OWN_S * self.rate))
        self.keys = (self.keys * (wanted // len(self.keys) + 1))[:wanted]


def _task(part: Part, bench: Bench) -> Task:
    return (ShareTask if "-own-" in part.id else RateTask)(part, bench)


EXPERIMENT = Tabled("latency", _task)
