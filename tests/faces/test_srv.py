"""`mongodb+srv://` on every face: the source of the hosts, the time of the first DNS query, and its repetition."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient
from mangonel._faces import monitors
from mangonel._options import srv
from mangonel.errors import ConfigurationError
from tools.dns_server import DnsServer
from tools.faces import EMPTY, TIMEOUT, Face, eventually
from tools.scripted_server import ScriptedServer

NAME = "cluster.example.test"
MONGOS = {"msg": "isdbgrid"}


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[DnsServer]:
    look_up = socket.getaddrinfo

    def look_up_here(host: Any, *args: Any, **named: Any) -> Any:
        is_ours = host in ("a.example.test", b"a.example.test")
        return look_up("127.0.0.1" if is_ours else host, *args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up_here)
    with DnsServer() as server:
        monkeypatch.setattr(srv, "query", server.query)
        yield server


@pytest.fixture
def routers() -> Iterator[list[ScriptedServer]]:
    made = [ScriptedServer(hello=MONGOS) for _ in range(3)]
    for router in made:
        router.on("find", EMPTY)
    yield made
    for router in made:
        router.stop()


def hosts_of(*servers: ScriptedServer) -> list[tuple[str, int]]:
    return [("a.example.test", server.port) for server in servers]


def addresses(client: Any) -> set[str]:
    return {address for address, _ in client._core.servers()}


def names(*servers: ScriptedServer) -> set[str]:
    return {f"a.example.test:{server.port}" for server in servers}


def test_hosts_come_from_dns(face: Face, dns: DnsServer, routers: list[ScriptedServer]) -> None:
    dns.srv(NAME, hosts_of(*routers))
    client = face.client(f"mongodb+srv://{NAME}/?tls=false")
    assert face.run(lambda: client.shop.orders.find_one()) is None
    assert addresses(client) == names(*routers)
    assert len(dns.asked) == 2


def test_an_event_loop_does_not_wait_for_dns(
    async_face: Face, dns: DnsServer, routers: list[ScriptedServer]
) -> None:
    dns.srv(NAME, hosts_of(routers[0]))
    client = async_face.client(f"mongodb+srv://{NAME}/?tls=false")
    assert dns.asked == []
    assert async_face.run(lambda: client.shop.orders.find_one()) is None
    assert client.options.seeds == (("a.example.test", routers[0].port),)


def test_many_first_operations_ask_dns_once(
    async_face: Face, dns: DnsServer, routers: list[ScriptedServer]
) -> None:
    dns.srv(NAME, hosts_of(routers[0]))
    client = async_face.client(f"mongodb+srv://{NAME}/?tls=false")
    running = [async_face.start(lambda: client.shop.orders.find_one()) for _ in range(20)]
    assert [future.result(TIMEOUT) for future in running] == [None] * 20
    assert len(dns.asked) == 2


def test_the_coroutine_of_a_client_that_is_gone_finds_its_hosts(
    async_face: Face, dns: DnsServer, routers: list[ScriptedServer]
) -> None:
    dns.srv(NAME, hosts_of(routers[0]))
    call = AsyncMongoClient(f"mongodb+srv://{NAME}/?tls=false").shop.orders.find_one()
    gc.collect()
    assert async_face.run(lambda: call) is None


def test_without_an_answer_each_operation_says_so_until_there_is_one(
    async_face: Face, dns: DnsServer, routers: list[ScriptedServer]
) -> None:
    client = async_face.client(f"mongodb+srv://{NAME}/?tls=false")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="does not exist"):
            async_face.run(lambda: client.shop.orders.find_one())
    dns.srv(NAME, hosts_of(routers[0]))
    assert async_face.run(lambda: client.shop.orders.find_one()) is None


def test_a_blocking_client_without_an_answer_is_not_made(dns: DnsServer) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        MongoClient(f"mongodb+srv://{NAME}/")


def test_dnspython_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "dns", None)
    with pytest.raises(ConfigurationError, match=r"mangonel\[srv\]"):
        MongoClient(f"mongodb+srv://{NAME}/")


@pytest.mark.parametrize(
    ("uri_options", "keywords", "is_secure"),
    [
        ("", {}, True),
        ("?tls=false", {}, False),
        ("?ssl=false", {}, False),
        ("", {"tls": False}, False),
        ("", {"ssl": False}, False),
        ("?tls=false", {"tls": True}, True),
    ],
)
def test_tls_is_on_unless_somebody_says_otherwise(
    dns: DnsServer, uri_options: str, keywords: dict[str, Any], is_secure: bool
) -> None:
    dns.srv(NAME, [("a.example.test", 1)])
    for make in (MongoClient, AsyncMongoClient):
        client: Any = make(f"mongodb+srv://{NAME}/{uri_options}", **keywords)
        assert (client.options.security is not None) is is_secure


def test_keywords_say_how_to_ask(dns: DnsServer) -> None:
    dns.srv(NAME, [(f"h{index}.other.test", 1) for index in range(5)], service="shop")
    client: Any = MongoClient(
        f"mongodb+srv://{NAME}/",
        srvServiceName="shop",
        srvMaxHosts=2,
        srv_host_validator=lambda host: host.endswith("other.test"),
    )
    assert len(client.options.seeds) == 2


def test_hosts_may_be_allowed_by_their_suffix(dns: DnsServer) -> None:
    pytest.importorskip("publicsuffixlist")
    dns.srv(NAME, [("h.example.com", 1)])
    with pytest.raises(ConfigurationError, match="Invalid SRV host"):
        MongoClient(f"mongodb+srv://{NAME}/")
    client: Any = MongoClient(f"mongodb+srv://{NAME}/?srvAllowedHostsSuffix=example.com")
    assert client.options.seeds == (("h.example.com", 1),)
    for suffix in ("com", "co.uk", "", "."):
        with pytest.raises(ConfigurationError):
            MongoClient(f"mongodb+srv://{NAME}/", srvAllowedHostsSuffix=suffix)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the client query DNS again at once; the core's tests check the interval."""
    monkeypatch.setattr(monitors, "_FIRST_PAUSE_S", 0.05)


