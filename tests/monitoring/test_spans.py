"""OpenTelemetry spans: an operation, its commands below it, a transaction around them."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import pytest

from mangonel import DeleteOne, InsertOne, MongoClient, errors
from mangonel.server import Server
from monitoring.conftest import Connect
from monitoring.test_commands import fail_next
from tools.faces import Face, eventually
from tools.scripted_server import Hang, ScriptedServer

trace = pytest.importorskip("opentelemetry.sdk.trace")
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402


class Spans:
    """Return the finished spans of clients that get `option`."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = trace.TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def option(self, **fields: Any) -> dict[str, Any]:
        return {"enabled": True, "tracer_provider": self.provider, **fields}

    @property
    def all(self) -> list[Any]:
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time)

    def tree(self, root: Any = None) -> list[Any]:
        """Return names with the trees below them, oldest first."""
        wanted = None if root is None else root.context.span_id
        found = [s for s in self.all if (s.parent.span_id if s.parent else None) == wanted]
        return [(span.name, self.tree(span)) for span in found]

    def clear(self) -> None:
        self._exporter.clear()


@pytest.fixture
def spans() -> Spans:
    return Spans()


def test_command_is_below_its_operation(
    face: Face, connect: Connect, spans: Spans, database_name: str
) -> None:
    things = connect(tracing=spans.option())[database_name]["things"]
    face.run(lambda: things.find_one({"x": 1}))

    summary = f"find {database_name}.things"
    assert spans.tree() == [(summary, [("find", [])])]
    operation, command = spans.all
    assert operation.attributes == {
        "db.system.name": "mongodb",
        "db.namespace": database_name,
        "db.collection.name": "things",
        "db.operation.name": "find",
        "db.operation.summary": summary,
    }
    told = dict(command.attributes)
    for number in ("server.port", "db.mongodb.server_connection_id", "db.mongodb.driver_connection_id"):
        assert isinstance(told.pop(number), int)
    assert len(told.pop("db.mongodb.lsid")) == 36
    assert told == {
        "db.system.name": "mongodb",
        "db.namespace": database_name,
        "db.collection.name": "things",
        "db.command.name": "find",
        "db.query.summary": summary,
        "server.address": "127.0.0.1",
        "network.transport": "tcp",
    }


def test_query_text_is_shown_as_far_as_asked_and_without_what_every_command_has(
    face: Face, connect: Connect, spans: Spans, database_name: str
) -> None:
    things = connect(tracing=spans.option(query_text_max_length=1000))[database_name]["things"]
    face.run(lambda: things.find_one({"x": 1}))
    text = spans.all[1].attributes["db.query.text"]
    short = connect(tracing=spans.option(query_text_max_length=9))[database_name]["things"]
    spans.clear()
    face.run(lambda: short.find_one({"x": 1}))

    assert text == '{"find":"things","filter":{"x":1},"limit":1,"singleBatch":true}'
    assert spans.all[1].attributes["db.query.text"] == '{"find":"...'


def test_retry_is_a_second_command_below_the_same_operation(
    face: Face, connect: Connect, server: Server, spans: Spans, database_name: str
) -> None:
    things = connect(tracing=spans.option())[database_name]["things"]
    face.run(lambda: things.find_one({}))
    spans.clear()
    fail_next(server, "find", errorCode=89)
    face.run(lambda: things.find_one({}))

    assert spans.tree() == [(f"find {database_name}.things", [("find", []), ("find", [])])]
    operation, first, second = spans.all
    assert first.attributes["db.response.status_code"] == "89"
    assert first.attributes["exception.type"] == "OperationFailure"
    assert first.attributes["error.type"] == "OperationFailure"
    assert not first.status.is_ok
    assert "exception.type" not in second.attributes
    assert "exception.type" not in operation.attributes


def test_operation_that_fails_says_why(face: Face, connect: Connect, spans: Spans) -> None:
    client = connect(tracing=spans.option())
    with pytest.raises(errors.OperationFailure):
        face.run(lambda: client.admin.command("nope"))

    operation, command = spans.all
    assert (operation.name, command.name) == ("nope admin", "nope")
    for span in (operation, command):
        assert span.attributes["exception.message"] == "no such command: 'nope'"
        assert not span.status.is_ok


