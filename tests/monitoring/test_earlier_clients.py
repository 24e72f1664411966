"""Integrations that are enabled when clients exist already: they see those clients, or an error says otherwise."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest

from mangonel import MongoClient, monitoring
from mangonel.contrib._hearing import hear_every_client
from mangonel.server import Server
from mangonel.testing import Commands
from monitoring.conftest import Connect
from tools.faces import Face


def test_a_listener_hears_the_clients_that_exist_and_later_ones_once(
    face: Face, connect: Connect, database_name: str
) -> None:
    earlier = connect()[database_name].things
    heard = Commands()
    hear_every_client(heard)
    try:
        later = connect()[database_name].things
        face.run(lambda: earlier.find_one({"n": 1}))
        face.run(lambda: later.find_one({"n": 2}))
        assert [command["filter"] for command in heard.commands] == [{"n": 1}, {"n": 2}]
    finally:
        monitoring._registered.remove(heard)


SENTRY = """
import sys, sentry_sdk
from mangonel import MongoClient
from mangonel.contrib.sentry import MangonelIntegration
from sentry_sdk.transport import Transport

sent = []
class Kept(Transport):
    def capture_envelope(self, envelope):
        sent.extend(item.payload.json for item in envelope.items if item.type == "transaction")

with MongoClient(sys.argv[1]) as client:
    sentry_sdk.init(
        dsn="http://a@127.0.0.1/1", transport=Kept, traces_sample_rate=1.0, default_integrations=False,
        integrations=[MangonelIntegration()],
    )
    with sentry_sdk.start_transaction(name="work"):
        client[sys.argv[2]].things.find_one()
print([span["op"] for span in sent[0]["spans"]])
"""


def test_sentry_gets_spans_of_a_client_that_was_made_before_it(server: Server, database_name: str) -> None:
    pytest.importorskip("sentry_sdk")
    done = subprocess.run(
        [sys.executable, "-c", SENTRY, server.uri, database_name], capture_output=True, text=True, timeout=100
    )
    assert done.stdout == "['db']\n", done.stderr


def test_the_instrumentor_says_that_earlier_clients_make_no_spans(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("opentelemetry.instrumentation")
    from mangonel.contrib.opentelemetry import MangonelInstrumentor

    instrumentor = MangonelInstrumentor()
    with MongoClient[Any]("mongodb://127.0.0.1:1", connect=False), caplog.at_level(logging.WARNING):
        instrumentor.instrument()
        instrumentor.uninstrument()
    assert "clients that were made before instrument() make no spans, and there are " in caplog.text


def test_the_instrumentor_names_the_arguments_that_it_ignores(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("opentelemetry.instrumentation")
    from mangonel.contrib.opentelemetry import MangonelInstrumentor

    instrumentor = MangonelInstrumentor()
    with caplog.at_level(logging.WARNING):
        instrumentor.instrument(tracer_provder=None, skip_dep_check=True)
        instrumentor.uninstrument()
    assert "query_text_values and meter_provider, and ignores tracer_provder\n" in caplog.text
