"""Records one value many times in an OpenTelemetry histogram, at about the cost of once.

The API takes one value a call, which costs the SDK more than a `find_one` costs the driver, and a collection may have a
million of them. So the API records the first of equal values, and the others are added to the aggregations that it has
reached in the SDK. `_is_exact` first compares the result with the SDK's own. Another implementation of the API, an
unknown aggregation, and an SDK that differs get each value in its own call.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    # For each view of a histogram: the attributes that it keeps (None: all), and its aggregations by those attributes.
    Views = list[tuple[Any, dict[frozenset[tuple[str, Any]], Any]]]

try:
    from opentelemetry.sdk.metrics._internal.aggregation import (
        _DropAggregation,
        _ExplicitBucketHistogramAggregation,
        _ExponentialBucketHistogramAggregation,
    )
except ImportError:
    # There is another implementation of the API, or another SDK.
    _DropAggregation = None  # type: ignore[assignment,misc]

# The attributes under which the SDK counts values when there are too many sets of attributes.
_OVERFLOW = frozenset([("otel.metric.overflow", True)])
# Whether the SDK works as this module expects; None: not compared yet.
_is_known: bool | None = None


class Repeated(NamedTuple):
    """A value that was recorded once and is to be recorded more often.

    Args:
        histogram: the histogram that recorded it.
        value: the value.
        attributes: its attributes.
        times: how many more times to record it.
    """

    histogram: Any
    value: float
    attributes: dict[str, str]
    times: int


def repeat(values: Iterable[Repeated]) -> None:
    """Record each value `times` more times."""
    global _is_known
    if _is_known is None:
        _is_known = _is_exact()
    views: dict[int, Views] = {}
    for each in values:
        found = _aggregations(each, views) if _is_known else None
        if found is None:
            for _ in range(each.times):
                each.histogram.record(each.value, each.attributes)
        else:
            for aggregation in found:
                _add(aggregation, each.value, each.times)


def _aggregations(each: Repeated, views: dict[int, Views]) -> list[Any] | None:
    """Return the SDK's aggregations that the value has reached; None if any of them is unknown."""
    try:
        if id(each.histogram) not in views:
            views[id(each.histogram)] = list(_views(each.histogram))
        found = []
        for names, by_attributes in views[id(each.histogram)]:
            kept = {name: value for name, value in each.attributes.items() if names is None or name in names}
            aggregation = by_attributes.get(frozenset(kept.items())) or by_attributes[_OVERFLOW]
            known = (_ExplicitBucketHistogramAggregation, _ExponentialBucketHistogramAggregation)
            if type(aggregation) not in known:
                return None
            found.append(aggregation)
    except (AttributeError, KeyError, TypeError):
        return None
    return found


def _views(histogram: Any) -> Iterator[tuple[Any, dict[frozenset[tuple[str, Any]], Any]]]:
    # The global provider may have been set after the histogram was made.
    real = getattr(histogram, "_real_instrument", histogram)
    for storage in real._measurement_consumer._reader_storages.values():
        for match in storage._instrument_view_instrument_matches.get(real, ()):
            if type(match._aggregation) is not _DropAggregation:
                yield (
                    match._view._attribute_keys,
                    {
                        frozenset((aggregation._attributes or {}).items()): aggregation
                        for aggregation in list(match._attributes_aggregation.values())
                    },
                )


def _add(aggregation: Any, value: float, times: int) -> None:
    counts: Any
    with aggregation._lock:
        if type(aggregation) is _ExplicitBucketHistogramAggregation:
            counts, place = aggregation._value, bisect_left(aggregation._boundaries, value)
        else:
            aggregation._count += times
            if not value:
                aggregation._zero_count += times
                return
            buckets = aggregation._value_positive
            # A negative place counts from the end, as in the SDK.
            counts, place = buckets.counts, aggregation._mapping.map_to_index(value) - buckets.index_base
        counts[place] += times
        aggregation._sum += value * times


def _is_exact() -> bool:
    """Return whether repeated values are exported as if they had been recorded one by one."""
    try:
        return _exported(is_repeated=True) == _exported(is_repeated=False)
    except Exception:
        # `repeat` uses private parts of the SDK, which another version may have changed in any way.
        return False


def _exported(is_repeated: bool) -> list[Any]:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
    from opentelemetry.sdk.resources import Resource

    views = [View(instrument_name="growing", aggregation=ExponentialBucketHistogramAggregation())]
    reader = InMemoryMetricReader()
    # There is nothing to flush at exit.
    provider = MeterProvider([reader], Resource.get_empty(), shutdown_on_exit=False, views=views)
    meter, more = provider.get_meter("mangonel"), []
    for name in ("fixed", "growing"):
        histogram = meter.create_histogram(name)
        for value in (0.0, 0.5, 8.0, 0.25):
            for at in ({"a": "b"}, {}):
                histogram.record(value, at)
                more.append(Repeated(histogram, value, at, 3))
    if is_repeated:
        for each in more:
            for aggregation in _aggregations(each, {}) or ():
                _add(aggregation, each.value, each.times)
    else:
        for each in more:
            for _ in range(each.times):
                each.histogram.record(each.value, each.attributes)
    data = reader.get_metrics_data()
    assert data is not None
    points = [
        point
        for scope in data.resource_metrics[0].scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]
    provider.shutdown()
    return [
        [
            getattr(point, name, None)
            for name in ("attributes", "count", "sum", "min", "max", "scale", "zero_count")
        ]
        + [getattr(point, "bucket_counts", None), getattr(point, "positive", None)]
        for point in points
    ]