def test_write_that_is_refused_in_an_answer_fails_its_operation(
    face: Face, connect: Connect, spans: Spans, database_name: str
) -> None:
    things = connect(tracing=spans.option())[database_name]["things"]
    face.run(lambda: things.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 2}]))
    face.run(lambda: things.create_index("n", unique=True))
    writes = {
        "insert": lambda: things.insert_one({"_id": 1, "note": "private"}),
        "update": lambda: things.update_one({"_id": 1}, {"$set": {"n": 2}}),
        "findAndModify": lambda: things.find_one_and_update({"_id": 1}, {"$set": {"n": 2}}),
    }
    for name, write in writes.items():
        spans.clear()
        with pytest.raises(errors.DuplicateKeyError):
            face.run(write)

        assert spans.tree() == [(f"{name} {database_name}.things", [(name, [])])]
        operation, command = spans.all
        assert not operation.status.is_ok, name
        # The server ran the command.
        assert command.status.is_ok == (name != "findAndModify"), name
        assert operation.attributes["error.type"] == "DuplicateKeyError" or name == "findAndModify", name
        assert operation.attributes["db.response.status_code"] == "11000", name
        assert "private" not in operation.to_json()


def test_operation_that_finds_no_server_has_no_command(face: Face, spans: Spans, nowhere: str) -> None:
    client = face.client(nowhere, serverSelectionTimeoutMS=50, tracing=spans.option())
    with pytest.raises(errors.ServerSelectionTimeoutError):
        face.run(lambda: client.admin.command("ping"))

    assert spans.tree() == [("ping admin", [])]
    assert spans.all[0].attributes["exception.type"] == "ServerSelectionTimeoutError"


def test_open_cursor_is_named(face: Face, connect: Connect, spans: Spans, database_name: str) -> None:
    things = connect(tracing=spans.option())[database_name]["things"]
    face.run(lambda: things.insert_many([{} for _ in range(3)]))
    spans.clear()
    face.collect(things.find({}, batch_size=2))

    find, get_more = (span for span in spans.all if span.name in ("find", "getMore"))
    assert find.attributes["db.mongodb.cursor_id"] > 0
    assert "db.mongodb.cursor_id" not in get_more.attributes
    assert get_more.attributes["db.collection.name"] == "things"


def test_operations_of_a_transaction_are_below_its_span(
    face: Face, connect: Connect, spans: Spans, database_name: str
) -> None:
    client = connect(tracing=spans.option())
    things = client[database_name]["things"]
    face.run(lambda: things.insert_one({"_id": 0}))
    spans.clear()
    session = client.start_session()
    session.start_transaction()
    face.run(lambda: things.insert_one({"_id": 1}, session=session))
    face.run(session.commit_transaction)
    face.run(lambda: things.find_one({"_id": 1}))
    face.run(session.end_session)

    assert spans.tree()[:2] == [
        (
            "transaction",
            [
                (f"insert {database_name}.things", [("insert", [])]),
                ("commitTransaction admin", [("commitTransaction", [])]),
            ],
        ),
        (f"find {database_name}.things", [("find", [])]),
    ]
    insert = next(span for span in spans.all if span.name == "insert")
    assert insert.attributes["db.mongodb.txn_number"] >= 1


def test_the_end_of_a_transaction_without_commands_has_no_span(
    face: Face, connect: Connect, spans: Spans
) -> None:
    session = connect(tracing=spans.option()).start_session()
    for end in (session.commit_transaction, session.abort_transaction):
        session.start_transaction()
        face.run(end)
    face.run(session.end_session)

    assert spans.tree() == [("transaction", []), ("transaction", [])]


def test_commands_of_a_bulk_write_are_below_one_span(
    face: Face, connect: Connect, spans: Spans, database_name: str
) -> None:
    things = connect(tracing=spans.option())[database_name]["things"]
    mixed = [InsertOne({"_id": 1}), DeleteOne({"_id": 1}), InsertOne({"_id": 1})]
    face.run(lambda: things.bulk_write(mixed))
    face.run(lambda: things.insert_many([{"_id": 2}, {"_id": 3}]))

    assert spans.tree() == [
        (f"bulkWrite {database_name}.things", [("insert", []), ("delete", []), ("insert", [])]),
        (f"insert {database_name}.things", [("insert", [])]),
    ]
    bulk, insert = spans.all[:2]
    assert bulk.attributes["db.operation.name"] == "bulkWrite"
    assert bulk.attributes["db.collection.name"] == insert.attributes["db.collection.name"] == "things"
    assert bulk.status.is_ok
    # The tracer keeps no finished spans.
    tracer = things.database.client._tracer
    assert not any([tracer._bulks, tracer._transactions])


