"""The OpenTelemetry spans of a client, compared with those that a case expects.

Spec: unified-test-format, "expectedTracingMessage"; open-telemetry. Needs the tracing SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spec.unified.matching import ABSENT, Matcher

__all__ = ["SpanLog", "check_spans"]


class SpanLog:
    """The finished spans of one client."""

    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider()
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def option(self, *, shows_commands: bool) -> dict[str, Any]:
        """Return the client's option that enables spans."""
        # Long enough for every command of the suite.
        length = {"query_text_max_length": 10_000} if shows_commands else {}
        return {"enabled": True, "tracer_provider": self._provider, **length}

    def trees(self) -> list[dict[str, Any]]:
        """Return the spans as trees, oldest first."""
        spans = sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time)
        nodes = {
            span.context.span_id: {"name": span.name, "attributes": dict(span.attributes), "nested": []}
            for span in spans
        }
        roots = []
        for span in spans:
            node = nodes[span.context.span_id]
            parent = nodes.get(span.parent.span_id) if span.parent is not None else None
            (roots if parent is None else parent["nested"]).append(node)
        return roots


def check_spans(matcher: Matcher, expected: Mapping[str, Any], log: SpanLog) -> None:
    """Raise AssertionError when the spans are not those that the case expects."""
    _check_level(matcher, expected["spans"], log.trees(), bool(expected.get("ignoreExtraSpans")), "$")


def _check_level(matcher: Matcher, wanted: list[Any], seen: list[Any], ignores_more: bool, at: str) -> None:
    names = [span["name"] for span in seen]
    if not ignores_more:
        assert len(wanted) == len(seen), (
            f"{at}: expected spans {[one['name'] for one in wanted]}, got {names}"
        )
    rest = list(seen)
    for one in wanted:
        while rest and ignores_more and rest[0]["name"] != one["name"]:
            rest.pop(0)
        assert rest, f"{at}: expected a span {one['name']!r}, got {names}"
        span = rest.pop(0)
        here = f"{at}/{one['name']}"
        assert span["name"] == one["name"], f"{here}: got {span['name']!r} of {names}"
        for name, value in one.get("attributes", {}).items():
            matcher.match(value, span["attributes"].get(name, ABSENT), at=f"{here}.{name}")
        _check_level(matcher, one.get("nested", []), span["nested"], ignores_more, here)
