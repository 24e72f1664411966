"""Programs of any operations with any options: what they return, refuse, send, warn of and store is PyMongo's.

By hand: MANGONEL_PROGRAMS=5000. A program that differs is printed as a file to run, as short as hypothesis finds one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo
import pytest
from hypothesis import HealthCheck, given, seed, settings

from mangonel.server import Server
from models.arguments import has_values
from models.players import Player, Record, Stage
from models.programs import MEMBERS, Step, programs, script

# Hundreds of steps on a machine that does other things too.
pytestmark = [pytest.mark.plays_a_sample, pytest.mark.timeout(3600)]

# The usual programs are always the same, twelve of a kind in a sample; others by `--hypothesis-seed`.
ASKED = os.environ.get("MANGONEL_PROGRAMS")
PLAYED = settings(
    max_examples=int(ASKED or min(40, settings().max_examples)),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
CHOSEN = seed(1) if not ASKED else lambda test: test

# What PyMongo raises where it does not look at a value and stumbles over it later.
SLIPS = ("AttributeError", "IndexError", "KeyError", "SystemError", "AssertionError")


READ = re.compile(
    r"\{'(find|count|distinct|getMore|ping|explain|listIndexes|listCollections|buildInfo)'|"
    r"\{'aggregate'(?!.*\$(out|merge))"
)
# A value that no server takes is refused at once; of several, each driver names another. `driver.test_keywords` has
# single ones.
REFUSALS = ("TypeError", "ValueError", "InvalidName", "InvalidOperation")
REFUSED_LATER = ("OperationFailure", "InvalidOperation", "InvalidDocument", "OverflowError")
# GridFS reads a file's document and its first chunks by one command, so its commands are its own.
OF_GRIDFS = re.compile(r"(\w = )?(within\(\S+ lambda: )?(bucket|gfs|f|g|o)\b")


@dataclass(frozen=True)
class Known:
    """A difference that is meant: the steps that show it, why it stays, and what both did where that matters."""

    step: str
    why: str
    ours: str = ""
    theirs: str = ""

    def covers(self, text: str, mine: str, peer: str) -> bool:
        return all(re.search(*each) for each in ((self.step, text), (self.ours, mine), (self.theirs, peer)))


_FALSY = r"(0|False|''|b''|\[\]|\(\)|\{\}|range\(0\))"
KNOWN = [
    Known(
        "",
        "a comment that is false is sent; PyMongo leaves it out",
        ours=rf"'comment': {_FALSY}[,}}]",
        theirs=r"^\[",
    ),
    Known(
        rf"\bfind\w*\(.*\bfilter={_FALSY}[,)]",
        "what is left out is None; PyMongo takes any false value for it",
    ),
    Known(
        r"(?i)(open_upload|upload_from)_stream\w*\(.*chunk_size|(put|new_file)\(.*(chunk_?size|_id=2\*\*64)",
        "a wrong size or id is refused at once",
    ),
    Known(
        r"^(g = )?(bucket|gfs)\.(open_upload_stream_with_id|new_file)\(",
        "so is an id that cannot be encoded",
        ours="^raised (InvalidDocument|OverflowError)",
        theirs="^GridIn",
    ),
    Known(
        r"\b(aggregate\w*|count_documents)\(.*\bhint=(None|[\[(])",
        "None is no hint, and keys in a list are understood here; PyMongo sends them as a list, which fails",
    ),
    Known(
        r"WriteConcern\(0\).*(insert_many|bulk_write)\(",
        "each batch of ordered writes asks for its errors, the last one for nothing",
        theirs=r"^\[",
    ),
    Known(
        r"\.(aliases|md5|content_type)$",
        "a deprecated field warns on both faces; PyMongo's asynchronous GridOut does not",
        ours="^\\['DeprecationWarning'\\]$",
        theirs=r"^\[\]$",
    ),
    Known(r"\bwatch\(.*\bcollation=", "PyMongo drops it"),
    Known(r"\bfind\w*\(.*\b(min|max)=\[", "pairs are bounds; PyMongo sends them as a list, which fails"),
    Known(
        "",
        "a cursor with such bounds that is read later",
        theirs="^raised OperationFailure 14 .*Expected field (min|max) ?to be of type object",
    ),
    Known(r"find_one_and_delete\(.*\bupsert=", "the server refuses it; PyMongo stumbles over it"),
    Known(
        "", "what is explained is what is sent; PyMongo adds singleBatch", ours=r"^\[.*\{'explain'.*'limit': "
    ),
    Known(
        "",
        "no server looks at a read concern inside of what is explained, so none is sent",
        ours=r"^\[(?!.*readConcern)",
        theirs=r"^\[.*\{'explain': \{.*'readConcern'",
    ),
    Known(r"\bserver_info\(", "the command is written buildInfo, its documented name"),
    Known(
        r"cursor_command\(.*codec_options=", "PyMongo decodes later batches by other options than the first"
    ),
    Known(
        "",
        "the size of a batch is sent as it was given; for a command's cursor PyMongo makes two of one",
        ours=r"^\[.*'getMore'.*'batchSize': 1\b",
        theirs=r"^\[.*'getMore'.*'batchSize': 2\b",
    ),
    Known("", "PyMongo's copies of a cursor lose `let`", ours="^\\[.*'find'.*'let': "),
    Known(r"\blet=.*(explain|clone|\[)", "as before"),
    Known("", "as before", ours="^\\[|'let': ", theirs="^raised OperationFailure 17276 "),
    Known(r"^(bucket|gfs|g)\..*(memoryview|bytearray)\(", "all that holds bytes can be written"),
    Known(r"command\(\{\}", "PyMongo stumbles over it", theirs="^raised (StopIteration|RuntimeError)"),
    Known(
        r"\.typed\b.*(\.next\(\)|\[\d+\])$|^[cm]\b",
        "a document is decoded when it is read; PyMongo decodes its whole batch before",
        theirs="^raised InvalidBSON",
    ),
    Known(
        "",
        "an event has the command as it was sent; PyMongo's has the arguments",
        theirs="that InvalidDocument",
    ),
    Known("", "this class is an OperationFailure, and says more", ours="^raised SnapshotUnavailable"),
    Known(
        r"bulk_write\(.*(UpdateMany|DeleteMany)",
        "each command that can be repeated is; PyMongo repeats none of a list with one that cannot",
        ours=r"^\[.*txnNumber",
        theirs=r"^\[(?!.*txnNumber)",
    ),
    Known(
        r"WriteConcern\((2|'nope')\)",
        "a command that failed wrote nothing, and the failure says so; PyMongo raises its write concern's error",
        ours="^raised OperationFailure",
        theirs="^raised WriteConcernError",
    ),
]


@dataclass
class Difference:
    """The first step that went otherwise."""

    number: int
    step: str
    part: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"step {self.number}, {self.part}: {self.step}\n  mangonel: {self.ours}\n  pymongo:  {self.theirs}"


class Pair:
    """Both drivers on one face."""

    def __init__(self, is_async: bool, uri: str) -> None:
        self.is_async = is_async
        self.admin: pymongo.MongoClient[Any] = pymongo.MongoClient(uri, w=1)
        name = f"programs_{uuid.uuid4().hex[:8]}"
        self.players = [
            Player(package, is_async, uri, Stage(self.admin, f"{name}_{package[0]}"))
            for package in ("mangonel", "pymongo")
        ]

    def close(self) -> None:
        for player in self.players:
            player.close()
            self.admin.drop_database(player.stage.name)
        self.admin.close()

    def difference(self, steps: list[Step]) -> Difference | None:
        """Play a program on both; return where they part."""
        ours, theirs = (player.play(steps) for player in self.players)
        texts = [*map(str, steps), "what is stored"]
        for number, (text, mine, peer) in enumerate(zip(texts, ours, theirs, strict=True)):
            if is_refused_first(mine, peer) and (" = " in text[:4] or "session=" in text):
                # What follows needs the name, or a session that knows the server's time.
                return None
            if (part := differs(text, mine, peer)) is None:
                continue
            seen = str(getattr(mine, part)), str(getattr(peer, part))
            if peer.error in SLIPS or any(known.covers(text, *seen) for known in KNOWN):
                if is_harmless(mine, peer) and " = " not in text[:4]:
                    continue
                return None
            return Difference(number, text, part, getattr(mine, part), getattr(peer, part))
        return None


def is_refused_first(mine: Record, peer: Record) -> bool:
    """Return whether PyMongo would find the mistake too, but later."""
    is_later = peer.error in (*REFUSALS, *REFUSED_LATER) or peer.outcome in ("Cursor", "RawBatchCursor")
    return mine.error in REFUSALS and not mine.commands and is_later


def differs(text: str, mine: Record, peer: Record) -> str | None:
    """Return the part in which the records of a step differ."""
    if is_refused_first(mine, peer):
        return None
    if mine.error == peer.error == "OperationFailure" and mine.commands == peer.commands:
        # Of several mistakes the server names the first, and the order of fields is the driver's.
        return None
    parts = [part for part in vars(peer) if getattr(mine, part) != getattr(peer, part)]
    is_refused_earlier = mine.is_error and not mine.commands and is_harmless(peer)
    if "commands" in parts and (OF_GRIDFS.match(text) or is_refused_earlier):
        parts.remove("commands")
    return parts[0] if parts else None


def is_harmless(*records: Record) -> bool:
    """Return whether a step cannot have changed what is stored."""
    sent = [command for record in records for command in record.commands]
    return all(READ.match(command) for command in sent)


@pytest.fixture(params=["blocking", "asyncio"])
def pair(request: pytest.FixtureRequest, server: Server) -> Iterator[Pair]:
    """Both drivers on each face."""
    made = Pair(request.param == "asyncio", server.uri)
    yield made
    made.close()


@CHOSEN
@PLAYED
@given(steps=programs())
def test_a_program_runs_as_on_pymongo(pair: Pair, steps: list[Step]) -> None:
    difference = pair.difference(steps)
    assert difference is None, f"{difference}\n\n{script(steps[: difference.number + 1], pair.is_async)}"


def test_a_difference_is_seen(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [Step("things.count_documents({'a': 1})")]
    inserts = [Step("things.insert_one({'_id': 9}, comment='why')")]
    assert pair.difference(counts) is pair.difference(inserts) is None

    kind = type(pair.players[0].client.db.things)
    monkeypatch.setattr(kind, "count_documents", lambda things, _: things.estimated_document_count())
    monkeypatch.setattr(
        kind,
        "insert_one",
        lambda things, document, comment: kind.replace_one(things, document, document, True),
    )

    different = pair.difference(counts)
    assert different is not None
    assert (different.part, different.ours, different.theirs) == ("outcome", "6", "3")
    assert pair.difference(inserts) is not None


@pytest.mark.parametrize("way", [[], ["-m", "mangonel.compat"]], ids=["pymongo", "mangonel"])
def test_a_program_is_a_file_to_run(way: list[str], server: Server, tmp_path: Path) -> None:
    steps = [Step("things.find({'a': 1})", "c"), Step("c.to_list(1)"), Step("db.command('nope')")]
    file = tmp_path / "program.py"
    file.write_text(script(steps, is_async=True))
    ran = subprocess.run(
        [sys.executable, *way, str(file), server.uri], capture_output=True, text=True, timeout=200, check=True
    )
    assert re.findall(r"^>>> .*", ran.stdout, re.MULTILINE) == [f">>> {step}" for step in steps]
    assert "[{'_id': 1, 'a': 1" in ran.stdout
    assert "OperationFailure(" in ran.stdout


def test_each_parameter_has_values() -> None:
    parameters = {
        method.key(name)
        for methods, _ in MEMBERS.values()
        for method in methods
        for name in (*method.needed, *method.optional)
    }
    # An option that no command has, and a function.
    assert {name for name in parameters if not has_values(name)} == {"nope", "callback"}
