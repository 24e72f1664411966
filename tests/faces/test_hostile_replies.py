"""Replies of random bytes on both faces: each gives a result or an error that names it, and the client goes on.

The commands are those of `test_malformed_replies`, which changes values in well-formed replies. Here the bytes change,
so that Rust's reading and Python's use of the reply are tried together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faces.test_malformed_replies import ROWS, VALUES, changed, cursor, places
from mangonel.bson import encode
from mangonel.bson.errors import BSONError
from mangonel.errors import PyMongoError
from tools.faces import Face
from tools.scripted_server import Reply, ScriptedServer

# Bytes that may be read as a length, a count or an element's type.
BYTES = (0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x07, 0x09, 0x0D, 0x0F, 0x10, 0x11, 0x12, 0x13, 0x7F, 0x80, 0xFF)


@st.composite
def hostile(draw: Any, good: dict[str, Any]) -> bytes:
    """Return a reply's bytes, some of them changed, left out or repeated."""
    document = good
    for _ in range(draw(st.integers(0, 2))):
        if there := list(places(document)):
            document = changed(document, draw(st.sampled_from(there)), draw(st.sampled_from(VALUES)))
    data = bytearray(encode(document))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data) - 1))
        size = draw(st.integers(1, 8))
        match draw(st.integers(0, 3)):
            case 0:
                data[at] = draw(st.sampled_from(BYTES))
            case 1:
                del data[at : at + size]
            case 2:
                data[at:at] = data[at : at + size]
            case _:
                data[at : at + size] = draw(st.binary(min_size=1, max_size=8))
        if len(data) < 5:
            break
    if draw(st.booleans()):
        # Most readers stop where the length says.
        data[:4] = len(data).to_bytes(4, "little")
    return bytes(data)


@pytest.fixture
def hostile_server() -> Iterator[ScriptedServer]:
    with ScriptedServer(hello={"maxWireVersion": 25}) as server:
        server.on("getMore", cursor(batch="nextBatch"))
        yield server


def test_reply_of_any_bytes_is_read_or_refused(face: Face, hostile_server: ScriptedServer) -> None:
    server = hostile_server
    client = face.client(server.uri, retryReads=False, retryWrites=False)

    # Connections and threads stay from one example to the next.
    @settings(suppress_health_check=list(HealthCheck))
    @given(st.data())
    def read(data: Any) -> None:
        name, command, good, call = data.draw(st.sampled_from(ROWS), label="operation")
        server.on(command, Reply(data.draw(hostile(good), label=f"reply to {name}")))
        try:
            repr(face.run(lambda: call(client.shop.orders)))
        except (PyMongoError, BSONError):
            pass
        finally:
            server.on(command, good)

    read()
    server.on("find", cursor({"_id": 1}))
    assert face.run(client.shop.orders.find_one) == {"_id": 1}
