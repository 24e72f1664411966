"""Makes the spans that the OpenTelemetry SDK's own tracer would make, at a fraction of its instructions.

The SDK cleans every attribute, asks samplers that always agree, and makes two objects for each span. Here the
attributes are known to be clean, and each span is of a subclass of the SDK's, so that exporters see no difference.
`maker_of` compares a span with the SDK's first. Any other tracer, and an SDK that differs, makes its own spans.
"""

from __future__ import annotations

import copy
from threading import Lock
from time import time_ns

from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, SpanContext, SpanKind, TraceFlags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

try:
    from opentelemetry.attributes import BoundedAttributes
    from opentelemetry.sdk import trace as sdk
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
except ImportError:
    # The application has another implementation of the API, or none.
    sdk = None  # type: ignore[assignment]


def maker_of(tracer: Tracer) -> SpanMaker | None:
    """Return what makes spans in this tracer's place, or None if only itself can.

    Args:
        tracer: the tracer of the application's provider.
    """
    if sdk is None or type(tracer) is not sdk.Tracer:
        return None
    try:
        # With other than this one, the SDK counts its own spans.
        is_plain = type(tracer._tracer_metrics).__name__ == "NoOpTracerMetrics"
        return SpanMaker(tracer) if is_plain and _is_equal(tracer) else None
    except Exception:
        # What is compared is the inside of the SDK, which another version may have changed in any way.
        return None


class SpanMaker:
    """Makes spans for the SDK's tracer: its sampler, limits, resource, ids and processors are asked at each span.

    Args:
        tracer: the SDK's own.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._flags = {
            (is_sampled, is_random): TraceFlags(
                (TraceFlags.SAMPLED if is_sampled else 0) | (TraceFlags.RANDOM_TRACE_ID if is_random else 0)
            )
            for is_sampled in (False, True)
            for is_random in (False, True)
        }
        self._note_sampler(tracer.sampler)

    def may_record(self) -> bool:
        """Return whether a span below the current one could be recorded, as far as that can be told without its id."""
        if not getattr(self._tracer.span_processor, "_span_processors", True):
            return False
        if self._tracer.sampler is not self._sampler:
            self._note_sampler(self._tracer.sampler)
        if not self._refuses_roots and not self._refuses_below_unsampled:
            return True
        parent = trace.get_current_span().get_span_context()
        if not parent.is_valid:
            return not self._refuses_roots
        return not self._refuses_below_unsampled or (parent.trace_flags.sampled and not self._refuses_all)

    def start_span(
        self, name: str, context: Context | None, kind: SpanKind, attributes: Mapping[str, Any]
    ) -> Span:
        """Start a span, as the tracer's method of this name.

        Args:
            name: its name.
            context: where its parent is. None: the current one.
            kind: CLIENT.
            attributes: its attributes; str and int only. Copied.
        """
        tracer = self._tracer
        parent: SpanContext | None = trace.get_current_span(context).get_span_context()
        if not tracer._is_enabled():
            return NonRecordingSpan(parent or INVALID_SPAN_CONTEXT)
        generator = tracer.id_generator
        if parent is None or not parent.is_valid:
            parent = None
            trace_id, is_random = generator.generate_trace_id(), generator.is_trace_id_random()
        else:
            trace_id, is_random = parent.trace_id, parent.trace_flags.random_trace_id
        if tracer.sampler is not self._sampler:
            self._note_sampler(tracer.sampler)
        if self._takes_below_sampled and (parent is None or parent.trace_flags.sampled):
            is_sampled = is_recording = True
            state = None if parent is None else parent.trace_state
        else:
            result = tracer.sampler.should_sample(context, trace_id, name, kind, attributes, ())
            is_sampled, is_recording = result.decision.is_sampled(), result.decision.is_recording()
            state, attributes = result.trace_state, result.attributes
        own = SpanContext(
            trace_id, generator.generate_span_id(), False, self._flags[is_sampled, is_random], state
        )
        if not is_recording:
            return NonRecordingSpan(own)
        span = object.__new__(_Span)
        span._begin(tracer, name, own, parent, kind, attributes)
        tracer.span_processor.on_start(span, parent_context=context)
        return span

    def _note_sampler(self, sampler: Any) -> None:
        """Remember a sampler, and which of its decisions depend on nothing but the parent."""
        self._sampler = sampler
        by_parent = type(sampler) is ParentBased
        self._refuses_all = sampler is ALWAYS_OFF
        self._refuses_roots = self._refuses_all or (by_parent and sampler._root is ALWAYS_OFF)
        self._refuses_below_unsampled = self._refuses_all or (
            by_parent
            and sampler._remote_parent_not_sampled is ALWAYS_OFF
            and sampler._local_parent_not_sampled is ALWAYS_OFF
        )
        # Roots, and below what was taken; unchanged.
        self._takes_below_sampled = sampler is ALWAYS_ON or (
            by_parent
            and sampler._root is ALWAYS_ON
            and sampler._remote_parent_sampled is ALWAYS_ON
            and sampler._local_parent_sampled is ALWAYS_ON
        )


if sdk is not None:

    class _Span(sdk.Span):
        """A span of the SDK whose fields are set without being checked again."""

        # These are its fields that nothing changes, or seldom.
        _end_time = None
        _events = ()
        _links = ()
        _status = trace.Status(trace.StatusCode.UNSET)
        _trace_config = None
        _record_exception = True
        _set_status_on_exception = True
        _record_end_metrics = None

        def _begin(
            self,
            tracer: Any,
            name: str,
            context: SpanContext,
            parent: SpanContext | None,
            kind: SpanKind,
            attributes: Mapping[str, Any],
        ) -> None:
            limits = tracer._span_limits
            self._name = name
            self._context = context
            self._parent = parent
            self._kind = kind
            self._sampler = tracer.sampler
            self._resource = tracer.resource
            self._span_processor = tracer.span_processor
            self._instrumentation_info = tracer.instrumentation_info
            self._instrumentation_scope = tracer._instrumentation_scope
            self._limits = limits
            self._lock = Lock()
            most, longest = limits.max_span_attributes, limits.max_span_attribute_length
            if longest is None and (most is None or len(attributes) <= most) and type(attributes) is dict:
                bounded = BoundedAttributes(most, None, False, None)
                bounded._dict = attributes.copy()
            else:
                # Shortened or dropped, or a sampler's own: the SDK knows how.
                bounded = BoundedAttributes(most, attributes, False, longest)
            self._attributes = bounded
            self._start_time = time_ns()

        def _add_event(self, event: Any) -> None:
            if not self._events:
                self._events = self._new_events()  # type: ignore[no-untyped-call]  # the SDK's own
            super()._add_event(event)

        def _add_link(self, link: Any) -> None:
            if not self._links:
                self._links = self._new_links(())
            super()._add_link(link)

        def _readable_span(self) -> Any:
            # It has ended, so it does not change any more.
            return self


class _Kept:
    """A span processor that keeps spans."""

    def __init__(self) -> None:
        self._span_processors = (self,)
        self.ended: list[Any] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Nothing is done with a span that has begun."""

    def _on_ending(self, span: Any) -> None:
        """Nothing is done with a span that is about to end."""

    def on_end(self, span: Any) -> None:
        """Keep it."""
        self.ended.append(span)


