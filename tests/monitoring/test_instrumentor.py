"""OpenTelemetry's instrumentor: every client makes spans while it is on."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.instrumentation")

from mangonel.contrib.opentelemetry import MangonelInstrumentor
from monitoring.conftest import Connect
from monitoring.test_spans import Spans
from tools.faces import Face


def test_clients_make_spans_while_it_is_on(face: Face, connect: Connect, database_name: str) -> None:
    spans = Spans()
    instrumentor = MangonelInstrumentor()
    instrumentor.instrument(tracer_provider=spans.provider)
    try:
        things = connect()[database_name]["things"]
        silent = connect(tracing=False)[database_name]["things"]
    finally:
        instrumentor.uninstrument()
    later = connect()[database_name]["things"]
    for each in (things, silent, later):
        face.run(lambda each=each: each.find_one({"x": 1}))

    assert spans.tree() == [(f"find {database_name}.things", [("find", [])])]


def test_the_entry_point_names_it() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["opentelemetry_instrumentor"]["mangonel"].partition(":")

    assert getattr(import_module(module), name) is MangonelInstrumentor
