"""OpenTelemetry, through its own instrumentor."""

from __future__ import annotations

import json
import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from workload import play

from mangonel.contrib.opentelemetry import MangonelInstrumentor

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
MangonelInstrumentor().instrument(
    tracer_provider=provider, query_text_max_length=1000, query_text_values=False
)
tracer = provider.get_tracer("the application")
play(sys.argv[1], tracer.start_as_current_span)

spans = exporter.get_finished_spans()
roots = {span.context.trace_id: span.name for span in spans if span.parent is None}
names = {span.context.span_id: span.name for span in spans}
found = [
    {
        "cell": roots[span.context.trace_id],
        "name": span.name,
        "parent": names.get(span.parent.span_id),
        "statement": span.attributes.get("db.query.text"),
        "failed": not span.status.is_ok,
        "seconds": (span.end_time - span.start_time) / 1e9,
        "all": span.to_json(),
    }
    for span in spans
    if span.parent is not None
]
print(json.dumps(found))