def test_routers_that_come_and_go_are_followed(
    face: Face, dns: DnsServer, routers: list[ScriptedServer], soon: None
) -> None:
    dns.srv(NAME, hosts_of(routers[0], routers[1]), then=hosts_of(routers[1], routers[2]))
    client = face.client(f"mongodb+srv://{NAME}/?tls=false")
    assert face.run(lambda: client.shop.orders.find_one()) is None
    eventually(lambda: addresses(client) == names(routers[1], routers[2]), "the new routers")
    assert face.run(lambda: client.shop.orders.find_one()) is None


def test_an_answer_that_cannot_be_used_changes_nothing(
    face: Face, dns: DnsServer, routers: list[ScriptedServer], soon: None
) -> None:
    dns.srv(NAME, hosts_of(routers[0]), then=[("stranger.example.org", 1)])
    client = face.client(f"mongodb+srv://{NAME}/?tls=false")
    face.run(lambda: client.shop.orders.find_one())
    eventually(lambda: [kind for _, kind in dns.asked].count("SRV") > 1, "a second question")
    assert addresses(client) == names(routers[0])


def test_the_thread_that_asks_ends_with_the_client(
    face: Face, dns: DnsServer, routers: list[ScriptedServer], observers: Callable[[], int]
) -> None:
    dns.srv(NAME, hosts_of(routers[0]))
    client = face.client(f"mongodb+srv://{NAME}/?tls=false")
    face.run(lambda: client.shop.orders.find_one())
    assert observers() > 0
    face.run(client.close)
    eventually(lambda: observers() == 0, "the threads to end")


def test_a_replica_set_is_not_asked_for_again(
    face: Face, dns: DnsServer, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer() as member:
        member.hello.update(
            setName="rs", hosts=[f"a.example.test:{member.port}"], me=f"a.example.test:{member.port}"
        )
        member.on("find", EMPTY)
        dns.srv(NAME, hosts_of(member))
        dns.txt(NAME, "replicaSet=rs")
        client = face.client(f"mongodb+srv://{NAME}/?tls=false")
        face.run(lambda: client.shop.orders.find_one())
        assert client.options.replica_set_name == "rs"
        asked = threading.Event()
        monkeypatch.setattr(client.options.srv, "poll", lambda: asked.set() or ([], 0.0))
        asked.wait(0.5)
        eventually(lambda: not asked.is_set() or client._core.follow_srv(None, 0) is None)
        assert client._core.follow_srv(None, 0) is None
