"""Makes the spans that the OpenTelemetry SDK's own tracer would make, at a fraction of its instructions.

The SDK cleans every attribute, calls samplers that always agree, and makes two objects for each span. Here the
attributes are known to be clean, and the class of spans is a subclass of the SDK's, so exporters see no difference.
`maker_of` first compares a span with the SDK's. Any other tracer, and an SDK that differs, makes its own spans.
"""

from __future__ import annotations

import copy
import math
from random import getrandbits
from threading import Lock
from time import time_ns

from opentelemetry import trace
from opentelemetry.context import get_current
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, SpanContext, SpanKind, TraceFlags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TraceState

try:
    from opentelemetry.attributes import BoundedAttributes
    from opentelemetry.sdk import trace as sdk
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
except ImportError:
    # The application has another implementation of the API, or none.
    sdk = None  # type: ignore[assignment]

_CLIENT = SpanKind.CLIENT
_MOST_TRACE_ID, _MOST_SPAN_ID = 2**128 - 1, 2**64 - 1
_NO_STATE = INVALID_SPAN_CONTEXT.trace_state
# No span of this driver starts with more attributes.
_MOST_ATTRIBUTES = 16
_new, _new_tuple = object.__new__, tuple.__new__


def maker_of(tracer: Tracer) -> SpanMaker | None:
    """Return an object that makes spans in this tracer's place, or None if only the tracer can.

    Args:
        tracer: the tracer of the application's provider.
    """
    if sdk is None or type(tracer) is not sdk.Tracer:
        return None
    try:
        # With any other metrics object, the SDK counts its own spans.
        is_plain = type(tracer._tracer_metrics).__name__ == "NoOpTracerMetrics"
        return SpanMaker(tracer) if is_plain and _is_equal(tracer) else None
    except Exception:
        # The comparison uses private parts of the SDK, which another version may have changed in any way.
        return None


