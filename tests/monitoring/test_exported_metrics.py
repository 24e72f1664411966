"""OpenTelemetry and Prometheus get the values of `client.metrics()`; the dashboard uses no others."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import weakref
from pathlib import Path
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient
from mangonel._observe.instruments import HISTOGRAM, INSTRUMENTS
from mangonel.server import Server
from monitoring.conftest import Connect
from tools.faces import Face, eventually
from tools.forks import in_child
from tools.frames import entered

prometheus_client = pytest.importorskip("prometheus_client")
pytest.importorskip("opentelemetry.instrumentation")

from opentelemetry.sdk import metrics as sdk  # noqa: E402
from opentelemetry.sdk.metrics import MeterProvider  # noqa: E402
from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: E402

from mangonel.contrib import opentelemetry as contrib  # noqa: E402
from mangonel.contrib import prometheus  # noqa: E402

DASHBOARD = Path(__file__).parents[2] / "docs/assets/grafana-mangonel.json"


def scraped(registry: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample, by its name and its labels that are not empty."""
    return {
        (
            sample.name,
            tuple(sorted((name, value) for name, value in sample.labels.items() if value)),
        ): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def collected(reader: InMemoryMetricReader) -> dict[tuple[str, tuple[tuple[str, str], ...]], Any]:
    """Every data point, by its name and its attributes."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (metric.name, tuple(sorted(point.attributes.items()))): point
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def work(face: Face, client: Any, database_name: str) -> None:
    """Run a few operations."""
    things = client[database_name]["things"]
    face.run(lambda: things.insert_many([{"_id": each} for each in range(3)]))
    for _ in range(5):
        face.run(lambda: things.find_one({}))


def test_prometheus_gets_what_the_client_counted(face: Face, connect: Connect, database_name: str) -> None:
    client = connect()
    registry = prometheus_client.CollectorRegistry()
    prometheus.measure(client, registry)
    work(face, client, database_name)

    samples, counted = scraped(registry), client.metrics()
    find = next(each for each in counted.operations if each.name == "find")
    labels = (
        ("db_collection_name", "things"),
        ("db_namespace", database_name),
        ("db_operation_name", "find"),
        ("db_system_name", "mongodb"),
    )
    assert samples["db_client_operation_duration_seconds_count", labels] == 5 == find.duration.count
    assert samples["db_client_operation_duration_seconds_sum", labels] == pytest.approx(find.duration.sum)
    assert samples["db_client_operation_duration_seconds_bucket", (*labels, ("le", "+Inf"))] == 5
    (pool,) = counted.pools
    name = ("db_client_connection_pool_name", f"{pool.address[0]}:{pool.address[1]}")
    idle = (name, ("db_client_connection_state", "idle"))
    assert samples["db_client_connection_count", idle] == pool.idle == 1
    assert samples["mongodb_client_connection_created_total", (name,)] == pool.created == 1
    sent = (("network_io_direction", "transmit"),)
    assert samples["mongodb_client_io_bytes_total", sent] == counted.bytes_sent
    text = prometheus_client.generate_latest(registry).decode()
    for instrument in INSTRUMENTS:
        assert f"# HELP {prometheus.prometheus_name(instrument)}" in text


def test_clients_are_added_up_and_their_counts_outlive_them(server: Server, database_name: str) -> None:
    registry = prometheus_client.CollectorRegistry()
    face = Face("blocking")
    for number in (1, 2):
        client = MongoClient(server.uri)
        collector = prometheus.measure(client, registry)
        work(face, client, database_name + str(number))
        scraped(registry)
        client.close()
        del client
        gc.collect()
    with MongoClient(server.uri) as third:
        collector.add(third)
        work(face, third, database_name + "3")
        samples = scraped(registry)

    finds = {
        value
        for (name, labels), value in samples.items()
        if name == "db_client_operation_duration_seconds_count" and ("db_operation_name", "find") in labels
    }
    assert finds == {5}
    created = [
        value for (name, _), value in samples.items() if name == "mongodb_client_connection_created_total"
    ]
    assert created == [3]
    idle = [
        value
        for (name, labels), value in samples.items()
        if name == "db_client_connection_count" and ("db_client_connection_state", "idle") in labels
    ]
    # Values of closed clients disappear.
    assert idle == [1]


def counted_finds(registry: Any, reader: InMemoryMetricReader) -> tuple[float, int]:
    """Return the count of `find` operations, as reported to Prometheus and OpenTelemetry."""
    name = ("db_operation_name", "find")
    return (
        sum(
            value
            for key, value in scraped(registry).items()
            if key[0] == "db_client_operation_duration_seconds_count" and name in key[1]
        ),
        sum(
            point.count
            for key, point in collected(reader).items()
            if key[0] == "db.client.operation.duration" and ("db.operation.name", "find") in key[1]
        ),
    )


@pytest.mark.parametrize("ending", ["closed", "dropped", "asyncio"])
def test_counts_of_a_client_that_was_gone_before_a_collection_are_exported(
    server: Server, database_name: str, ending: str
) -> None:
    registry, reader = prometheus_client.CollectorRegistry(), InMemoryMetricReader()
    provider = MeterProvider([reader])
    # A collector without clients is garbage-collected as well.
    collector = prometheus.MangonelCollector()
    registry.register(collector)

    cores = []

    def measure(client: Any) -> Any:
        collector.add(client)
        contrib.measure(client, provider)
        cores.append(weakref.ref(client._core))
        return client

    async def steps() -> None:
        async with measure(AsyncMongoClient(server.uri)) as client:
            for _ in range(5):
                await client[database_name]["things"].find_one({})

    if ending == "asyncio":
        asyncio.run(steps())
    else:
        client = measure(MongoClient(server.uri))
        work(Face("blocking"), client, database_name)
        if ending == "closed":
            client.close()
        del client

    def is_gone() -> bool:
        gc.collect()
        return cores[0]() is None

    # Its monitors reference it until they have ended.
    eventually(is_gone)
    assert counted_finds(registry, reader) == (5, 5)
    assert counted_finds(registry, reader) == (5, 5)
    provider.shutdown()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_exports_what_it_counts_itself(server: Server, database_name: str) -> None:
    registry, reader = prometheus_client.CollectorRegistry(), InMemoryMetricReader()
    provider = MeterProvider([reader])
    with MongoClient(server.uri) as client, MongoClient(server.uri) as closed:
        for each in (client, closed):
            prometheus.measure(each, registry)
            contrib.measure(each, provider)
            work(Face("blocking"), each, f"{database_name}{each is closed}")
        closed.close()
        assert counted_finds(registry, reader) == (10, 10)
        selected = collected(reader)["mongodb.client.server_selection.duration", ()].count

        def look() -> tuple[float, int, int]:
            for _ in range(3):
                client[database_name]["things"].find_one({})
            now, counted = collected(reader)["mongodb.client.server_selection.duration", ()], client.metrics()
            client.close()
            return counted_finds(registry, reader)[0], now.count - selected, counted.selection_time.count

        # In the child, the SDK keeps the histograms' values of the parent.
        finds, new, counted = in_child(look)
        assert (finds, new) == (3, counted)
        assert counted_finds(registry, reader) == (10, 10)
    provider.shutdown()


def test_a_collection_records_the_durations_of_a_bucket_by_one_call(
    server: Server, database_name: str
) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with MongoClient(server.uri) as client:
        contrib.measure(client, provider)

        def look() -> None:
            for _ in range(100):
                client[database_name]["things"].find_one({})
            collected(reader)

        names = entered(look, Path(sdk.__file__).parent)
    # Of 300 durations: of the operations, of selecting a server, of waiting for a connection.
    assert 0 < names.count("Histogram.record") < 60
    provider.shutdown()


def test_meter_gets_what_the_client_counted(face: Face, connect: Connect, database_name: str) -> None:
    client = connect()
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    contrib.measure(client, provider)
    work(face, client, database_name)

    points, counted = collected(reader), client.metrics()
    find = next(each for each in counted.operations if each.name == "find")
    attributes = (
        ("db.collection.name", "things"),
        ("db.namespace", database_name),
        ("db.operation.name", "find"),
        ("db.system.name", "mongodb"),
    )
    point = points["db.client.operation.duration", attributes]
    assert tuple(point.explicit_bounds) == find.duration.bounds
    assert tuple(point.bucket_counts) == find.duration.counts
    assert point.sum == pytest.approx(find.duration.sum)
    assert points["mongodb.client.io", (("network.io.direction", "receive"),)].value == counted.bytes_received
    # Values that were recorded once are not recorded again.
    again = collected(reader)["db.client.operation.duration", attributes]
    assert again.count == point.count == 5
    provider.shutdown()


def test_instrumentor_measures_every_client_made_while_it_is_on(
    face: Face, connect: Connect, database_name: str
) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    instrumentor = contrib.MangonelInstrumentor()
    instrumentor.instrument(meter_provider=provider)
    try:
        client = connect(tracing=False)
    finally:
        instrumentor.uninstrument()
    work(face, client, database_name)
    work(face, connect(tracing=False), database_name + "2")

    places = {dict(key[1]).get("db.namespace") for key in collected(reader)}
    assert places - {None} == {database_name}
    provider.shutdown()


def test_dashboard_asks_only_for_what_is_exposed() -> None:
    board = json.loads(DASHBOARD.read_text())
    exposed = set()
    labels = {"le"}
    for instrument in INSTRUMENTS:
        name = prometheus.prometheus_name(instrument)
        exposed |= {name, f"{name}_total"}
        if instrument.kind == HISTOGRAM:
            exposed |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
        labels |= {label.replace(".", "_") for label in instrument.labels}
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    variables = [each["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    asked = set()
    for query in queries + variables:
        asked |= set(re.findall(r"\b(?:db|mongodb)_client_\w+", query)) - labels
        for group in re.findall(r"by \(([^)]*)\)", query):
            assert set(group.replace(" ", "").split(",")) <= labels, query
        for label in re.findall(r"[{,]\s*(\w+)\s*(?:=~|!=|!~|=)", query):
            assert label in labels | {"job", "instance"}, query

    assert len(queries) >= 12
    assert asked <= exposed, asked - exposed
    # Every metric is on the dashboard.
    missing = {
        instrument.name
        for instrument in INSTRUMENTS
        if not any(prometheus.prometheus_name(instrument) in query for query in queries)
    }
    assert not missing
