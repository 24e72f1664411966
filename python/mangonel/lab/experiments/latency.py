"""find_one by `_id` at a constant rate: how long an answer takes when the load does not wait for answers.

The rates are the same for all, far below what any contender can do at most, so that figures tell of the way through the
driver and not of a queue; a contender that cannot keep up is saturated, and its percentiles say so.
"""

from __future__ import annotations

from mangonel.lab.contender import ASYNCIO, BLOCKING, DECODES
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task
from mangonel.lab.experiments.find_one import FindOneTask
from mangonel.lab.latency import Paced

RATES = (300, 1000)
CONNECTIONS = 8


class RateTask(FindOneTask):
    """So many find_one a second, each due at its time, whatever became of the one before."""

    def __init__(self, part: Part, bench: Bench, rate: int) -> None:
        super().__init__(part, bench, CONNECTIONS)
        self._rate = rate
        self._paced: Paced | None = None

    def act(self) -> int:
        """Find them all at their times."""
        self._paced = self._bench.drive_at_rate(self._adapter.find_one, self._keys, self._rate, CONNECTIONS)
        return len(self._keys)

    def extras(self) -> dict[str, float]:
        """Return the percentiles in µs."""
        return self._paced.extras() if self._paced else {}

    def histograms(self) -> dict[str, str]:
        """Return the histograms of the sample."""
        return self._paced.histograms() if self._paced else {}


class Latency(Experiment):
    """Two rates on both faces."""

    id = "latency"
    title = "find_one at a constant rate"
    dataset = "small"
    passes = 2
    brief_s = 12.0
    shows = (
        "Latency from when a request was due, so that a stall is counted for every request that would have come in it. "
        "The loads are far below capacity. It does not tell how much a driver can do: that is what the other "
        "experiments are for. What lies below the generator's own lag, given with the figures, means nothing."
    )

    def parts(self, size: Size) -> list[Part]:
        """Two rates with threads, two with tasks."""
        faces = ((BLOCKING, "8 threads"), (ASYNCIO, "event loop"))
        return [
            Part(
                f"{face}-{rate}",
                f"{rate} a second, {words}",
                frozenset({face, DECODES}),
                size.choose(rate, 5 * rate, rate // 4),
                1,
                judge="p99",
            )
            for face, words in faces
            for rate in RATES
        ]

    def task(self, part: Part, bench: Bench) -> Task:
        """Return the task with the part's rate."""
        return RateTask(part, bench, int(part.id.rpartition("-")[2]))


EXPERIMENT = Latency()
