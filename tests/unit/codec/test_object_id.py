"""ObjectId against the peer's: same constructor, order, hash, text and pickles. Spec: objectid."""

from __future__ import annotations

import copy
import datetime
import gc
import os
import pickle
import subprocess
import sys
import threading
from typing import Any

import bson as peer
import pytest
from bson.errors import InvalidId as PeerInvalidId

from mangonel import _core
from mangonel.bson.errors import InvalidId
from mangonel.bson.objectid import ObjectId

HEX = "0123456789abcdef01234567"


@pytest.mark.parametrize("value", [HEX, HEX.upper(), bytes.fromhex(HEX), b"foo-bar-quux"])
def test_valid_values_make_the_peers_id(value: Any) -> None:
    ours, theirs = ObjectId(value), peer.ObjectId(value)
    assert ours.binary == theirs.binary
    assert (str(ours), repr(ours), hash(ours)) == (str(theirs), repr(theirs), hash(theirs))
    assert ours.generation_time == theirs.generation_time
    assert ours.generation_time.utcoffset() == datetime.timedelta(0)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x",
        HEX[:-1],
        HEX + "0",
        "g" * 24,
        "é" * 12,
        "+1" * 12,
        b"",
        b"short",
        b"x" * 13,
        5,
        1.5,
        [],
        bytearray(12),
    ],
)
def test_invalid_values_raise_as_the_peer_does(value: Any) -> None:
    with pytest.raises((PeerInvalidId, TypeError)) as theirs:
        peer.ObjectId(value)
    with pytest.raises((InvalidId, TypeError)) as ours:
        ObjectId(value)
    assert ours.type.__name__ == theirs.type.__name__
    assert str(ours.value) == str(theirs.value)
    assert ObjectId.is_valid(value) is peer.ObjectId.is_valid(value) is False


@pytest.mark.parametrize("value", [None, 0, "", HEX, b"x" * 12, ObjectId(HEX)])
def test_is_valid_answers_as_the_peer_does(value: Any) -> None:
    theirs = peer.ObjectId(HEX) if isinstance(value, ObjectId) else value
    assert ObjectId.is_valid(value) is peer.ObjectId.is_valid(theirs)


def test_an_id_can_be_made_from_an_id_and_by_name() -> None:
    first = ObjectId(HEX)
    assert ObjectId(first) == first == ObjectId(oid=HEX) == ObjectId(oid=first)
    for arguments, keywords in (((HEX, HEX), {}), ((HEX,), {"oid": HEX}), ((), {"id": HEX})):
        with pytest.raises(TypeError):
            ObjectId(*arguments, **keywords)


def test_new_ids_are_unique_across_threads_and_share_the_random_part() -> None:
    made: list[list[ObjectId]] = [[] for _ in range(4)]

    def make(into: list[ObjectId]) -> None:
        into.extend(ObjectId() for _ in range(5000))

    threads = [threading.Thread(target=make, args=(into,)) for into in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [one for into in made for one in into]
    assert len(set(ids)) == len(ids)
    assert len({one.binary[4:9] for one in ids}) == 1
    assert made[0] == sorted(made[0]) or any(one.binary[9:] == b"\0\0\0" for one in ids)


def test_threads_that_make_the_first_ids_together_share_the_random_part() -> None:
    program = """
import os, threading
from mangonel.bson import ObjectId

# As the system's call does: it lets other threads run before it returns.
meet, urandom = threading.Barrier(4), os.urandom
os.urandom = lambda size: (meet.wait(50), urandom(size))[1]
ids = []
threads = [threading.Thread(target=lambda: ids.append(ObjectId())) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len({one.binary[4:9] for one in ids}) == 1, ids
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_new_ids_carry_the_time() -> None:
    made = ObjectId()
    age = datetime.datetime.now(datetime.UTC) - made.generation_time
    assert datetime.timedelta(0) <= age < datetime.timedelta(seconds=60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
# The test runner has other threads; the child calls nothing that waits for them.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_reseeding_in_a_child_takes_another_random_part() -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _core.reseed_object_ids()
        os.write(write, ObjectId().binary)
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 12)
    os.close(read)
    os.close(write)
    assert len(theirs) == 12
    assert theirs[4:9] != ObjectId().binary[4:9]


def test_comparison_is_by_bytes_and_only_with_ids() -> None:
    low, high = ObjectId(b"a" * 12), ObjectId(b"b" * 12)
    assert low < high
    assert low <= high
    assert high > low
    assert high >= low
    assert low != high
    assert low == ObjectId(b"a" * 12)
    for other in ("a" * 24, b"a" * 12, 5, None):
        assert low != other
        with pytest.raises(TypeError):
            low < other  # noqa: B015


def test_from_datetime_matches_the_peer() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=-5))
    for time in (datetime.datetime(2020, 5, 6, 7, 8, 9, 10), datetime.datetime(1999, 1, 1, tzinfo=zone)):
        assert ObjectId.from_datetime(time).binary == peer.ObjectId.from_datetime(time).binary
    with pytest.raises(TypeError):
        ObjectId.from_datetime("2020")  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        ObjectId.from_datetime(datetime.datetime(1960, 1, 1))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_and_copies_are_equal(protocol: int) -> None:
    value = ObjectId()
    assert pickle.loads(pickle.dumps(value, protocol)) == value
    assert copy.copy(value) == copy.deepcopy(value) == value


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_the_peer_can_be_read(protocol: int) -> None:
    theirs = peer.ObjectId()
    data = pickle.dumps(theirs, protocol)

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            return ObjectId if name == "ObjectId" else super().find_class(module, name)

    import io

    assert Unpickler(io.BytesIO(data)).load().binary == theirs.binary


@pytest.mark.parametrize("state", [b"x" * 12, "x" * 12, {"_ObjectId__id": b"x" * 12}])
def test_old_states_can_be_set(state: Any) -> None:
    value = ObjectId()
    value.__setstate__(state)
    assert value.binary == b"x" * 12


def test_a_bad_state_is_refused() -> None:
    for state in (b"short", 5, {}):
        with pytest.raises((InvalidId, TypeError, KeyError)):
            ObjectId().__setstate__(state)


class Child(ObjectId):
    """A subclass with an attribute."""

    def __init__(self, oid: Any = None) -> None:
        super().__init__(oid)
        self.note = "child"


def test_subclasses_behave_as_ids() -> None:
    child = Child(HEX)
    assert child == ObjectId(HEX)
    assert child.note == "child"
    assert type(Child.from_datetime(datetime.datetime(2020, 1, 1))) is Child
    assert type(pickle.loads(pickle.dumps(child))) is Child
    assert _core.encode({"_id": child}) == peer.encode({"_id": peer.ObjectId(HEX)})


def test_the_class_is_named_as_the_peers() -> None:
    assert (ObjectId.__module__, ObjectId.__qualname__) == ("mangonel.bson.objectid", "ObjectId")
    assert ObjectId._type_marker == peer.ObjectId._type_marker


def test_ids_come_and_go_without_leaking_the_class() -> None:
    held = [ObjectId() for _ in range(10_000)]
    del held
    gc.collect()
    before = sys.getrefcount(ObjectId)
    for _ in range(3):
        held = [ObjectId() for _ in range(10_000)]
        children = [Child() for _ in range(100)]
        del held, children
        gc.collect()
    assert abs(sys.getrefcount(ObjectId) - before) <= 2


def test_refused_values_leave_nothing_behind() -> None:
    before = sys.getrefcount(InvalidId)
    assert not any(ObjectId.is_valid("no id") for _ in range(500))
    assert sys.getrefcount(InvalidId) - before < 50
