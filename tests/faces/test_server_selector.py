"""The user's `server_selector` narrows the suitable servers, on every face."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mangonel.errors import ServerSelectionTimeoutError
from mangonel.server_description import ServerDescription
from tools.faces import EMPTY, Face, eventually, in_the_end
from tools.scripted_server import ScriptedServer


@pytest.fixture
def routers() -> Iterator[list[ScriptedServer]]:
    made = [ScriptedServer(hello={"msg": "isdbgrid"}) for _ in range(3)]
    for router in made:
        router.on("find", EMPTY)
    yield made
    for router in made:
        router.stop()


def uri_of(servers: list[ScriptedServer]) -> str:
    return f"mongodb://{','.join(server.address for server in servers)}/?localThresholdMS=5000"


def test_operations_go_where_the_selector_says(face: Face, routers: list[ScriptedServer]) -> None:
    seen: list[list[Any]] = []

    def last(servers: list[ServerDescription]) -> list[ServerDescription]:
        seen.append(servers)
        return [server for server in servers if server.address[1] == routers[2].port]

    client = face.client(uri_of(routers), server_selector=last)
    for _ in range(20):
        face.run(lambda: client.shop.orders.find_one())
    assert [len(router.received("find")) for router in routers] == [0, 0, 20]
    assert all(isinstance(server, ServerDescription) for servers in seen for server in servers)
    assert {server.server_type_name for servers in seen for server in servers} == {"Mongos"}


def test_a_selector_that_leaves_none_is_asked_again_until_the_time_is_over(
    face: Face, routers: list[ScriptedServer]
) -> None:
    client = face.client(uri_of(routers), server_selector=lambda servers: [], serverSelectionTimeoutMS=200)
    said = r"the server_selector left none of the [123] that suit"
    in_the_end(ServerSelectionTimeoutError, said, lambda: face.run(lambda: client.shop.orders.find_one()))


def test_what_a_selector_raises_reaches_the_caller(face: Face, routers: list[ScriptedServer]) -> None:
    def broken(servers: list[ServerDescription]) -> list[ServerDescription]:
        raise KeyError("zone")

    client = face.client(uri_of(routers), server_selector=broken)
    with pytest.raises(KeyError, match="zone"):
        face.run(lambda: client.shop.orders.find_one())


def test_a_direct_connection_asks_no_selector(face: Face, routers: list[ScriptedServer]) -> None:
    client = face.client(routers[0].uri, server_selector=lambda servers: 1 / 0)
    assert face.run(lambda: client.shop.orders.find_one()) is None


def test_a_selector_may_use_the_client(face: Face, routers: list[ScriptedServer]) -> None:
    def curious(servers: list[ServerDescription]) -> list[ServerDescription]:
        assert client.options.server_selector is curious
        str(client._core)
        return servers

    client = face.client(uri_of(routers), server_selector=curious)
    face.run(lambda: client.shop.orders.find_one())
    eventually(lambda: sum(len(router.received("find")) for router in routers) == 1)


@pytest.mark.parametrize("rubbish", [None, 7, [1, 2], ["a:27017"]])
def test_a_selector_that_returns_something_else_is_told_what_is_expected(
    face: Face, routers: list[ScriptedServer], rubbish: Any
) -> None:
    client = face.client(uri_of(routers), server_selector=lambda servers: rubbish)
    with pytest.raises(
        TypeError, match="expected server_selector to return a list of the ServerDescriptions"
    ):
        face.run(lambda: client.shop.orders.find_one())


def test_the_topology_description_of_a_client_is_what_it_knows_now(
    face: Face, routers: list[ScriptedServer]
) -> None:
    client = face.client(uri_of(routers))
    face.run(lambda: client.shop.orders.find_one())
    known = client.topology_description
    assert known.topology_type_name == "Sharded"
    assert set(known.server_descriptions()) == {("127.0.0.1", router.port) for router in routers}
    assert client.topology_description._topology_id == known._topology_id