class SpanMaker:
    """Makes spans for the SDK's tracer, with its present sampler, limits, resource, ids and processors at each span.

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
        self._sampled, self._sampled_random = self._flags[True, False], self._flags[True, True]
        self._note()

    def may_record(self, parent: SpanContext) -> bool:
        """Return False if no span below this parent can be recorded, as far as is known without its id."""
        if not self._is_noted():
            self._note()
        if not self.ended:
            return False
        if not self._refuses_roots and not self._refuses_below_unsampled:
            return True
        if not parent.is_valid:
            return not self._refuses_roots
        return not self._refuses_below_unsampled or (parent.trace_flags.sampled and not self._refuses_all)

    def start_operation(self, name: str, attributes: dict[str, Any]) -> Span | None:
        """Start a span below the current one; return None if it is not recorded, mostly without using up an id."""
        current = get_current()
        if not current and self._is_plain and self._is_noted() and self._tracer._tracer_config.is_enabled:
            trace_id = getrandbits(128) or self._generator.generate_trace_id()
            return self._made(name, None, trace_id, self._sampled_random, _NO_STATE, attributes.copy())
        parent = trace.get_current_span(current).get_span_context()
        if not self.may_record(parent):
            return None
        span = self._start(name, None, parent, attributes.copy())
        return span if span.is_recording() else None

    def start_command(self, operation: Span, name: str, attributes: dict[str, Any]) -> Span:
        """Start a span below an operation's; it keeps `attributes` without a copy."""
        tracer = self._tracer
        # Limits and the id generator were compared when the operation's span started.
        if (
            type(operation) is _Span
            and self._is_plain
            and tracer.sampler is self._sampler
            and (self._parts is None or tracer.span_processor._span_processors is self._parts)
            and tracer._tracer_config.is_enabled
        ):
            parent: Any = operation._context
            flags = parent[3]
            # Compared by identity: `&` of flags is slow, and every span recorded here has one of these two.
            if flags is self._sampled_random or flags is self._sampled:
                return self._made(name, parent, parent[0], flags, parent[4], attributes)
        return self._start(name, None, operation.get_span_context(), attributes, operation)

    def start_span(
        self, name: str, context: Context | None, kind: SpanKind, attributes: dict[str, Any]
    ) -> Span:
        """Start a span, as the tracer's method of this name does.

        Args:
            name: its name.
            context: the context that holds its parent. None: the current one.
            kind: CLIENT.
            attributes: its attributes; str and int only. Copied.
        """
        parent = trace.get_current_span(context).get_span_context()
        return self._start(name, context, parent, attributes.copy())

    def _start(
        self,
        name: str,
        context: Context | None,
        parent: SpanContext | None,
        attributes: dict[str, Any],
        operation: Span | None = None,
    ) -> Span:
        """Start a span below `parent`, the span in `context` or that of `operation`."""
        tracer = self._tracer
        if not tracer._tracer_config.is_enabled:
            return NonRecordingSpan(parent or INVALID_SPAN_CONTEXT)
        if not self._is_noted():
            self._note()
        generator = tracer.id_generator
        trace_id, _, _, flags, state, is_valid = parent or INVALID_SPAN_CONTEXT
        if is_valid:
            is_random = flags & TraceFlags.RANDOM_TRACE_ID != 0
        else:
            parent = None
            trace_id, is_random = generator.generate_trace_id(), generator.is_trace_id_random()
        taken: Mapping[str, Any] | None = attributes
        if self._takes_below_sampled and (parent is None or flags & TraceFlags.SAMPLED):
            is_sampled = is_recording = True
        else:
            if operation is not None:
                context = trace.set_span_in_context(operation)
            result = tracer.sampler.should_sample(context, trace_id, name, _CLIENT, attributes, ())
            is_sampled, is_recording = result.decision.is_sampled(), result.decision.is_recording()
            state, taken = result.trace_state, result.attributes
        flags = self._flags[is_sampled, is_random]
        if not is_recording:
            return NonRecordingSpan(SpanContext(trace_id, generator.generate_span_id(), False, flags, state))
        span = self._made(name, parent, trace_id, flags, state, attributes)
        if taken is not attributes or len(attributes) > self._most_attributes:
            # Values may have to be shortened or dropped, or come from a sampler: the SDK's class does that.
            limits = tracer._span_limits
            span._bounded = BoundedAttributes(
                limits.max_span_attributes, taken, False, limits.max_span_attribute_length
            )
        if self._begun:
            if operation is not None:
                context = trace.set_span_in_context(operation)
            for processor in self._begun:
                processor.on_start(span, parent_context=context)
        return span

    def _made(
        self,
        name: str,
        parent: SpanContext | None,
        trace_id: int,
        flags: TraceFlags,
        state: TraceState | None,
        attributes: dict[str, Any],
    ) -> _Span:
        """Return a span that begins now and keeps `attributes` without a copy."""
        if self._makes_random:
            span_id = getrandbits(64) or self._generator.generate_span_id()
        else:
            span_id = self._generator.generate_span_id()
        span = _new(_Span)
        span._maker = self
        span._name = name
        if state is not None and (
            self._makes_random or (0 < trace_id <= _MOST_TRACE_ID and 0 < span_id <= _MOST_SPAN_ID)
        ):
            # The same as its `__new__` makes; `_is_equal` has compared them.
            span._context = _new_tuple(SpanContext, (trace_id, span_id, False, flags, state, True))
        else:
            span._context = SpanContext(trace_id, span_id, False, flags, state)
        span._parent = parent
        span._plain = attributes
        span._start_time = time_ns()
        return span

    def _is_noted(self) -> bool:
        """Return whether the tracer is unchanged since `_note`."""
        tracer = self._tracer
        processor = tracer.span_processor
        return (
            processor is self._processor
            and (self._parts is None or processor._span_processors is self._parts)
            and tracer.sampler is self._sampler
            and tracer.id_generator is self._generator
            and tracer._span_limits is self._limits
        )

    def _note(self) -> None:
        """Remember the tracer's attributes, and the values derived from them."""
        tracer = self._tracer
        self._processor = processor = tracer.span_processor
        parts: Any = getattr(processor, "_span_processors", None)
        self._parts = parts
        is_loop = type(processor) is sdk.SynchronousMultiSpanProcessor
        # The processors of a span that do something when it begins, is about to end, and ends.
        self.ended = parts if is_loop else (processor,)
        self._begun = [part for part in self.ended if getattr(part.on_start, "__func__", None) not in _IDLE]
        self.ending = [part for part in self.ended if getattr(part._on_ending, "__func__", None) not in _IDLE]
        self._limits = limits = tracer._span_limits
        most = math.inf if limits.max_span_attributes is None else limits.max_span_attributes
        # -1 where values may be shortened.
        self._most_attributes = most if limits.max_span_attribute_length is None else -1
        self._generator = tracer.id_generator
        self._makes_random = type(tracer.id_generator) is RandomIdGenerator
        # The sampler's decisions that depend only on the parent.
        self._sampler = sampler = tracer.sampler
        by_parent = type(sampler) is ParentBased
        self._refuses_all = sampler is ALWAYS_OFF
        self._refuses_roots = self._refuses_all or (by_parent and sampler._root is ALWAYS_OFF)
        self._refuses_below_unsampled = self._refuses_all or (
            by_parent
            and sampler._remote_parent_not_sampled is ALWAYS_OFF
            and sampler._local_parent_not_sampled is ALWAYS_OFF
        )
        # Whether it takes roots, and spans below sampled ones, with unchanged attributes.
        self._takes_below_sampled = sampler is ALWAYS_ON or (
            by_parent
            and sampler._root is ALWAYS_ON
            and sampler._remote_parent_sampled is ALWAYS_ON
            and sampler._local_parent_sampled is ALWAYS_ON
        )
        # Whether starting a span is nothing more than making it with all attributes.
        self._is_plain = (
            self._takes_below_sampled
            and self._makes_random
            and self._most_attributes >= _MOST_ATTRIBUTES
            and bool(self.ended)
            and not self._begun
        )


