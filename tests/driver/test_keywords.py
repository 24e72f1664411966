"""Each keyword of each method, with right and wrong values: commands, results and refusals equal PyMongo's.

Both drivers talk to scripted deployments, so a value that only a server can judge is compared by the command that
carries it.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from driver.keywords import FEW, METHODS, PACKAGES, VALUES, Method, value_for
from driver.outcomes import shape
from sessions.sent import deployment, sent

CONTEXTS = ("plain", "session", "transaction", "bound", "w=0", "timeout")

# Errors that PyMongo raises where it does not check a value: it fails on it later, or finds no BSON type for it.
SLIPS = ("AttributeError", "IndexError", "KeyError", "SystemError", "StopIteration", "AssertionError")
UNENCODED = ("InvalidDocument", "OverflowError")
REFUSED = ("TypeError", "ValueError", "InvalidName", "InvalidBSON", "ConfigurationError", "InvalidOperation")

_LEFT_TO_THE_SERVER = "PyMongo leaves it to the server, which refuses it"
_FALSY = "what is not there is None here, never another value that is false"
# Differences that stay, by method and keyword: a pattern and the reason.
DIFFERENT = {
    (r"find|find_one|find_raw_batches", "projection"): "the letters of a string are no list of fields",
    (r"find|find_raw_batches", "filter"): _FALSY,
    (r"find|find_one|find_raw_batches|dereference", "session"): _FALSY,
    (r"find|find_one|find_raw_batches", "max_time_ms"): _LEFT_TO_THE_SERVER,
    (r"find|find_one|find_raw_batches|insert_many|bulk_write|dereference", "comment"): "0 is a comment",
    (r"aggregate", "hint"): _LEFT_TO_THE_SERVER + "; keys in a list are understood here",
    (r"count_documents", "hint"): "None means none",
    (r"find_one_and_delete", "upsert"): "the server refuses it",
    (r"drop_index", "writeConcern"): "a field of the command is the caller's, with w=0 as well",
    (r"watch", "collation"): "PyMongo drops it",
    (r"watch", "pipeline"): _LEFT_TO_THE_SERVER,
    (r"watch", "resume_after|start_after"): "bytes are a token that was kept as bytes",
    (r"cursor_command", "codec_options"): _FALSY,
    (r"command|cursor_command", "command"): "pairs and raw documents are commands as well",
    (r"server_info", ".*"): "the command is written buildInfo, its documented name",
}


# Differences in a context with any keyword.
DIFFERENT_IN = {
    ("insert_many", "w=0"): "each batch of ordered writes asks for its errors, the last one for nothing",
    ("bulk_write", "w=0"): "as insert_many",
}


class Driver:
    """A driver on a face, with a scripted deployment of its own."""

    def __init__(self, package: str, face: str) -> None:
        self.package, self.is_async = package, face == "asyncio"
        self.server = deployment("replica set")
        for name in ("renameCollection", "dropIndexes", "updateSearchIndex", "dropSearchIndex"):
            self.server.on(name, {"ok": 1})
        for name in ("buildInfo", "buildinfo"):
            self.server.on(name, {"ok": 1, "version": "6.0"})
        self.server.on("createSearchIndexes", {"ok": 1, "indexesCreated": [{"id": "1", "name": "n"}]})
        self.server.on("listDatabases", {"ok": 1, "databases": [{"name": "a"}]})
        self.server.on("validate", {"ok": 1, "valid": True, "result": ""})
        self.pymongo, _ = PACKAGES[package]
        self.loop = asyncio.new_event_loop()
        make = self.pymongo.AsyncMongoClient if self.is_async else self.pymongo.MongoClient
        self.client = make(f"mongodb://{self.server.address}/?replicaSet=rs0")

    def close(self) -> None:
        closed = self.client.close()
        if inspect.isawaitable(closed):
            self.loop.run_until_complete(closed)
        self.loop.close()
        self.server.stop()

    def run(self, method: Method, given: dict[str, Any], context: str) -> tuple[Any, list[Any]]:
        """Return the result of a call or the class of its error, and the commands that it sent."""
        self.server.requests.clear()
        concern = self.pymongo.WriteConcern(w=0) if context == "w=0" else None
        database = self.client.get_database("db", write_concern=concern)
        owner = {"collection": database["things"], "database": database, "client": self.client}[method.owner]
        arguments = dict(zip(method.positional, method.first, strict=False)) | given
        arguments = {name: value_for(value, self.package) for name, value in arguments.items()}

        def call(session: Any) -> Any:
            asks = context in ("session", "transaction") and method.takes_session
            return getattr(owner, method.name)(
                **({"session": session} if asks and "session" not in given else {}), **arguments
            )

        try:
            steps = self._steps(call, context)
            outcome = self._plain(self.loop.run_until_complete(steps) if self.is_async else _run(steps))
        except Exception as error:
            outcome = ("raised", type(error).__name__)
        if context == "w=0":
            # An unanswered command has arrived once a later one is answered.
            answered = self.client.admin.command("ping")
            if inspect.isawaitable(answered):
                self.loop.run_until_complete(answered)
        commands = sent(self.server)[: -1 if context == "w=0" else None]
        return outcome, [_in_order(command) for command in commands]

    async def _steps(self, call: Any, context: str) -> Any:
        """Call in its context. On the blocking face nothing here suspends."""
        if context == "timeout":
            with self.pymongo.timeout(1000):
                return await _end(call(None))
        if context not in ("session", "transaction", "bound"):
            return await _end(call(None))
        session = self.client.start_session()
        try:
            if context == "bound":
                with_session = session.bind()
                await _enter(with_session)
                try:
                    return await _end(call(None))
                finally:
                    await _leave(with_session)
            if context == "transaction":
                await _wait(session.start_transaction())
            return await _end(call(session))
        finally:
            await _wait(session.end_session())

    def _plain(self, value: Any) -> Any:
        name = type(value).__name__.removeprefix("Async")
        if name in ("Collection", "Database"):
            settings = (value.codec_options, value.read_preference, value.write_concern, value.read_concern)
            return name, value.name, *(re.sub(r"\b(mangonel|pymongo)\.", "", repr(each)) for each in settings)
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        return bytes(value.raw) if name == "RawBSONDocument" else shape(value)


async def _wait(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _enter(context: Any) -> None:
    await context.__aenter__() if hasattr(context, "__aenter__") else context.__enter__()


async def _leave(context: Any) -> None:
    if hasattr(context, "__aexit__"):
        await context.__aexit__(None, None, None)
    else:
        context.__exit__(None, None, None)


async def _end(value: Any) -> Any:
    """Await the call, and read its cursor to the end."""
    value = await _wait(value)
    name = type(value).__name__
    if "Session" in name:
        await _wait(value.end_session())
        return "a session"
    if "ChangeStream" in name:
        await _wait(value.close())
        return "a change stream"
    return await _wait(value.to_list()) if "Cursor" in name else value


def _run(steps: Any) -> Any:
    try:
        steps.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("expected a flow that does not suspend")


def _in_order(command: dict[str, Any]) -> list[Any]:
    """Return the fields of a command: its name first, the others in the order of their names."""
    # A retryable write's number belongs to its session, and times differ.
    fields = [(name, value) for name, value in command.items() if name != "txnNumber"]
    stages = command.get("pipeline")
    stage = stages[0] if isinstance(stages, list) and stages else None
    if isinstance(stage, dict) and isinstance(stage.get("$changeStream"), dict):
        # PyMongo writes the fields of a stream's aggregation in another order.
        stage["$changeStream"] = dict(sorted(stage["$changeStream"].items()))
    fields = [(name, "what is left" if _is_rest(name, value) else value) for name, value in fields]
    return [*fields[:1], *sorted(fields[1:], key=lambda field: field[0])]


def _is_rest(name: str, value: Any) -> bool:
    return name == "maxTimeMS" and isinstance(value, int) and 900_000 < value <= 1_000_000


@pytest.fixture(scope="module", params=["blocking", "asyncio"])
def drivers(request: pytest.FixtureRequest) -> Iterator[tuple[Driver, Driver]]:
    """This driver on each face, and PyMongo."""
    pair = Driver("mangonel", request.param), Driver("pymongo", "blocking")
    yield pair
    for driver in pair:
        driver.close()


def _text(value: Any) -> str:
    """Return the parts that both drivers share: ids and times belong to each driver."""
    # PyMongo asserts that an unacknowledged write inserted something.
    shown = repr(value).replace("'AssertionError'", "'InvalidOperation'")
    return re.sub(r"(ObjectId|Timestamp)\([^)]*\)", r"\1", shown)


def _differ(ours: tuple[Any, list[Any]], theirs: tuple[Any, list[Any]]) -> bool:
    mine, peer = ours[0], theirs[0]
    raised = [
        value[1] if isinstance(value, tuple) and value[0] == "raised" else None for value in (mine, peer)
    ]
    if raised[1] in SLIPS:
        return False
    if raised[1] in REFUSED + UNENCODED and raised[0] in REFUSED + UNENCODED:
        return False
    if raised[0] is not None and raised[0] == raised[1]:
        return False
    return _text(ours) != _text(theirs)


def _is_known(method: Method, keyword: str) -> bool:
    return any(
        re.fullmatch(methods, method.name) and re.fullmatch(keywords, keyword)
        for methods, keywords in DIFFERENT
    )


# A PyMongo cursor that was given a wrong session fails once more when it is deleted.
@pytest.mark.filterwarnings("ignore:Exception ignored in.*__del__:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_value_is_sent_or_refused_as_by_pymongo(
    method: Method, context: str, drivers: tuple[Driver, Driver]
) -> None:
    differences = []
    cases: list[dict[str, Any]] = [{}]
    cases += [
        {keyword: value} for keyword in method.keywords for value in (VALUES if context == "plain" else FEW)
    ]
    for given in cases:
        keyword = next(iter(given), "")
        if (method.name, context) in DIFFERENT_IN:
            continue
        if context != "plain" and (keyword == "session" or _is_known(method, keyword)):
            continue
        ours, theirs = (driver.run(method, given, context) for driver in drivers)
        if _differ(ours, theirs) and not _is_known(method, keyword):
            differences.append(f"{given}\n  mangonel: {_text(ours)}\n  pymongo:  {_text(theirs)}")
    assert not differences, "\n".join(differences)
