"""A driver that plays programs of `models.programs`, and a comparable record of everything that can be seen of it."""

from __future__ import annotations

import array
import asyncio
import collections
import copy
import datetime
import decimal
import enum
import fractions
import inspect
import io
import itertools
import numbers
import re
import types
import uuid
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import bson
from bson.codec_options import CodecOptions

import gridfs as peer_gridfs
import mangonel
import mangonel.bson
import mangonel.client_session
import mangonel.collation
import mangonel.gridfs
import mangonel.monitoring
from driver.keywords import PACKAGES
from models.programs import START, Step

__all__ = ["Player", "Record", "Stage"]

GRIDFS: dict[str, Any] = {"mangonel": mangonel.gridfs, "pymongo": peer_gridfs}
# The result of `start_transaction` is only for a `with`.
CONTEXTS = ("BlockingTransaction", "Transaction", "_TransactionContext")
BSON_TYPES = ("Binary", "Code", "DBRef", "Decimal128", "MaxKey", "MinKey", "ObjectId", "Regex", "DatetimeMS")
STANDARD = (array, collections, copy, datetime, decimal, enum, fractions, io, numbers, re, types, uuid)
# Ids and times of the server, which differ from one command to the next.
GOSSIP = ("$clusterTime", "operationTime", "opTime", "electionId", "uuid", "signature")
# Steps whose values depend on the server's moment, or on all databases.
MOMENTARY = re.compile(
    r"explain\(|server_info\(|list_databases\(|list_database_names\(|validate_collection\(|\.(cluster_time|operation_time|"
    r"session_id|address|primary|nodes|topology_description|resume_token|options|cursor_id|upload_date)\b|"
    r"'(serverStatus|buildInfo)'"
)
SNAPSHOT = re.compile(r"snapshot|majority|ReadConcern|start_transaction")
# A driver's own counters.
COUNTED = ("lsid", "txnNumber", "afterClusterTime", "atClusterTime")
# More than a program reads from a cursor that never ends.
MANY = 50


@dataclass
class Record:
    """A step's record: its end, the commands sent, the warnings, and its arguments afterwards."""

    outcome: str
    commands: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    @property
    def is_error(self) -> bool:
        return self.outcome.startswith("raised ")

    @property
    def error(self) -> str:
        """The name of the error's class, or nothing."""
        return self.outcome.split()[1] if self.is_error else ""


class Stage:
    """The database of a player, set up and inspected by another client."""

    def __init__(self, admin: Any, name: str) -> None:
        self.admin, self.name = admin, name
        self.documents = {
            key: eval(text, {"datetime": datetime, "bson": bson}) for key, text in START.items()
        }
        self.is_as_at_start = False

    def prepare(self) -> None:
        """Leave nothing but the initial documents."""
        database = self.admin[self.name]
        if not self.is_as_at_start:
            self.admin.drop_database(self.name)
        for name, documents in self.documents.items():
            if self.is_as_at_start:
                database[name].delete_many({})
            database[name].insert_many(documents)

    def settle(self) -> None:
        """Wait until a majority has all earlier writes: a snapshot has no others."""
        note = {"appendOplogNote": 1, "data": {}, "writeConcern": {"w": "majority"}}
        self.admin.admin.command(note)

    def content(self) -> list[tuple[str, Any]]:
        """Return the collections with their options, indexes and documents."""
        database = self.admin.get_database(self.name, codec_options=CodecOptions(datetime_conversion=3))
        found = []
        for each in sorted(database.list_collections(), key=lambda each: str(each["name"])):
            name, is_view = each["name"], each["type"] != "collection"
            indexes = (
                [] if is_view else sorted(database[name].list_indexes(), key=lambda each: str(each["name"]))
            )
            stored = list(database[name].find()) if not is_view else []
            found.append((name, (each["type"], each["options"], indexes, stored)))
        self.is_as_at_start = [(name, value[1], len(value[2])) for name, value in found] == [
            (name, {}, 1) for name in sorted(self.documents)
        ]
        return found


