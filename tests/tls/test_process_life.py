"""Secured connections and the life of a process: forks, and the interpreter's exit."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tls.certificates import Certificates
from tools.faces import Face, connections_of, found
from tools.scripted_server import ScriptedServer

EXITS = {
    "blocking": "MongoClient(sys.argv[1], tlsCAFile=sys.argv[2]).shop.orders.find_one()",
    "kept": "client = MongoClient(sys.argv[1], tlsCAFile=sys.argv[2]); client.shop.orders.find_one()",
    "asyncio": "asyncio.run(AsyncMongoClient(sys.argv[1], tlsCAFile=sys.argv[2]).shop.orders.find_one())",
}


def _find(client: Any, is_async: bool, results: Any) -> None:
    if is_async:
        import asyncio

        async def ask() -> Any:
            return await client.shop.orders.find_one()

        results.put(asyncio.run(ask()))
    else:
        results.put(client.shop.orders.find_one())


def test_a_forked_child_makes_secured_connections_of_its_own(
    face: Face, certificates: Certificates, server_context: Any
) -> None:
    with ScriptedServer(ssl_context=server_context()) as server:
        server.on("find", found({"_id": 1}))
        uri = f"mongodb://localhost:{server.port}/?directConnection=true"
        client = face.client(uri, tlsCAFile=str(certificates.authority))
        face.run(client.shop.orders.find_one)
        context = multiprocessing.get_context("fork")
        results = context.SimpleQueue()
        child = context.Process(target=_find, args=(client, face.is_async, results))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert results.get() == {"_id": 1}
        # The child sent nothing on the parent's connection, which continues.
        assert face.run(client.shop.orders.find_one) == {"_id": 1}
        assert len(connections_of(server, "find")) == 2
        assert [request.connection for request in server.received("find")][0::2] == [
            server.received("find")[0].connection
        ] * 2


@pytest.mark.parametrize("name", EXITS)
def test_the_interpreter_exits_cleanly(certificates: Certificates, server_context: Any, name: str) -> None:
    import mangonel

    with ScriptedServer(ssl_context=server_context()) as server:
        server.on("find", found({"_id": 1}))
        uri = f"mongodb://localhost:{server.port}/?directConnection=true"
        code = f"import asyncio, sys\nfrom mangonel import AsyncMongoClient, MongoClient\n{EXITS[name]}"
        ended = subprocess.run(
            [sys.executable, "-c", code, uri, str(certificates.authority)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(Path(mangonel.__file__).parent.parent)},
            check=False,
        )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