def test_failed_bulk_write_fails_its_span_and_shows_no_document(
    face: Face, connect: Connect, spans: Spans, database_name: str
) -> None:
    things = connect(tracing=spans.option())[database_name]["things"]
    twice = [InsertOne({"_id": 1}), InsertOne({"_id": 1, "note": "private"}), DeleteOne({})]
    with pytest.raises(errors.BulkWriteError):
        face.run(lambda: things.bulk_write(twice))

    assert spans.tree() == [(f"bulkWrite {database_name}.things", [("insert", [])])]
    bulk = spans.all[0]
    assert not bulk.status.is_ok
    assert bulk.attributes["exception.type"] == "BulkWriteError"
    assert "private" not in bulk.to_json()


def test_operation_is_below_the_callers_span(
    face: Face, connect: Connect, spans: Spans, database_name: str
) -> None:
    client = connect(tracing=spans.option())
    tracer = spans.provider.get_tracer("the application")

    def call() -> Any:
        with tracer.start_as_current_span("request"):
            return client[database_name]["things"].find_one({})

    async def acall() -> Any:
        with tracer.start_as_current_span("request"):
            return await client[database_name]["things"].find_one({})

    face.run(acall if face.is_async else call)

    assert spans.tree() == [("request", [(f"find {database_name}.things", [("find", [])])])]


def test_secrets_have_no_command_span(face: Face, scripted_server: ScriptedServer, spans: Spans) -> None:
    client = face.client(scripted_server.uri, tracing=spans.option(query_text_max_length=1000))
    scripted_server.on("createUser", {"ok": 1})
    face.run(lambda: client.admin.command("createUser", "ada", pwd="secret"))

    assert spans.tree() == [("createUser admin", [])]
    assert "secret" not in "".join(span.to_json() for span in spans.all)


