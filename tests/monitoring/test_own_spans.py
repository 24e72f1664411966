"""Spans that are made in place of the SDK's: an exporter reads the same from them as from the SDK's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

sdk = pytest.importorskip("opentelemetry.sdk.trace")
from opentelemetry import trace  # noqa: E402
from opentelemetry.sdk.resources import Resource  # noqa: E402
from opentelemetry.sdk.trace import sampling  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

from mangonel._observe import own_spans, tracing  # noqa: E402
from mangonel.server import Server  # noqa: E402
from monitoring.conftest import Connect  # noqa: E402
from tools.faces import Face  # noqa: E402

ATTRIBUTES = {"db.system.name": "mongodb", "db.namespace": "shop", "server.port": 27017, "text": "x" * 40}


class Counting:
    """Generates consecutive ids."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)

    def generate_trace_id(self) -> int:
        return next(self._ids) << 64

    def generate_span_id(self) -> int:
        return next(self._ids)

    def is_trace_id_random(self) -> bool:
        return True


class Changing(sdk.SpanProcessor):  # type: ignore[misc]
    """A processor that changes every span in every possible way."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        span.set_attribute(
            "of the processor", trace.get_current_span(parent_context).get_span_context().span_id
        )
        span.add_event("begun", {"n": 1}, 5)
        span.add_link(trace.SpanContext(7, 8, is_remote=True), {"m": 2})
        span.update_name(span.name + "!")

    def _on_ending(self, span: Any) -> None:
        span.set_attribute("ending", True)


class Adding(sampling.Sampler):  # type: ignore[misc]
    """A sampler that adds to each span and drops those named "dropped"."""

    def should_sample(self, parent_context: Any, trace_id: int, name: str, *rest: Any, **more: Any) -> Any:
        if name == "dropped":
            return sampling.SamplingResult(sampling.Decision.DROP)
        state = trace.TraceState([("vendor", "1")])
        decision = sampling.Decision.RECORD_ONLY if name == "unsent" else sampling.Decision.RECORD_AND_SAMPLE
        return sampling.SamplingResult(decision, {**ATTRIBUTES, "sampler": ["a", "b"]}, state)

    def get_description(self) -> str:
        return "adds"


PROVIDERS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "resource": lambda: {"resource": Resource({"service.name": "shop"})},
    "few attributes": lambda: {"span_limits": sdk.SpanLimits(max_span_attributes=2, max_events=1)},
    "no attributes": lambda: {"span_limits": sdk.SpanLimits(max_attributes=0)},
    "short values": lambda: {"span_limits": sdk.SpanLimits(max_attribute_length=3)},
    "always": lambda: {"sampler": sampling.ALWAYS_ON},
    "never": lambda: {"sampler": sampling.ALWAYS_OFF},
    "root never": lambda: {"sampler": sampling.ParentBased(sampling.ALWAYS_OFF)},
    "remote never": lambda: {
        "sampler": sampling.ParentBased(sampling.ALWAYS_ON, remote_parent_sampled=sampling.ALWAYS_OFF)
    },
    "recorded": lambda: {"sampler": sampling.AlwaysRecordSampler(sampling.ALWAYS_OFF)},
    "ratio": lambda: {"sampler": sampling.TraceIdRatioBased(0.5)},
    "adding": lambda: {"sampler": Adding()},
    "changing": lambda: {"active_span_processor": _with(sdk.SynchronousMultiSpanProcessor(), Changing())},
    "concurrent": lambda: {"active_span_processor": _with(sdk.ConcurrentMultiSpanProcessor(), Changing())},
}
# Their samplers read more than the parent.
MAYBE = ("ratio", "adding", "remote never")
PARENTS: dict[str, Any] = {
    "none": None,
    "local": trace.SpanContext(5 << 64, 6, False, trace.TraceFlags(1)),
    "remote": trace.SpanContext(5 << 64, 6, True, trace.TraceFlags(3), trace.TraceState([("a", "b")])),
    "not sampled": trace.SpanContext(5 << 64, 6, False, trace.TraceFlags(0)),
    "remote, not sampled": trace.SpanContext(5 << 64, 6, True, trace.TraceFlags(2)),
}


def _with(processor: Any, other: Any) -> Any:
    processor.add_span_processor(other)
    return processor


def provider_of(kind: str, exporter: Any) -> Any:
    """Return a provider of this kind with consecutive ids."""
    provider = sdk.TracerProvider(shutdown_on_exit=False, id_generator=Counting(), **PROVIDERS[kind]())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def play(start: Callable[..., Any], context: Any, start_below: Callable[..., Any] | None = None) -> list[Any]:
    """Make spans of every kind; return the exported form of each.

    Args:
        start: makes a span, as the tracer's method does.
        context: where the outer span's parent is.
        start_below: makes a span below another. None: `start` does, too.
    """
    shown = []
    outer = start("find shop.things", context, trace.SpanKind.CLIENT, ATTRIBUTES)
    inside = trace.set_span_in_context(outer)
    for name in ("find", "dropped", "unsent"):
        if start_below is not None:
            span = start_below(outer, name, ATTRIBUTES.copy())
        else:
            span = start(name, inside, trace.SpanKind.CLIENT, ATTRIBUTES)
        shown.append((span.is_recording(), span.get_span_context()))
        span.set_attributes({"db.response.status_code": "11000", "text": "y" * 10})
        span.set_attribute("db.mongodb.cursor_id", 5)
        span.add_event("e", {"k": "v" * 10}, 9)
        span.add_event("f", None, 10)
        span.set_status(trace.Status(trace.StatusCode.ERROR, "refused"))
        span.end()
        span.end()
        span.set_attribute("late", 1)
        shown.append(span.is_recording())
    outer.record_exception(ValueError("x"), timestamp=3)
    outer.end()
    return shown


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Set the clock of both makers back."""

    def reset() -> None:
        clock = itertools.count(1_000_000_000)
        monkeypatch.setattr(sdk, "time_ns", lambda: next(clock))
        monkeypatch.setattr(own_spans, "time_ns", lambda: next(clock))

    return reset


