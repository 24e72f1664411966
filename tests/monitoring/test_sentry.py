"""Sentry's integration with the real SDK, in a process of its own because it is enabled for a whole process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from mangonel.server import Server

sentry_sdk = pytest.importorskip("sentry_sdk")

PROGRAM = """
import asyncio, json, sys
import sentry_sdk
from sentry_sdk.transport import Transport
from mangonel import AsyncMongoClient, MongoClient
from mangonel.contrib.sentry import MangonelIntegration
from mangonel.errors import OperationFailure

sent = []
class Kept(Transport):
    def capture_envelope(self, envelope):
        sent.extend(item.payload.json for item in envelope.items if item.type == "transaction")

sentry_sdk.init(
    dsn="http://a@127.0.0.1:1/1", transport=Kept, traces_sample_rate=1.0, default_integrations=False,
    integrations=[MangonelIntegration()],
)
uri, database = sys.argv[1:]

def blocking():
    with MongoClient(uri) as client:
        things = client[database].things
        things.insert_many([{"_id": 1, "word": "secret"}, {"_id": 2}])
        things.find_one({"word": {"$in": ["secret", "x"]}})
        try:
            client[database].command("nope", {"word": "secret"})
        except OperationFailure:
            pass

async def looping():
    async with AsyncMongoClient(uri) as client:
        await asyncio.gather(*(client[database].things.find_one({"_id": n}) for n in range(3)))

with sentry_sdk.start_transaction(name="blocking"):
    blocking()
with sentry_sdk.start_transaction(name="asyncio"):
    asyncio.run(looping())
print(json.dumps(sent))
"""


def test_the_class_in_place_of_an_instance_is_refused_with_the_remedy() -> None:
    from mangonel.contrib.sentry import MangonelIntegration

    with pytest.raises(TypeError, match=r"got the class .*; write integrations=\[MangonelIntegration\(\)\]"):
        sentry_sdk.init(default_integrations=False, integrations=[MangonelIntegration])


def test_each_command_is_a_span_without_values(server: Server, database_name: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, server.uri, database_name],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert finished.returncode == 0, finished.stderr
    assert "secret" not in finished.stdout
    blocking, looping = json.loads(finished.stdout)

    told = [(span["description"], span["status"]) for span in blocking["spans"] if span["op"] == "db"]
    assert told[:3] == [
        ('{"insert":"things","ordered":true,"documents":[{"_id":"?","word":"?"}]}', "ok"),
        (
            '{"find":"things","filter":{"word":{"$in":["?"]}},"limit":1,"singleBatch":true}',
            "ok",
        ),
        ('{"nope":{"word":"?"}}', "internal_error"),
    ]
    facts = blocking["spans"][0]["data"]
    assert (facts["db.system"], facts["db.name"], facts["db.operation"]) == (
        "mongodb",
        database_name,
        "insert",
    )
    assert facts["db.mongodb.collection"] == "things"
    assert facts["server.address"] == "127.0.0.1"
    root = looping["contexts"]["trace"]["span_id"]
    assert [span["parent_span_id"] for span in looping["spans"] if "find" in span["description"]] == [
        root
    ] * 3
