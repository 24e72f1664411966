"""Any bulk write of a client, with any failure: commands, results and errors equal PyMongo's.

A scripted server of MongoDB 8.0 follows a plan: which writes and commands fail, and how many results a batch has.
By hand: MANGONEL_PROGRAMS=5000.
"""

from __future__ import annotations

import datetime
import os
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import bson
import pymongo
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import mangonel
import mangonel.bson
import mangonel.bson.raw_bson
import mangonel.bson.son
import mangonel.collation
from models.arguments import MODELS, filled
from tools.faces import Face, faces
from tools.scripted_server import Close, Request, Script, ScriptedServer

pytestmark = [pytest.mark.plays_a_sample, pytest.mark.timeout(3600)]

face = faces("blocking", "asyncio")

ASKED = os.environ.get("MANGONEL_PROGRAMS")
PLAYED = settings(
    max_examples=int(ASKED or min(60, 2 * settings().max_examples)),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
CHOSEN = seed(1) if not ASKED else lambda test: test

# How a command ends, other than with a reply to each of its writes.
FATES: list[Any] = [
    None, None, None, None, "write concern", "refused", "not primary", "retryable", "closed", "no cursor",
    "failed getMore", "timeout",
]  # fmt: skip


@dataclass
class Plan:
    """The server's plan.

    Attributes:
        fails: the codes of the writes that fail, by their number.
        fates: what becomes of the commands, one after the other.
        most: how many results a batch has.
    """

    fails: dict[int, int]
    fates: list[str | None]
    most: int
    fate_at: int = 0
    writes: int = 0
    waiting: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, request: Request) -> Any:
        """Answer a write command."""
        fate = self.fates[self.fate_at] if self.fate_at < len(self.fates) else None
        self.fate_at += 1
        if request.is_unacknowledged:
            return Script()
        if fate == "refused":
            return {"ok": 0, "code": 13, "errmsg": "not authorized", "codeName": "Unauthorized"}
        if fate == "not primary":
            return {"ok": 0, "code": 10107, "errmsg": "not primary", "errorLabels": ["RetryableWriteError"]}
        if fate == "retryable":
            return {"ok": 0, "code": 91, "errmsg": "shutting down", "errorLabels": ["RetryableWriteError"]}
        if fate == "timeout":
            return {"ok": 0, "code": 50, "errmsg": "operation exceeded time limit"}
        if fate == "closed":
            return Close()
        results, counts = self.carry_out(request)
        first, self.waiting = results[: self.most], results[self.most :]
        is_left = bool(self.waiting) or fate == "failed getMore"
        if fate == "failed getMore":
            self.waiting = [{"fail": True}]
        cursor = {"id": 77 if is_left else 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": first}
        made: dict[str, Any] = {"ok": 1, "cursor": cursor, **counts}
        if fate == "no cursor":
            del made["cursor"]
        if fate == "write concern":
            made["writeConcernError"] = {"code": 64, "errmsg": "waiting timed out"}
        return made

    def carry_out(self, request: Request) -> tuple[list[dict[str, Any]], dict[str, int]]:
        counts = dict.fromkeys(("nErrors", "nInserted", "nUpserted", "nMatched", "nModified", "nDeleted"), 0)
        results = []
        start = self.writes
        self.writes += len(request.sequences["ops"])
        for at, write in enumerate(request.sequences["ops"]):
            code = self.fails.get(start + at)
            if code is not None:
                counts["nErrors"] += 1
                results.append({"ok": 0, "idx": at, "code": code, "errmsg": f"failed {code}", "n": 0})
                if request.command["ordered"]:
                    break
                continue
            made: dict[str, Any] = {"ok": 1, "idx": at, "n": 1}
            if "insert" in write:
                counts["nInserted"] += 1
            elif "delete" in write:
                counts["nDeleted"] += 1
            elif write.get("upsert"):
                counts["nUpserted"] += 1
                made |= {"nModified": 0, "upserted": {"_id": at}}
            else:
                counts["nMatched"] += 1
                counts["nModified"] += at % 2
                made["nModified"] = at % 2
            if not request.command["errorsOnly"]:
                results.append(made)
        return results, counts

    def more(self, request: Request) -> Any:
        """Answer a getMore."""
        batch, self.waiting = self.waiting[: self.most], self.waiting[self.most :]
        if batch and "fail" in batch[0]:
            return {"ok": 0, "code": 43, "errmsg": "cursor id 77 not found"}
        cursor = {"id": 77 if self.waiting else 0, "ns": "admin.$cmd.bulkWrite", "nextBatch": batch}
        return {"ok": 1, "cursor": cursor}


PLANS = st.builds(
    Plan,
    fails=st.dictionaries(st.integers(0, 5), st.sampled_from([11000, 2, 121, 91]), max_size=2),
    fates=st.lists(st.sampled_from(FATES), max_size=3),
    most=st.integers(1, 3),
)
NAMESPACES = ["'shop.orders'", "'shop.carts'", "'shop.a.b'"]
WRONG_NAMESPACES = ["'nope'", "''", "None", "'.a'", "'a.'", "'$x.y'"]
OPTIONS = {
    "ordered": ["True", "False", "True", "False", "None", "1"],
    "verbose_results": ["True", "False", "True", "None"],
    "bypass_document_validation": ["True", "False", "None", "1"],
    "comment": ["'why'", "{'k': 1}", "None", "5"],
    "let": ["{'v': 1}", "{}", "None", "5"],
    "write_concern": ["pymongo.WriteConcern(1)", "pymongo.WriteConcern('majority')", "pymongo.WriteConcern(0)", "None"],
}  # fmt: skip


@st.composite
def calls(draw: Any) -> str:
    """Return the source text of a bulk write."""
    models = []
    for template in draw(
        st.lists(st.sampled_from(["pymongo.InsertOne({document})", *MODELS]), min_size=0, max_size=6)
    ):
        text = draw(filled(template))
        rare = draw(st.integers(0, 15))
        namespace = draw(st.sampled_from(NAMESPACES if rare else WRONG_NAMESPACES))
        models.append(f"{text[:-1]}, namespace={namespace})" if rare != 1 else text)
    chosen = draw(st.lists(st.sampled_from(sorted(OPTIONS)), unique=True, max_size=3))
    options = [f"{name}={draw(st.sampled_from(OPTIONS[name]))}" for name in chosen]
    listed = ", ".join(models)
    return f"client.bulk_write({', '.join([f'k([{listed}])', *options])})"


@dataclass
class Side:
    """One driver and its objects."""

    package: str
    client: Any
    module: Any
    bson: Any
    kept: list[Any] = field(default_factory=list)

    def play(self, text: str, server: ScriptedServer, plan: Plan, face: Face) -> Any:
        """Return the outcome of the call, the commands sent, and its models afterwards."""
        server.requests.clear()
        self.kept.clear()
        server.on("bulkWrite", plan.answer)
        server.on("getMore", plan.more)
        names = {
            "client": self.client,
            "k": self.keep,
            "pymongo": self.module,
            "bson": self.bson,
            "types": types,
        }
        names |= {"datetime": datetime, "re": re}
        try:
            said = self.shown(face.run(lambda: eval(text, names)))
        except Exception as error:
            said = self.raised(error)
        if "WriteConcern(0)" in text:
            # An unacknowledged write has no reply, so the next command on the same connection shows that the server has
            # read it.
            face.run(lambda: self.client.admin.command("ping"))
        sent = [self.command(each) for each in server.requests if each.name in ("bulkWrite", "getMore")]
        return said, sent, self.shown(self.kept)

    def keep(self, models: Any) -> Any:
        self.kept += [each._doc for each in models if type(each).__name__ == "InsertOne"]
        return models

    def raised(self, error: Exception) -> str:
        if type(error).__name__ != "ClientBulkWriteException":
            return f"raised {type(error).__name__} {getattr(error, 'code', None)}"
        names = ("error", "write_errors", "write_concern_errors", "partial_result", "timeout", "details")
        labels = sorted(getattr(error, "_error_labels", ()))
        values = [(name, self.shown(getattr(error, name))) for name in names]
        return f"raised ClientBulkWriteException {labels} {values}"

    def shown(self, value: Any) -> str:
        if isinstance(value, dict):
            pairs = [f"{key!r}: {self.shown(item)}" for key, item in value.items() if key != "lsid"]
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(self.shown, value))}]"
        if isinstance(value, BaseException):
            return f"{type(value).__name__} {getattr(value, 'code', None)}"
        kind = type(value).__name__
        if kind.endswith("Result"):
            names = [name for name in dir(value) if name[0] != "_" and name != "did_upsert"]
            return f"{kind}{[(name, self.read(value, name)) for name in names]}"
        if kind == "ObjectId":
            return "ID" if str(value)[0] not in "05" or str(value) != str(value)[0] * 24 else str(value)
        if isinstance(value, (bool, int, float, str, bytes)) or value is None:
            return repr(value) if kind != "Int64" else f"Int64({value})"
        return re.sub(r"mangonel\.|pymongo\.| at 0x[0-9a-f]+", "", repr(value))

    def read(self, value: Any, name: str) -> str:
        try:
            found = getattr(value, name)
            # PyMongo's is None where the server was asked for no reply, contrary to its own type.
            return self.shown({} if name == "bulk_api_result" and found is None else found)
        except Exception as error:
            return type(error).__name__

    def command(self, request: Request) -> str:
        hidden = ("lsid", "$clusterTime", "txnNumber")
        fields = {name: value for name, value in sorted(request.command.items()) if name not in hidden}
        has = [name for name in ("lsid", "txnNumber") if name in request.command]
        return f"{request.name} {self.shown(fields)} {self.shown(request.sequences)} {has}"