def test_environment_turns_tracing_on_and_the_option_off(
    face: Face, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_PYTHON_INSTRUMENTATION_MONGODB_ENABLED", "true")
    monkeypatch.setenv("OTEL_PYTHON_INSTRUMENTATION_MONGODB_QUERY_TEXT_MAX_LENGTH", "77")

    assert face.client(server.uri)._tracer._longest == 77
    assert face.client(server.uri, tracing=False)._tracer is None
    monkeypatch.setenv("OTEL_PYTHON_INSTRUMENTATION_MONGODB_ENABLED", "false")
    assert face.client(server.uri)._tracer is None


def test_a_switch_of_the_environment_that_is_neither_true_nor_false_is_told(
    server: Server, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    name = "OTEL_PYTHON_INSTRUMENTATION_MONGODB_ENABLED"

    def told() -> list[str]:
        # Python reports objects that earlier tests left open whenever it collects them, which may be now.
        return [text for found in recwarn.list if name in (text := str(found.message))]

    for quiet in ("", "0", "False", "no"):
        monkeypatch.setenv(name, quiet)
        MongoClient(server.uri, connect=False).close()
    assert told() == []
    monkeypatch.setenv(name, "on")
    MongoClient(server.uri, connect=False, tracing=False).close()
    assert told() == []
    with pytest.warns(UserWarning, match=rf"expected true or false in {name}, got 'on'; no spans"):
        MongoClient(server.uri, connect=False).close()


def test_a_length_of_the_environment_that_is_no_number_is_told(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_PYTHON_INSTRUMENTATION_MONGODB_QUERY_TEXT_MAX_LENGTH", "many")

    with (
        pytest.warns(UserWarning, match=r"expected a number of bytes in OTEL_\w+, got 'many'"),
        MongoClient(server.uri, tracing=True, connect=False) as client,
    ):
        assert client._tracer._longest == 0


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ("yes", TypeError),
        ({"on": True}, errors.ConfigurationError),
        ({"query_text_max_length": -1}, ValueError),
        ({"enabled": "false"}, TypeError),
        ({"query_text_values": "false"}, TypeError),
    ],
)
def test_wrong_option_is_refused(face: Face, server: Server, wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        face.client(server.uri, tracing=wrong)


def test_without_opentelemetry_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import mangonel\n"
        "try: mangonel.MongoClient(tracing=True)\n"
        "except mangonel.errors.ConfigurationError as error: print(error)\n"
        "mangonel.MongoClient()\n"
    )
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert "install mangonel[otel]" in out.stdout


def test_text_without_values_has_the_names_of_fields_alone(
    face: Face, connect: Connect, spans: Spans, database_name: str
) -> None:
    option = spans.option(query_text_max_length=1000, query_text_values=False)
    things = connect(tracing=option)[database_name]["things"]
    face.run(lambda: things.insert_many([{"_id": 1, "limit": 5, "deep": [{"a": "secret"}]}, {"_id": 2}]))
    face.run(lambda: things.update_many({"limit": 5}, {"$set": {"multi": True}}))
    face.collect(things.find({"_id": {"$in": [1, 2]}}, batch_size=1))

    texts = [span.attributes["db.query.text"] for span in spans.all if "db.query.text" in span.attributes]
    assert texts[:4] == [
        '{"insert":"things","ordered":true,"documents":[{"_id":"?","limit":"?","deep":[{"a":"?"}]}]}',
        '{"update":"things","ordered":true,"updates":'
        '[{"q":{"limit":"?"},"u":{"$set":{"multi":"?"}},"multi":true,"upsert":false}]}',
        '{"find":"things","filter":{"_id":{"$in":["?"]}},"batchSize":1}',
        '{"getMore":"?","collection":"things","batchSize":1}',
    ]


def test_provider_that_is_set_later_gets_the_spans_from_then_on(server: Server, database_name: str) -> None:
    # Such a provider can be set only once in a process.
    program = f"""
from mangonel import MongoClient
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

client = MongoClient({server.uri!r}, tracing=True)
things = client[{database_name!r}]["things"]
things.find_one({{}})
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
things.find_one({{}})
print([span.name for span in exporter.get_finished_spans()])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == str(["find", f"find {database_name}.things"])


def test_operation_that_is_not_sampled_has_no_spans(face: Face, connect: Connect, database_name: str) -> None:
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    exporter = InMemorySpanExporter()
    provider = trace.TracerProvider(sampler=ALWAYS_OFF)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    things = connect(tracing={"enabled": True, "tracer_provider": provider})[database_name]["things"]
    face.run(lambda: things.bulk_write([InsertOne({"_id": 1}), DeleteOne({})]))
    face.run(lambda: things.find_one({}))

    assert exporter.get_finished_spans() == ()


def test_sampler_that_raises_is_not_the_operations_fault(
    face: Face, connect: Connect, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentelemetry.sdk.trace.sampling import Sampler

    class Broken(Sampler):
        def should_sample(self, *args: Any, **kwargs: Any) -> Any:
            raise LookupError("a fault of the sampler")

        def get_description(self) -> str:
            return "broken"

    provider = trace.TracerProvider(sampler=Broken())
    # A provider without a processor asks no sampler.
    provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    things = connect(tracing={"enabled": True, "tracer_provider": provider})[database_name]["things"]
    shown: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)
    assert face.run(lambda: things.find_one({})) is None

    assert [str(each.exc_value) for each in shown] == ["a fault of the sampler"]


@pytest.mark.parametrize("broken", ["on_start", "on_end"])
def test_processor_that_raises_is_not_the_fault_of_a_bulk_write_or_a_transaction(
    face: Face, connect: Connect, database_name: str, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    class Broken(trace.SpanProcessor):
        pass

    def fail(*args: Any, **kwargs: Any) -> None:
        raise LookupError("a fault of the processor")

    monkeypatch.setattr(Broken, broken, fail)
    provider = trace.TracerProvider()
    provider.add_span_processor(Broken())
    client = connect(tracing={"enabled": True, "tracer_provider": provider})
    things = client[database_name]["things"]
    shown: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: shown.append(str(each.exc_value)))

    face.run(lambda: things.insert_many([{"_id": 1}, {"_id": 2}]))
    session = client.start_session()
    session.start_transaction()
    face.run(lambda: things.insert_one({"_id": 3}, session=session))
    face.run(session.commit_transaction)
    with pytest.raises(errors.BulkWriteError):
        face.run(lambda: things.insert_many([{"_id": 1}, {"_id": 4}]))
    face.run(session.end_session)

    assert face.run(lambda: things.count_documents({})) == 3
    assert set(shown) == {"a fault of the processor"}


def test_transaction_whose_session_was_dropped_ends_its_span_with_the_next(
    face: Face, connect: Connect, spans: Spans, database_name: str
) -> None:
    client = connect(tracing=spans.option())
    things = client[database_name]["things"]
    face.run(lambda: things.insert_one({"_id": 0}))
    for number in (1, 2):
        session = client.start_session()
        session.start_transaction()
        face.run(lambda number=number, session=session: things.insert_one({"_id": number}, session=session))
        if number == 2:
            face.run(session.abort_transaction)
        del session
        gc.collect()

    ended = [span for span in spans.all if span.name == "transaction"]
    assert [span.attributes.get("exception.message") for span in ended] == ["the session was dropped", None]
    assert client._tracer._transactions == {} == client._tracer._sessions


def test_transactions_end_their_spans_with_the_client(
    face: Face, connect: Connect, spans: Spans, database_name: str
) -> None:
    client = connect(tracing=spans.option())
    things = client[database_name]["things"]
    face.run(lambda: things.insert_one({"_id": 0}))
    kept, dropped = client.start_session(), client.start_session()
    for session in (kept, dropped):
        session.start_transaction()
        face.run(lambda session=session: things.find_one({}, session=session))
    del session, dropped
    gc.collect()
    face.run(client.close)

    ended = {span.attributes.get("exception.message") for span in spans.all if span.name == "transaction"}
    assert ended == {"the session was dropped", "the client was closed"}
    assert client._tracer._transactions == {} == client._tracer._sessions


def test_cancelled_operation_ends_its_spans(
    face: Face, scripted_server: ScriptedServer, spans: Spans
) -> None:
    if not face.is_async:
        pytest.skip("a thread cannot be cancelled")
    client = face.client(scripted_server.uri, tracing=spans.option())
    scripted_server.on("find", Hang())
    started = face.start(lambda: client.shop.orders.find_one({}))
    scripted_server.wait_for("find")
    started.cancel()
    eventually(lambda: len(spans.all) == 2)

    assert spans.tree() == [("find shop.orders", [("find", [])])]
    assert not any(span.status.is_ok for span in spans.all)


class OfNewRelic(trace.Tracer):  # type: ignore[misc]
    """A tracer named like New Relic's, which drops everything below a span of the kind "client"."""

    __module__ = "newrelic.api.opentelemetry"


def test_only_commands_are_of_the_kind_client_for_new_relic(
    face: Face, connect: Connect, spans: Spans, database_name: str
) -> None:
    class Provider(trace.TracerProvider):  # type: ignore[misc]
        def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
            tracer = spans.provider.get_tracer(*args, **kwargs)
            tracer.__class__ = OfNewRelic
            return tracer

    client = connect(tracing=spans.option(tracer_provider=Provider()))
    things = client[database_name]["things"]

    face.run(lambda: things.bulk_write([InsertOne({}), DeleteOne({})]))
    session = client.start_session()
    session.start_transaction()
    face.run(lambda: things.insert_one({"_id": 7}, session=session))
    face.run(session.commit_transaction)
    face.run(session.end_session)

    kinds = {span.name: span.kind.name for span in spans.all}
    assert kinds == {
        f"bulkWrite {database_name}.things": "INTERNAL",
        "insert": "CLIENT",
        "delete": "CLIENT",
        "transaction": "INTERNAL",
        f"insert {database_name}.things": "INTERNAL",
        "commitTransaction admin": "INTERNAL",
        "commitTransaction": "CLIENT",
    }


def test_size_of_a_bulk_write_is_told(face: Face, connect: Connect, spans: Spans, database_name: str) -> None:
    things = connect(tracing=spans.option())[database_name]["things"]
    face.run(lambda: things.insert_many([{}, {}, {}]))
    face.run(lambda: things.bulk_write([InsertOne({"_id": 1}), DeleteOne({"_id": 1})]))
    face.run(lambda: things.insert_one({}))

    sizes = [
        span.attributes.get("db.operation.batch.size")
        for span in spans.all
        if "db.operation.name" in span.attributes
    ]
    assert sizes == [3, 2, None]


def test_failed_operation_has_the_servers_code(face: Face, connect: Connect, spans: Spans) -> None:
    client = connect(tracing=spans.option())
    with pytest.raises(errors.OperationFailure):
        face.run(lambda: client.admin.command("nope"))

    assert [span.attributes["db.response.status_code"] for span in spans.all] == ["59", "59"]
