"""Lower bounds send the same requests as a driver, and notice a different reply."""

from __future__ import annotations

import itertools

import pytest

from mangonel.lab.contender import Batching, Target

pymongo = pytest.importorskip("pymongo", reason="floors encode their commands with PyMongo's bson")

from pymongo import monitoring  # noqa: E402

from mangonel.lab.contenders import _wire, raw  # noqa: E402


class Listener(monitoring.CommandListener):
    """Keeps the commands that PyMongo sends."""

    def __init__(self) -> None:
        self.sent = []

    def started(self, event):
        self.sent.append(event.command)

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass


@pytest.fixture
def spied(server, database_name):
    """A PyMongo collection and the commands it has sent."""
    listener = Listener()
    with pymongo.MongoClient(server.uri, w=1, event_listeners=[listener]) as client:
        yield client[database_name]["people"], listener.sent


@pytest.fixture
def floor(server, database_name):
    found = raw.RawSocket(Target(server.uri, database_name, "people", 1))
    yield found
    found.close()


def body(message: bytearray) -> dict:
    import bson

    size = int.from_bytes(message[_wire.BODY : _wire.BODY + 4], "little")
    return bson.decode(bytes(message[_wire.BODY : _wire.BODY + size]))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (lambda people: people.find_one({"_id": 5}), lambda commands: commands.find_one_key(5)),
        (lambda people: people.insert_one({"1": "one", "2": "two"}), lambda commands: commands.insert_next()),
        (lambda people: people.find({}, limit=30).to_list(), lambda commands: commands.find_list(30)),
    ],
    ids=["find_one", "insert", "find"],
)
def test_a_floor_sends_what_pymongo_sends(spied, floor, theirs, ours):
    collection, sent = spied
    theirs(collection)
    mine, wanted = body(ours(floor._commands)), sent[-1]
    assert set(mine) == set(wanted) - {"documents", "$readPreference"}
    for key, value in mine.items():
        if key in {"lsid", "txnNumber"}:
            assert type(value) is type(wanted[key]), key
        elif key != "$clusterTime":
            assert value == wanted[key], key


def test_each_insert_has_its_own_id_and_the_next_transaction_number(spied, floor):
    collection, _ = spied
    numbers = [body(floor._commands.insert_next())["txnNumber"] for _ in range(3)]
    for _ in range(20):
        floor.insert_one({})
    assert [after - before for before, after in itertools.pairwise(numbers)] == [1, 1]
    assert collection.count_documents({"1": "one", "2": "two"}) == 20


@pytest.mark.parametrize("batching", [Batching(), Batching(50), Batching(50, exhaust=True)])
def test_draining_reads_every_document_once(spied, floor, batching):
    collection, _ = spied
    collection.insert_many([{"_id": number} for number in range(777)])
    assert [document["_id"] for document in floor.documents(batching)] == list(range(777))
    assert floor.iterate(batching) == 777
    collection.delete_one({"_id": 500})
    with pytest.raises(_wire.Refused, match="bytes of replies"):
        floor.iterate(batching)


def test_a_reply_of_another_size_is_refused(spied, floor):
    collection, _ = spied
    collection.insert_one({"_id": 1, "name": "Ada"})
    floor.find_one(1)
    with pytest.raises(_wire.Refused, match="find_one"):
        floor.find_one(2)


def test_a_deployment_that_a_bare_socket_cannot_reach_is_refused():
    for uri in ("mongodb+srv://example.org", "mongodb://u:p@example.org", "mongodb://example.org/?tls=true"):
        with pytest.raises(ValueError, match="raw socket"):
            _wire.address(uri)
        assert raw.CONTENDERS[0].unusable(uri)
