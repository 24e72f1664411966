"""Datadog, through the OpenTelemetry API of ddtrace."""

# ruff: noqa: E402 - agents read the environment at import.

from __future__ import annotations

import json
import os
import sys

from collector import Collector

collector = Collector()
os.environ |= {
    "DD_TRACE_AGENT_URL": collector.url,
    "DD_TRACE_OTEL_ENABLED": "true",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_TRACE_API_VERSION": "v0.4",
    "DD_TRACE_STARTUP_LOGS": "false",
}

import msgpack
from ddtrace.opentelemetry import TracerProvider
from ddtrace.trace import tracer as datadog
from opentelemetry import trace
from workload import play

from mangonel.contrib.opentelemetry import MangonelInstrumentor

trace.set_tracer_provider(TracerProvider())
MangonelInstrumentor().instrument(query_text_max_length=1000, query_text_values=False)
tracer = trace.get_tracer("the application")
play(sys.argv[1], tracer.start_as_current_span)
datadog.shutdown()

spans = [
    span
    for path, body in collector.bodies
    if path.endswith("/traces")
    for each in msgpack.unpackb(body)
    for span in each
]
by_id = {span["span_id"]: span for span in spans}


def root(span: dict[str, object]) -> dict[str, object]:
    """Return the span at the top."""
    while span.get("parent_id"):
        span = by_id[span["parent_id"]]
    return span


found = [
    {
        "cell": root(span)["resource"],
        "name": span["resource"],
        "parent": by_id[span["parent_id"]]["resource"],
        "statement": span.get("meta", {}).get("db.query.text"),
        "failed": bool(span.get("error")),
        "seconds": span["duration"] / 1e9,
        "all": json.dumps(span, default=str),
    }
    for span in spans
    if span.get("parent_id")
]
print(json.dumps(found))