@pytest.mark.parametrize("parent", PARENTS)
@pytest.mark.parametrize("kind", PROVIDERS)
def test_span_is_exported_as_the_sdk_exports_its_own(
    kind: str, parent: str, ticks: Callable[[], None]
) -> None:
    context = None
    if PARENTS[parent] is not None:
        context = trace.set_span_in_context(trace.NonRecordingSpan(PARENTS[parent]))
    seen = []
    for way in ("the SDK's", "spans", "an operation and its commands"):
        exporter = InMemorySpanExporter()
        tracer = provider_of(kind, exporter).get_tracer("mangonel", "1.2")
        start, start_below = tracer.start_span, None
        if way != "the SDK's":
            maker = own_spans.maker_of(tracer)
            assert maker is not None
            # Give back the ids that the comparison used.
            tracer.id_generator.__init__()
            start = maker.start_span
            if way != "spans":
                start_below = maker.start_command
            with trace.use_span(trace.get_current_span(context)):
                # Whatever it refuses without an id, the SDK refuses too; that covers most cases.
                may_record = maker.may_record(trace.get_current_span().get_span_context())
                is_recording = tracer.start_span("find").is_recording()
            assert may_record or not is_recording
            assert may_record == is_recording or kind in MAYBE
            tracer.id_generator.__init__()
        ticks()
        shown = play(start, context, start_below)
        spans = exporter.get_finished_spans()
        dropped = [(s.dropped_attributes, s.dropped_events, s.dropped_links) for s in spans]
        # The order of comparison: JSON as exported first, then the fields that it leaves out.
        rest = [(s.parent, s.instrumentation_scope, s.get_span_context().trace_flags) for s in spans]
        seen.append((shown, [span.to_json() for span in spans], dropped, rest))
    theirs, *ours = seen
    assert ours == [theirs, theirs]


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    yield exporter
    exporter.shutdown()


def test_operations_show_the_same_of_both(
    face: Face,
    connect: Connect,
    exporter: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
    database_name: str,
) -> None:
    def spans() -> list[Any]:
        exporter.clear()
        provider = provider_of("plain", exporter)
        things = connect(tracing={"tracer_provider": provider, "enabled": True})[database_name]["things"]
        face.run(lambda: things.insert_many([{"x": 1}, {"x": 2}]))
        face.run(lambda: things.find_one({"x": 1}))
        with pytest.raises(Exception, match="badly"):
            face.run(lambda: things.find_one({"$badly": 1}))
        found = list(exporter.get_finished_spans())
        face.run(lambda: things.drop())
        return found

    def shown(span: Any) -> tuple[Any, ...]:
        varying = ("db.mongodb.driver_connection_id", "db.mongodb.server_connection_id", "db.mongodb.lsid")
        told = [(name, "" if name in varying else value) for name, value in span.attributes.items()]
        return span.name, span.kind, span.status.status_code, span.status.description, told

    ours = spans()
    monkeypatch.setattr(tracing, "maker_of", lambda tracer: None)
    theirs = spans()
    assert len(ours) == 6
    assert not any(type(span) is sdk.ReadableSpan for span in ours)
    assert all(type(span) is sdk.ReadableSpan for span in theirs)
    assert [shown(span) for span in ours] == [shown(span) for span in theirs]


