"""Values added to the SDK's histograms in bulk are exported like values recorded one by one."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import (
    DropAggregation,
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
    SumAggregation,
    View,
)

from mangonel._observe.repeated import Repeated, repeat

# These numbers are exact in binary, so sums are not rounded.
VALUES = (0.0, 0.001953125, 0.5, 0.5, 3.0, 1024.0)
PLACES = ({"database": "shop", "name": "find"}, {"database": "shop", "name": "insert"}, {})
VIEWS: dict[str, list[View]] = {
    "none": [],
    "growing buckets": [
        View(instrument_name="*", aggregation=ExponentialBucketHistogramAggregation(max_size=4))
    ],
    "other bounds": [View(instrument_name="*", aggregation=ExplicitBucketHistogramAggregation((1.0, 2.0)))],
    "fewer attributes": [View(instrument_name="*", attribute_keys={"database"})],
    "few series": [View(instrument_name="*", aggregation_cardinality_limit=1)],
    "dropped": [View(instrument_name="*", aggregation=DropAggregation())],
    "two of one": [
        View(instrument_name="*"),
        View(instrument_name="h", name="other", aggregation=ExponentialBucketHistogramAggregation()),
    ],
    "no histogram": [View(instrument_name="*", aggregation=SumAggregation())],
}


class Sink:
    """A histogram, with the readers of its provider."""

    def __init__(self, views: list[View]) -> None:
        delta = {Histogram: AggregationTemporality.DELTA}
        self.readers = [InMemoryMetricReader(), InMemoryMetricReader(preferred_temporality=delta)]
        self.provider = MeterProvider(self.readers, shutdown_on_exit=False, views=views)
        meter = self.provider.get_meter("test")
        self.histogram = meter.create_histogram("h", explicit_bucket_boundaries_advisory=[0.1, 0.5, 1.0])

    def exported(self) -> list[Any]:
        found: list[Any] = []
        for reader in self.readers:
            data = reader.get_metrics_data()
            for resource in data.resource_metrics if data else ():
                found += [
                    (metric.name, *(getattr(point, name, None) for name in POINT))
                    for scope in resource.scope_metrics
                    for metric in scope.metrics
                    for point in metric.data.data_points
                ]
        return found


POINT = (
    *("attributes", "count", "sum", "min", "max", "value"),
    *("bucket_counts", "explicit_bounds", "scale", "zero_count", "positive", "negative"),
)


@pytest.mark.parametrize("views", VIEWS)
def test_values_added_at_once_are_exported_as_those_recorded_one_by_one(views: str) -> None:
    one_by_one, at_once = Sink(VIEWS[views]), Sink(VIEWS[views])
    for times in (1, 4):
        more = []
        for place in PLACES:
            for value in VALUES:
                for _ in range(times + 1):
                    one_by_one.histogram.record(value, place)
                at_once.histogram.record(value, place)
                more.append(Repeated(at_once.histogram, value, place, times))
        repeat(more)

        expected = one_by_one.exported()
        assert at_once.exported() == expected
        assert bool(expected) is (views != "dropped")
    for sink in (one_by_one, at_once):
        sink.provider.shutdown()


def test_a_histogram_of_another_implementation_gets_each_value() -> None:
    recorded = []

    class Own:
        def record(self, value: float, attributes: dict[str, str]) -> None:
            recorded.append((value, attributes))

    repeat([Repeated(Own(), 0.5, {"name": "find"}, 3)])

    assert recorded == [(0.5, {"name": "find"})] * 3
