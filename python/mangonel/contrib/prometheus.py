"""Prometheus: exports the counts of clients, read whenever the program's metrics are scraped.

Needs `prometheus-client`. The names equal those of OpenTelemetry's metrics in Prometheus, so one dashboard serves both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
except ImportError as error:
    raise ImportError(
        "mangonel.contrib.prometheus needs prometheus-client: pip install prometheus-client"
    ) from error

from mangonel._arguments import expect
from mangonel._observe.instruments import COUNTER, GAUGE, HISTOGRAM, INSTRUMENTS, Clients, Instrument, core_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from mangonel.metrics import Histogram

__all__ = ["MangonelCollector", "measure"]


class MangonelCollector:
    """A collector for `prometheus_client`, over any number of clients. Register it once.

    Example:
        >>> collector = MangonelCollector(client)
        >>> REGISTRY.register(collector)
    """

    def __init__(self, *clients: Any) -> None:
        self._clients = Clients()
        for client in clients:
            self.add(client)

    def add(self, client: Any) -> None:
        """Export this client's counts too; it counts from now on, with or without `metrics=True`.

        Args:
            client: a MongoClient or an AsyncMongoClient.

        Raises:
            TypeError: `client` is no client.
        """
        self._clients.add(core_of(client))

    def describe(self) -> Iterator[Metric]:
        """Return the families without values, so that registering the collector reads none."""
        for instrument in INSTRUMENTS:
            yield _family(instrument)

    def collect(self) -> Iterator[Metric]:
        """Return the families with the values of this moment; Prometheus calls this."""
        families = {instrument.name: _family(instrument) for instrument in INSTRUMENTS}
        labels = {instrument.name: instrument.labels for instrument in INSTRUMENTS}
        for (name, attributes), value in self._clients.totals().items():
            known = dict(attributes)
            values = [known.get(label, "") for label in labels[name]]
            family = families[name]
            if isinstance(value, int):
                family.add_metric(values, value)
            else:
                family.add_metric(values, _buckets(value), value.sum)
        yield from families.values()


def measure(client: Any, registry: CollectorRegistry = REGISTRY) -> MangonelCollector:
    """Export a client's counts; it counts from now on, with or without `metrics=True`.

    Args:
        client: a MongoClient or an AsyncMongoClient.
        registry: where its metrics appear. All clients of one registry are added up.

    Returns:
        The collector of that registry.

    Raises:
        TypeError: `client` is no client, or `registry` no CollectorRegistry.

    Example:
        >>> from prometheus_client import start_http_server
        >>> collector = measure(client)
        >>> server, thread = start_http_server(9000)
    """
    core_of(client)
    expect("registry", registry, CollectorRegistry, "a prometheus_client.CollectorRegistry")
    collector = _of_registries.get(registry)
    if collector is None:
        collector = _of_registries[registry] = MangonelCollector()
        registry.register(collector)
    collector.add(client)
    return collector


_of_registries: dict[CollectorRegistry, MangonelCollector] = {}


def prometheus_name(instrument: Instrument) -> str:
    """Return an instrument's name in Prometheus, without the suffixes of its kind."""
    unit = {"s": "_seconds", "By": "_bytes"}.get(instrument.unit, "")
    return instrument.name.replace(".", "_") + unit


def _family(instrument: Instrument) -> Any:
    made = {COUNTER: CounterMetricFamily, GAUGE: GaugeMetricFamily, HISTOGRAM: HistogramMetricFamily}
    labels = [label.replace(".", "_") for label in instrument.labels]
    return made[instrument.kind](prometheus_name(instrument), instrument.description, labels=labels)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    found, seen = [], 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        seen += count
        found.append(("+Inf" if bound == float("inf") else repr(bound), float(seen)))
    return found