def test_strangers_tracer_keeps_its_own_spans() -> None:
    class Stranger(sdk.Tracer):  # type: ignore[misc]
        pass

    tracer = provider_of("plain", InMemorySpanExporter()).get_tracer("mangonel")
    assert own_spans.maker_of(tracer) is not None
    tracer.__class__ = Stranger
    assert own_spans.maker_of(tracer) is None
    assert own_spans.maker_of(trace.NoOpTracer()) is None


@pytest.mark.parametrize("change", ["a new field", "another default", "a field that is gone"])
def test_sdk_that_differs_keeps_its_own_spans(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tracer = provider_of("plain", InMemorySpanExporter()).get_tracer("mangonel")
    begin = sdk.Span.__init__

    def changed(span: Any, *args: Any, **kwargs: Any) -> None:
        begin(span, *args, **kwargs)
        if change == "a new field":
            span._newly = "needed"
        elif change == "another default":
            span._record_exception = 7

    if change == "a field that is gone":
        del tracer._span_limits
    else:
        monkeypatch.setattr(sdk.Span, "__init__", changed)
    assert own_spans.maker_of(tracer) is None


def test_provider_without_a_processor_records_nothing_until_it_has_one(
    face: Face, connect: Connect, exporter: InMemorySpanExporter, server: Server, database_name: str
) -> None:
    ids = Counting()
    provider = sdk.TracerProvider(shutdown_on_exit=False, id_generator=ids)
    things = connect(tracing={"tracer_provider": provider, "enabled": True})[database_name]["things"]
    used = ids.generate_span_id()
    face.run(lambda: things.find_one({"x": 1}))
    assert ids.generate_span_id() == used + 1

    provider.add_span_processor(SimpleSpanProcessor(exporter))
    face.run(lambda: things.find_one({"x": 1}))
    assert [span.name for span in exporter.get_finished_spans()] == ["find", f"find {database_name}.things"]


def test_sampler_that_is_exchanged_is_asked(exporter: InMemorySpanExporter) -> None:
    tracer = provider_of("plain", exporter).get_tracer("mangonel")
    maker = own_spans.maker_of(tracer)
    assert maker is not None
    tracer.sampler = sampling.ALWAYS_OFF
    assert not maker.start_span("find", None, trace.SpanKind.CLIENT, ATTRIBUTES).is_recording()


def test_sampler_that_is_exchanged_inside_an_operation_is_told_the_operation(
    exporter: InMemorySpanExporter,
) -> None:
    class Asking(Adding):
        def should_sample(self, parent_context: Any, *rest: Any, **more: Any) -> Any:
            parents.append(trace.get_current_span(parent_context).get_span_context())
            return super().should_sample(parent_context, *rest, **more)

    parents: list[Any] = []
    tracer = provider_of("plain", exporter).get_tracer("mangonel")
    maker = own_spans.maker_of(tracer)
    assert maker is not None
    operation = maker.start_operation("find shop.things", ATTRIBUTES)
    assert operation is not None
    tracer.sampler = Asking()
    maker.start_command(operation, "find", ATTRIBUTES)
    assert parents == [operation.get_span_context()]


def test_tracer_that_is_switched_off_records_nothing(exporter: InMemorySpanExporter) -> None:
    provider = provider_of("plain", exporter)
    tracer = provider.get_tracer("mangonel")
    maker = own_spans.maker_of(tracer)
    assert maker is not None
    provider._set_tracer_configurator(tracer_configurator=sdk._disable_tracer_configurator)
    span = maker.start_span("find", None, trace.SpanKind.CLIENT, ATTRIBUTES)
    assert not span.is_recording()
    assert span.get_span_context() == tracer.start_span("find").get_span_context()