# Fields of a span that differ between any two, or that only one of the two makes.
_OF_ONE = frozenset(
    [
        "_attributes",
        "_context",
        "_end_time",
        "_events",
        "_links",
        "_lock",
        "_parent",
        "_record_end_metrics",
        "_start_time",
        "_status",
    ]
)


def _is_equal(tracer: Any) -> bool:
    """Return whether a span of this tracer has the same fields, made by the SDK and made here."""
    probe = copy.copy(tracer)
    kept = probe.span_processor = _Kept()
    probe.sampler = ALWAYS_ON
    attributes = {"db.system.name": "mongodb", "server.port": 27017}
    maker = SpanMaker(probe)
    parts: list[tuple[Any, Any]] = []
    for start in (probe.start_span, maker.start_span):
        outer = start("outer", None, SpanKind.CLIENT, attributes)
        inner = start("inner", trace.set_span_in_context(outer), SpanKind.CLIENT, attributes)
        parts.append((outer, inner))
        inner.end()
        outer.end()
    shown = [_shown(span) for span in kept.ended]
    theirs, ours = parts
    if ours[1].parent != ours[0].context or ours[1].context.trace_id != ours[0].context.trace_id:
        return False
    return shown[:2] == shown[2:] and all(
        getattr(own, field) == value
        for their, own in zip(theirs, ours, strict=True)
        for field, value in vars(their).items()
        if field not in _OF_ONE
    )


def _shown(span: Any) -> tuple[Any, ...]:
    """Return what an exporter reads of a span, without what chance or the clock decides."""
    return (
        span.name,
        span.kind,
        span.context.trace_flags,
        span.context.trace_state,
        span.context.is_remote,
        span.parent is None,
        span.status.status_code,
        dict(span.attributes),
        tuple(span.events),
        tuple(span.links),
        span.dropped_attributes,
        span.dropped_events,
        span.dropped_links,
        span.resource,
        span.instrumentation_scope,
        0 < span.start_time <= span.end_time,
    )