@pytest.fixture
def server(scripted_server: ScriptedServer) -> ScriptedServer:
    address = scripted_server.address
    # Makes several commands for a handful of writes.
    scripted_server.hello.update(
        maxWriteBatchSize=3, maxWireVersion=25, setName="rs0", hosts=[address], primary=address, me=address
    )
    return scripted_server


@pytest.fixture
def sides(face: Face, server: ScriptedServer) -> Iterator[list[Side]]:
    """Both drivers on one face."""
    uri = f"mongodb://{server.address}/?replicaSet=rs0"
    kind = pymongo.AsyncMongoClient if face.is_async else pymongo.MongoClient
    peer: Any = face.run(lambda: kind(uri))
    yield [
        Side("mangonel", face.client(uri), mangonel, mangonel.bson),
        Side("pymongo", peer, pymongo, bson),
    ]
    face.run(peer.close)


@CHOSEN
@PLAYED
@given(text=calls(), plan=PLANS)
def test_any_bulk_write_of_a_client_ends_as_in_pymongo(
    sides: list[Side], server: ScriptedServer, face: Face, text: str, plan: Plan
) -> None:
    ours, theirs = (each.play(text, server, Plan(plan.fails, plan.fates, plan.most), face) for each in sides)
    assert ours == theirs, f"{text}\n{plan}"
