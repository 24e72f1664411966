"""An OpenTelemetry meter of clients' counts. Needs `opentelemetry-api`; holds no client.

OpenTelemetry collects values by calling this, so an operation pays nothing. It has no histogram that it only reads, so
each collection records the durations since the last one, bucket by bucket, each as the mean of its bucket. So counts,
buckets and sums are exact, but minimum and maximum are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from mangonel._observe.instruments import COUNTER, GAUGE, HISTOGRAM, INSTRUMENTS, Clients, Instrument
from mangonel._observe.repeated import Repeated, repeat
from mangonel._version import __version__
from mangonel.metrics import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from opentelemetry.metrics import Meter as ApiMeter
    from opentelemetry.metrics import MeterProvider

    from mangonel import _core
    from mangonel._observe.instruments import Attributes


class Meter:
    """The instruments of one provider.

    Args:
        provider: makes the instruments. None: the global one.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        self._clients = Clients()
        # The running collection's values, and the names that it has read.
        self._totals: dict[tuple[str, Attributes], int | Histogram] = {}
        self._read: set[str] = set()
        # The recorded counts of this process, and `Clients.forks` when they began.
        self._recorded: dict[tuple[str, Attributes], Histogram] = {}
        self._forks = 0
        self._histograms: dict[str, Any] = {}
        meter = metrics.get_meter("mangonel", __version__, provider)
        for instrument in INSTRUMENTS:
            self._make(meter, instrument)

    def add(self, core: _core.Core) -> None:
        """Export this client's counts from now on."""
        self._clients.add(core)

    def _make(self, meter: ApiMeter, instrument: Instrument) -> None:
        name, kind, unit, description, *_ = instrument
        if kind == HISTOGRAM:
            self._histograms[name] = meter.create_histogram(
                name, unit, description, explicit_bucket_boundaries_advisory=Histogram((), ()).bounds
            )
        elif kind == COUNTER:
            meter.create_observable_counter(name, [self._reader(name)], unit, description)
        else:
            assert kind == GAUGE
            meter.create_observable_up_down_counter(name, [self._reader(name)], unit, description)

    def _reader(self, name: str) -> Callable[[CallbackOptions], Iterator[Observation]]:
        def read(_: CallbackOptions) -> Iterator[Observation]:
            # A collection reads each name once, so a name that is read again begins the next collection.
            if name in self._read:
                self._read.clear()
            if not self._read:
                self._totals = self._clients.totals()
                self._record()
            self._read.add(name)
            for (found, attributes), value in self._totals.items():
                if found == name and isinstance(value, int):
                    yield Observation(value, dict(attributes))

        return read

    def _record(self) -> None:
        """Record the durations since the last collection: OpenTelemetry collects histograms last."""
        if self._forks != self._clients.forks:
            self._forks = self._clients.forks
            self._recorded.clear()
        more: list[Repeated] = []
        for key, value in self._totals.items():
            if isinstance(value, int):
                continue
            earlier = self._recorded.get(key)
            self._recorded[key] = value
            histogram, attributes = self._histograms[key[0]], dict(key[1])
            for bucket, count in enumerate(value.counts):
                new = count - (earlier.counts[bucket] if earlier else 0)
                if new > 0:
                    mean = (value.sums[bucket] - (earlier.sums[bucket] if earlier else 0.0)) / new
                    histogram.record(mean, attributes)
                    if new > 1:
                        more.append(Repeated(histogram, mean, attributes, new - 1))
        repeat(more)