class Player:
    """One driver on one face."""

    def __init__(self, package: str, is_async: bool, uri: str, stage: Stage) -> None:
        self.package, self.is_async, self.stage = package, is_async, stage
        self.module, self.bson = PACKAGES[package]
        self.loop = asyncio.new_event_loop() if is_async else None
        self.sent: list[str] = []
        self.client = self.run(self._client(uri))

    async def _client(self, uri: str) -> Any:
        kind = self.module.AsyncMongoClient if self.is_async else self.module.MongoClient
        return kind(
            uri, event_listeners=[self._listener()], socketTimeoutMS=20_000, serverSelectionTimeoutMS=5_000
        )

    def _listener(self) -> Any:
        player = self

        class Commands(self.module.monitoring.CommandListener):  # type: ignore[name-defined, misc]
            """Keeps sent commands, as text."""

            def started(self, event: Any) -> None:
                if event.command_name != "killCursors":
                    player.sent.append(player.command(event))

            def succeeded(self, event: Any) -> None:
                pass

            def failed(self, event: Any) -> None:
                pass

        return Commands()

    def run(self, steps: Any) -> Any:
        """Run a coroutine; on the blocking face it does not suspend."""
        if self.loop is not None:
            return self.loop.run_until_complete(steps)
        try:
            steps.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("expected a flow that does not suspend")

    def close(self) -> None:
        """Close the client and the loop."""
        self.run(self._wait(self.client.close()))
        if self.loop is not None:
            self.loop.close()

    async def _wait(self, value: Any) -> Any:
        return await value if inspect.isawaitable(value) else value

    # Playing.

    def play(self, steps: list[Step]) -> list[Record]:
        """Return the records of all steps, and a last one of the data stored at the end."""
        self.stage.prepare()
        self.numbers: dict[str, str] = {}
        self.settles = any(SNAPSHOT.search(step.text) for step in steps)
        records = self.run(self._play(steps))
        # GridFS sends its own commands, which name other ids first.
        self.numbers.clear()
        records.append(Record(self.text([(name, self.plain(value)) for name, value in self.stage.content()])))
        return records  # type: ignore[no-any-return]

    async def _play(self, steps: list[Step]) -> list[Record]:
        self.kept: list[Any] = []
        database = self.client[self.stage.name]
        files = GRIDFS[self.package]
        prefix = "Async" if self.is_async else ""
        names = {module.__name__: module for module in STANDARD} | {
            "pymongo": self.module,
            "bson": self.bson,
            "gridfs": files,
            "client": self.client,
            "db": database,
            "things": database.things,
            "other": database.other,
            "bucket": getattr(files, prefix + "GridFSBucket")(database),
            "gfs": getattr(files, prefix + "GridFS")(database),
            "k": self.keep,
            "within": self.within,
        }
        before = set(names)
        records = [await self._step(step, names) for step in steps]
        # Not the uploads: PyMongo's `abort` removes another file with the same id.
        for name in ("c", "f", "m", "o", "s"):
            if name in names and name not in before:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    await self._end(names[name])
        return records

    async def _end(self, value: Any) -> None:
        try:
            for method in ("end_session", "close"):
                if "GridIn" not in self.kind(value) and callable(getattr(type(value), method, None)):
                    await self._wait(getattr(value, method)())
                    return
        except Exception:
            return

    def keep(self, value: Any) -> Any:
        """Return an argument, and record it again after the call."""
        self.kept.append(value)
        return value

    async def within(self, seconds: Any, call: Any) -> Any:
        """Call a function within this many seconds."""
        with self.module.timeout(seconds):
            return await self._wait(call())

    async def _step(self, step: Step, names: dict[str, Any]) -> Record:
        self.sent.clear()
        self.kept.clear()
        if self.settles:
            self.stage.settle()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                value = await self._wait(eval(step.text, names))
                if step.into:
                    await self._end(names.pop(step.into, None))
                    names[step.into] = value
                    outcome: Any = self.kind(value)
                else:
                    read = await self._consumed(value)
                    if "list_collection_names" in step.text and isinstance(read, list):
                        read = sorted(read)
                    outcome = self.plain(read)
                if MOMENTARY.search(step.text):
                    outcome = self.kind(value).replace("Int64", "int")
                said = self.text(outcome)
            except Exception as error:
                said = self.text(self.raised(error))
        return Record(
            said,
            [self.masked(command, "within(" in step.text) for command in self.sent],
            sorted({each.category.__name__ for each in caught if each.category is not ResourceWarning}),
            [self.text(self.plain(value)) for value in self.kept],
        )

    async def _consumed(self, value: Any) -> Any:
        """Return the value; for a cursor, the list of its documents."""
        kind = self.kind(value)
        if kind == "ClientSession":
            await self._wait(value.end_session())
        elif kind.endswith("ChangeStream") or kind in ("GridIn", "GridOut"):
            await self._end(value)
        elif "Cursor" in kind:
            # PyMongo's `to_list` of a GridOutCursor fails.
            read = await (self._each(value) if kind == "GridOutCursor" else self._wait(value.to_list(MANY)))
            await self._wait(value.close())
            if "Raw" in kind:
                read = [self.bson.decode_all(batch) for batch in read]
            return read
        return value

    async def _each(self, cursor: Any) -> list[Any]:
        read = []
        try:
            while True:
                read.append(await self._wait(cursor.next()))
        except (StopIteration, StopAsyncIteration):
            return read

    # Records.

    def kind(self, value: Any) -> str:
        """Return the name of a value's class, which is the same on both faces."""
        name = type(value).__name__.removeprefix("Async")
        return "a context" if name in CONTEXTS else name

    def raised(self, error: Exception) -> str:
        """Return everything that a program can read from an error. Only the server's own words must be the same."""
        code, details = getattr(error, "code", None), getattr(error, "details", None)
        labels = sorted(getattr(error, "_error_labels", ()))
        if code == 40415:
            # The message names the first of the unknown fields, whose order is the driver's.
            details = None
        said = str(error).partition(", full error: ")[0] if code not in (None, 40415) else ""
        return f"raised {self.kind(error)} {code} {labels} {said} {self.plain(details)}"

    def plain(self, value: Any) -> Any:
        """Return a value as text that shows the types of everything in it."""
        kind = self.kind(value)
        if value is None or type(value) in (bool, int, float, str, bytes):
            return repr(value)
        if isinstance(value, Mapping):
            pairs = [f"{key!r}: {self.plain(item)}" for key, item in value.items() if key not in GOSSIP]
            return f"{'' if kind == 'dict' else kind}{{{', '.join(pairs)}}}"
        if isinstance(value, (list, tuple, set)):
            if all(isinstance(item, Mapping) and "name" in item and "type" in item for item in value):
                # The server lists collections in the order of their numbers.
                value = sorted(value, key=lambda item: str(item["name"]))
            return f"{'' if kind == 'list' else kind}[{', '.join(self.plain(item) for item in value)}]"
        if kind == "Int64":
            return f"Int64({int(value)})"
        if isinstance(value, datetime.datetime):
            return "now" if 2025 < value.year < 2100 else repr(value)
        if kind == "DatetimeMS":
            return "now" if 1_700_000_000_000 < int(value) < 2**42 else repr(value)
        if kind == "Timestamp":
            return "time" if 1_700_000_000 < value.time < 2**31 else repr(value)
        if kind.endswith("Result"):
            return f"{kind}{[(name, self._read(value, name)) for name in dir(value) if name[0] != '_']}"
        if kind in ("Collection", "Database"):
            settings = (value.codec_options, value.read_preference, value.write_concern, value.read_concern)
            return f"{kind} {value.name} {[self._setting(each) for each in settings]}"
        if isinstance(value, (io.BytesIO, io.StringIO)):
            return f"{kind} {value.getvalue()!r}"
        if kind in ("GridOut", "GridIn"):
            return (
                f"{kind}{[self._read(value, name) for name in ('_id', 'filename', 'length', 'chunk_size')]}"
            )
        if kind in BSON_TYPES:
            return repr(value)
        return (
            repr(value)
            if type(value).__module__ in ("builtins", "uuid", "re", "decimal") and not callable(value)
            else kind
        )

    def _read(self, value: Any, name: str) -> Any:
        try:
            return self.plain(getattr(value, name))
        except Exception as error:
            return type(error).__name__

    def _setting(self, value: Any) -> str:
        return re.sub(r"0x[0-9a-f]+|mangonel\.bson|mangonel|pymongo|bson", "", repr(value)).replace("..", ".")

    def command(self, event: Any) -> str:
        """Return a command as decoded from its bytes: its name, and the other fields by name."""
        try:
            # One codec reads the commands of both drivers.
            data = self.bson.encode(
                event.command, codec_options=self.bson.codec_options.CodecOptions(uuid_representation=4)
            )
            command = mangonel.bson.decode(
                data, mangonel.bson.CodecOptions(datetime_conversion=3, uuid_representation=0)
            )
        except Exception as error:
            return f"{event.command_name} {event.database_name} that {type(error).__name__}"
        fields = [
            (name, value)
            for name, value in self._uncounted(command).items()
            if (name, value) != ("comment", None)
        ]
        if event.command_name == "insert" and isinstance(command.get("documents"), list):
            # PyMongo shows an `_id` that it adds after the other fields, and sends it before them.
            stored = [{"_id": each.get("_id"), **each} for each in command["documents"]]
            fields = [(name, stored if name == "documents" else value) for name, value in fields]
        if event.command_name == "explain" and isinstance(command["explain"], dict):
            explained = list(self._uncounted(command["explain"]).items())
            fields[0] = (
                "explain",
                dict([explained[0], *sorted(explained[1:], key=lambda pair: str(pair[0]))]),
            )
        if event.command_name == "getMore":
            fields[0] = ("getMore", "a cursor")
        fields = [*fields[:1], *sorted(fields[1:], key=lambda pair: str(pair[0]))]
        # Whole numbers of milliseconds are sent as such.
        said = re.sub(r"('maxTimeMS': \d+)\.0", r"\1", str(self.plain(dict(fields))))
        return said.replace("Int64(90)", "90")

    def _uncounted(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            counted = {
                key: "counted" if key in COUNTED else self._uncounted(item)
                for key, item in value.items()
                if key not in GOSSIP
            }
            if "$changeStream" in counted and isinstance(counted["$changeStream"], dict):
                counted["$changeStream"] = dict(sorted(counted["$changeStream"].items()))
            return counted
        return [self._uncounted(item) for item in value] if isinstance(value, list) else value

    def text(self, value: Any) -> str:
        """Return the text of a value in a form that both sides share."""
        return self.masked(value if isinstance(value, str) else str(value))

    def masked(self, text: str, is_limited: bool = False) -> str:
        """Return a text with the database's name and new ids replaced; `is_limited`: also the rest of a time limit."""
        if is_limited:
            text = re.sub(r"('maxTimeMS': )(\d+|Int64\(\d+\))", r"\1LEFT", text)
        text = text.replace(self.stage.name, "DB")
        text = re.sub(r"(txnNumber:|transaction number|number is) -?\d+", r"\1 N", text)
        text = re.sub(r"\b0x[0-9a-f]{6,}\b", "ADDRESS", text)
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*", "TIME", text)
        text = re.sub(r"Int64\(\d{15,}\)", "Int64(NUMBER)", text)
        count = itertools.count(len(self.numbers) + 1)
        return re.sub(
            r"\b(?!5{24}|0{24})[0-9a-f]{24}\b|\b[0-9a-f]{8}-[0-9a-f-]{27}\b",
            lambda found: self.numbers.get(found[0]) or self.numbers.setdefault(found[0], f"ID{next(count)}"),
            text,
        )
