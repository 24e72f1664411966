"""OpenTelemetry's instrumentor: every client makes spans while it is enabled."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.instrumentation")

from mangonel.contrib.opentelemetry import MangonelInstrumentor
from mangonel.server import Server
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


# A program without OpenTelemetry code, except for the exporter: the agent's own configuration is another distribution.
PROGRAM = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from mangonel import MongoClient

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
with MongoClient(sys.argv[1]) as client:
    client[sys.argv[2]].things.find_one({"x": 1})
print(sorted(span.name for span in exporter.get_finished_spans() if "find" in span.name))
"""


@pytest.fixture
def distribution(tmp_path: Path) -> Path:
    """A folder with an installation's metadata; the development environment has the package without it."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    metadata = tmp_path / "mangonel-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mangonel\nVersion: 0\n")
    group = "opentelemetry_instrumentor"
    lines = [f"{name} = {value}" for name, value in project["entry-points"][group].items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
    return tmp_path


@pytest.mark.parametrize(
    ("disabled", "names"), [("", ["find", "find {0}.things"]), ("mangonel", [])], ids=["found", "disabled"]
)
def test_auto_instrumentation_finds_it(
    disabled: str, names: list[str], distribution: Path, server: Server, database_name: str
) -> None:
    agent = Path(sysconfig.get_path("scripts")) / "opentelemetry-instrument"
    done = subprocess.run(
        [sys.executable, agent, sys.executable, "-c", PROGRAM, server.uri, database_name],
        env={
            **os.environ,
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": disabled,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(distribution), os.environ.get("PYTHONPATH")])),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([name.format(database_name) for name in names]), done.stderr
