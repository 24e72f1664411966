"""Every entry point around the driver refuses a wrong argument with an error of its own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

import mangonel
from mangonel import MongoClient, monitoring, testing

pytest.importorskip("opentelemetry.instrumentation")
pytest.importorskip("sentry_sdk")
prometheus_client = pytest.importorskip("prometheus_client")

from mangonel.contrib import elastic, opentelemetry, prometheus, sentry  # noqa: E402

CLIENT = 'expected a MongoClient or an AsyncMongoClient for "{}", got {}'
LISTENERS = "must be either a CommandListener, .* not <class '{}'>"


@pytest.fixture(scope="module")
def client() -> Any:
    """A client that never connects."""
    with MongoClient[Any]("mongodb://127.0.0.1:1", connect=False) as made:
        yield made


def counting(*arguments: Any, **keywords: Any) -> None:
    """Enter the context manager."""
    with testing.count_commands(*arguments, **keywords):
        pass


def instrumenting(**keywords: Any) -> None:
    """Enable the instrumentor."""
    opentelemetry.MangonelInstrumentor().instrument(**keywords)


# Each entry point, called with the client and a wrong value, and its error message.
WRONG: list[tuple[str, Callable[[Any, Any], Any], str]] = [
    ("prometheus.measure", lambda _, wrong: prometheus.measure(wrong), CLIENT.format("client", "{}")),
    (
        "prometheus.measure",
        lambda client, wrong: prometheus.measure(client, wrong),
        'expected a prometheus_client.CollectorRegistry for "registry", got {}',
    ),
    (
        "prometheus.MangonelCollector",
        lambda _, wrong: prometheus.MangonelCollector(wrong),
        CLIENT.format("client", "{}"),
    ),
    ("opentelemetry.measure", lambda _, wrong: opentelemetry.measure(wrong), CLIENT.format("client", "{}")),
    (
        "opentelemetry.measure",
        lambda client, wrong: opentelemetry.measure(client, wrong),
        'expected an OpenTelemetry MeterProvider for "meter_provider", got {}',
    ),
    (
        "opentelemetry.MangonelInstrumentor",
        lambda _, wrong: instrumenting(meter_provider=wrong),
        'expected an OpenTelemetry MeterProvider for "meter_provider", got {}',
    ),
    (
        "opentelemetry.MangonelInstrumentor",
        lambda _, wrong: instrumenting(tracer_provider=wrong),
        "expected a TracerProvider for tracer_provider, got {}",
    ),
    (
        "opentelemetry.MangonelInstrumentor",
        lambda _, wrong: instrumenting(query_text_max_length=wrong),
        "query_text_max_length",
    ),
    (
        "opentelemetry.MangonelInstrumentor",
        lambda _, wrong: instrumenting(query_text_values=wrong),
        "expected a bool for query_text_values, got {}",
    ),
    ("monitoring.register", lambda _, wrong: monitoring.register(wrong), LISTENERS),
    ("testing.count_commands", lambda _, wrong: counting(wrong), CLIENT.format("clients", "{}")),
    (
        "testing.count_commands",
        lambda client, wrong: counting(client, at_most=wrong),
        'expected an int for "at_most", got {}',
    ),
    (
        "testing.Commands",
        lambda _, wrong: testing.Commands().check(wrong),
        'expected an int for "at_most", got {}',
    ),
]


@pytest.mark.parametrize(
    "wrong", ["text", {"a": 1}, b"\x00", object()], ids=lambda wrong: type(wrong).__name__
)
@pytest.mark.parametrize(
    ("name", "call", "said"), WRONG, ids=[f"{name}-{n}" for n, (name, *_) in enumerate(WRONG)]
)
def test_a_wrong_argument_is_named_with_its_type(
    client: Any, name: str, call: Callable[[Any, Any], Any], said: str, wrong: Any
) -> None:
    with pytest.raises((TypeError, ValueError), match=said.format(type(wrong).__name__)):
        call(client, wrong)


def test_a_database_is_no_client_and_the_message_says_where_its_client_is(client: Any) -> None:
    with pytest.raises(TypeError, match=r"got Database; .* take a database's \.client"):
        prometheus.measure(client.shop)


def test_what_was_refused_leaves_nothing_behind(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not the messages that other tests left.
    monkeypatch.setattr(opentelemetry, "_meters", {})
    registered, registries = list(monitoring._registered), dict(prometheus._of_registries)
    for _, call, _ in WRONG:
        with pytest.raises((TypeError, ValueError)):
            call(client, object())
    assert monitoring._registered == registered
    assert opentelemetry._meters == {}
    assert prometheus._of_registries == registries
    assert not opentelemetry.MangonelInstrumentor().is_instrumented_by_opentelemetry
    with mangonel.MongoClient[Any]("mongodb://127.0.0.1:1", connect=False) as later:
        assert later._listeners.tracer is None


def test_the_table_has_every_public_name() -> None:
    tried = {name for name, *_ in WRONG}
    # These take no arguments, receive theirs from the package, or are events and listener bases.
    plain = {"sentry.MangonelIntegration", "testing.TooManyCommands"}
    for module in (prometheus, opentelemetry, sentry, testing, monitoring):
        short = module.__name__.rpartition(".")[2]
        for name in module.__all__:
            if name.endswith(("Event", "Listener", "Reason")):
                continue
            assert f"{short}.{name}" in tried | plain, name


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("prometheus", "prometheus_client"),
        ("opentelemetry", "opentelemetry.instrumentation.instrumentor"),
        ("sentry", "sentry_sdk"),
        ("django", "django.apps"),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"mangonel.contrib.{module}", raising=False)
    with pytest.raises(ImportError, match=rf"mangonel\.contrib\.{module} needs .*: pip install "):
        importlib.import_module(f"mangonel.contrib.{module}")


def test_elastic_is_asked_for_when_it_is_switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "elasticapm", None)
    with pytest.raises(ImportError, match="pip install elastic-apm"):
        elastic.instrument()