if sdk is not None:
    # The processors' methods that do nothing with a span that begins or is about to end.
    _IDLE = frozenset(
        method
        for kind in (sdk.SpanProcessor, BatchSpanProcessor, SimpleSpanProcessor)
        for method in (kind.on_start, kind._on_ending)
    )

    class _Span(sdk.Span):
        """A span of the SDK that makes most of its fields when they are read."""

        _maker: SpanMaker
        # Fields that never or seldom change.
        _end_time = None
        _events = ()
        _links = ()
        _status = trace.Status(trace.StatusCode.UNSET)
        _kind = _CLIENT
        _trace_config = None
        _record_exception = True
        _set_status_on_exception = True
        _record_end_metrics = None
        # The source of `_attributes`; then `_attributes` and `_lock`, once they were read.
        _plain: dict[str, Any] | None = None
        _bounded: Any = None
        _locked: Any = None

        def _make_lock(self) -> Any:
            return self._locked or self.__dict__.setdefault("_locked", Lock())

        def _make_attributes(self) -> Any:
            if self._bounded is None:
                made: Any = BoundedAttributes(self._limits.max_span_attributes, None, False)
                made._dict = self._plain
                made._immutable = self._end_time is not None
                self.__dict__.setdefault("_bounded", made)
            return self._bounded

        _lock: Any = property(_make_lock)
        _attributes: Any = property(_make_attributes)
        _sampler: Any = property(lambda self: self._maker._tracer.sampler)
        _resource: Any = property(lambda self: self._maker._tracer.resource)
        _span_processor: Any = property(lambda self: self._maker._tracer.span_processor)
        _limits: Any = property(lambda self: self._maker._tracer._span_limits)
        _instrumentation_info: Any = property(lambda self: self._maker._tracer.instrumentation_info)
        _instrumentation_scope: Any = property(lambda self: self._maker._tracer._instrumentation_scope)

        def _add_event(self, event: Any) -> None:
            if not self._events:
                self._events = self._new_events()  # type: ignore[no-untyped-call]  # the SDK's own
            super()._add_event(event)

        def _add_link(self, link: Any) -> None:
            if not self._links:
                self._links = self._new_links(())
            super()._add_link(link)

        def end(self, end_time: int | None = None) -> None:
            if self._locked is None and self._end_time is None:
                # The lock was never read, so only the tracer knows this span.
                self._end_time = time_ns() if end_time is None else end_time
            else:
                with self._lock:
                    is_first = self._end_time is None
                    if is_first:
                        self._end_time = time_ns() if end_time is None else end_time
                if not is_first:
                    # The SDK logs a warning.
                    super().end(end_time)
                    return
            if self._bounded is not None:
                self._bounded._immutable = True
            maker = self._maker
            processor = maker._tracer.span_processor
            if processor is not maker._processor or (
                maker._parts is not None and processor._span_processors is not maker._parts
            ):
                maker._note()
            for processor in maker.ending:
                processor._on_ending(self)
            for processor in maker.ended:
                # The SDK passes a copy; this span has ended, so it cannot change any more.
                processor.on_end(self)


class _Kept:
    """A span processor that keeps spans."""

    def __init__(self) -> None:
        self._span_processors = (self,)
        self.ended: list[Any] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Do nothing with a span that has begun."""

    def _on_ending(self, span: Any) -> None:
        """Do nothing with a span that is about to end."""

    def on_end(self, span: Any) -> None:
        """Keep the span."""
        self.ended.append(span)


# Fields that differ between any two spans, or that only one of the two makers sets.
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
    """Return whether a span of this tracer has the same fields when the SDK makes it as when it is made here."""
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
    if SpanContext(*ours[0].context.__getnewargs__()) != ours[0].context:
        return False
    return shown[:2] == shown[2:] and all(
        getattr(own, field) == value
        for their, own in zip(theirs, ours, strict=True)
        for field, value in vars(their).items()
        if field not in _OF_ONE
    )


def _shown(span: Any) -> tuple[Any, ...]:
    """Return the values that an exporter reads of a span, without random ids and times."""
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
