"""Elastic APM, through `mangonel.contrib.elastic`."""

# ruff: noqa: E402 - agents read the environment at import.

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator

from collector import Collector

collector = Collector()

import elasticapm
from workload import play

from mangonel.contrib.elastic import instrument

client = elasticapm.Client(
    service_name="agents",
    server_url=collector.url,
    metrics_interval="0s",
    central_config=False,
    cloud_provider="none",
    instrument=False,
    span_compression_enabled=False,
    exit_span_min_duration="0ms",
)
instrument()


@contextlib.contextmanager
def transaction(name: str) -> Iterator[None]:
    """Begin a transaction, and end it."""
    client.begin_transaction("test")
    try:
        yield
    finally:
        client.end_transaction(name, "success")


play(sys.argv[1], transaction)
client.close()

lines = [json.loads(line) for _, body in collector.bodies for line in body.splitlines() if line]
names = {line["transaction"]["id"]: line["transaction"]["name"] for line in lines if "transaction" in line}
names |= {line["span"]["id"]: line["span"]["name"] for line in lines if "span" in line}
found = [
    {
        "cell": names.get(span["transaction_id"]),
        "name": span["name"],
        "parent": names.get(span["parent_id"]),
        "statement": span["context"]["db"]["statement"],
        "failed": span["outcome"] == "failure",
        "seconds": span["duration"] / 1000,
        "all": json.dumps(span),
    }
    for span in (line["span"] for line in lines if "span" in line)
]
print(json.dumps(found))
