"""Connections through a SOCKS5 proxy, on each face, monitors included.

Spec: socks5-support.
"""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient
from mangonel.errors import InvalidURI, NetworkTimeout, ServerSelectionTimeoutError
from mangonel.server import Server
from tools.faces import eventually, in_the_end
from tools.socks_proxy import SocksProxy

SECRET = "s3cret:/?"


def ping(face: str, uri: str, **options: Any) -> Any:
    """Return the reply to a ping by a client of a face, with a name that only the proxy knows."""
    if face == "blocking":
        with MongoClient(uri, **options) as client:
            return client.admin.command("ping")

    async def run() -> Any:
        async with AsyncMongoClient(uri, **options) as client:
            return await client.admin.command("ping")

    return asyncio.run(run())


def refused_in_the_end(face: str, said: str, uri: str, **options: Any) -> None:
    """Expect that no server is found, for the given reason."""
    options["serverSelectionTimeoutMS"] = 500
    in_the_end(ServerSelectionTimeoutError, said, lambda: ping(face, uri, **options))


@pytest.fixture(params=["blocking", "asyncio"])
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def route(server: Server) -> tuple[str, int]:
    host, port = server.uri.removeprefix("mongodb://").partition("/")[0].split(",")[0].rsplit(":", 1)
    return host, int(port)


def test_every_connection_goes_through_the_proxy(face: str, route: tuple[str, int]) -> None:
    with SocksProxy(route=route) as proxy:
        uri = (
            f"mongodb://only.the.proxy:1234/?directConnection=true&proxyHost=127.0.0.1&proxyPort={proxy.port}"
        )

        assert ping(face, uri)["ok"] == 1

    assert len(proxy.asked) >= 2
    assert set(proxy.asked) == {("only.the.proxy", 1234)}


@pytest.mark.parametrize(
    ("host", "asked", "kind"),
    [("127.0.0.1", "127.0.0.1", 1), ("[::1]", "::1", 4), ("localhost", "localhost", 3)],
)
def test_an_ip_address_is_told_as_one(
    face: str, route: tuple[str, int], host: str, asked: str, kind: int
) -> None:
    with SocksProxy(route=route) as proxy:
        options = {"proxyHost": "127.0.0.1", "proxyPort": proxy.port, "directConnection": True}

        assert ping(face, f"mongodb://{host}:1234", **options)["ok"] == 1

    assert set(proxy.asked) == {(asked, 1234)}
    assert set(proxy.kinds) == {kind}


def test_the_proxy_is_told_user_and_password(face: str, route: tuple[str, int]) -> None:
    with SocksProxy((b"ada", SECRET.encode()), route) as proxy:
        options = {"proxyHost": "localhost", "proxyPort": proxy.port, "proxyUsername": "ada"}
        uri = "mongodb://only.the.proxy/?directConnection=true"

        assert ping(face, uri, **options, proxyPassword=SECRET)["ok"] == 1
        refused_in_the_end(
            face, "refused proxyUsername and proxyPassword", uri, **options, proxyPassword="other"
        )
        anonymous = {"proxyHost": "localhost", "proxyPort": proxy.port}
        refused_in_the_end(face, "set proxyUsername and proxyPassword", uri, **anonymous)


def test_a_refusal_says_why(face: str) -> None:
    with SocksProxy(refusal=5) as proxy:
        options = {"proxyHost": "localhost", "proxyPort": proxy.port}
        said = r"did not connect to a\.example:1234: connection refused"
        refused_in_the_end(face, said, "mongodb://a.example:1234", **options)


@pytest.mark.parametrize("host", ["a" * 256, "é" * 80])
def test_a_name_that_socks5_cannot_carry_is_an_unreachable_server(face: str, host: str) -> None:
    with SocksProxy() as proxy:
        options = {"proxyHost": "localhost", "proxyPort": proxy.port}
        refused_in_the_end(face, "more than 255 bytes", f"mongodb://{host}", **options)


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("127.0.0.1", r"\[Errno \d+\] the proxy 127\.0\.0\.1:1: .*[Cc]onnect"),
        ("nowhere.invalid", r"the proxy nowhere\.invalid:1: "),
    ],
)
def test_a_proxy_that_cannot_be_reached_is_named(face: str, host: str, reason: str) -> None:
    refused_in_the_end(face, reason, "mongodb://a.example:1234", proxyHost=host, proxyPort=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"in the SOCKS5 handshake with the proxy {name} for \d\.\d s"),
        ({"connectTimeoutMS": 200}, "the proxy {name}: no answer in the SOCKS5 handshake"),
    ],
)
def test_a_proxy_that_does_not_answer_is_named(face: str, options: dict[str, Any], words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        said = words.format(name=re.escape(f"127.0.0.1:{port}"))
        uri = "mongodb://a.example/?directConnection=true&tls=true"
        refused_in_the_end(face, said, uri, proxyHost="127.0.0.1", proxyPort=port, **options)


def test_an_operation_names_the_proxy_that_does_not_answer(face: str, route: tuple[str, int]) -> None:
    uri = "mongodb://only.the.proxy:1234/?directConnection=true&retryReads=false"
    said = r"the proxy 127\.0\.0\.1:{}: no answer in the SOCKS5 handshake"
    with SocksProxy(route=route) as proxy:
        options = {"proxyHost": "127.0.0.1", "proxyPort": proxy.port, "connectTimeoutMS": 300}
        if face == "blocking":
            with MongoClient(uri, **options) as client:
                eventually(lambda: client.topology_description.has_known_servers)
                proxy.is_silent = True
                with pytest.raises(NetworkTimeout, match=said.format(proxy.port)):
                    client.shop.orders.find_one()
            return

        async def run() -> None:
            async with AsyncMongoClient(uri, **options) as client:
                await client.aconnect()
                proxy.is_silent = True
                with pytest.raises(NetworkTimeout, match=said.format(proxy.port)):
                    await client.shop.orders.find_one()

        asyncio.run(run())


def test_a_password_is_not_shown() -> None:
    client = MongoClient(connect=False, proxyHost="a.example", proxyUsername="ada", proxyPassword=SECRET)

    assert "proxyHost='a.example'" in repr(client) or "proxyhost='a.example'" in repr(client)
    assert SECRET not in repr(client)


@pytest.mark.parametrize(
    "options",
    [
        {"proxyPort": 1080},
        {"proxyUsername": "ada", "proxyPassword": "x"},
        {"proxyHost": "a.example", "proxyUsername": "ada"},
        {"proxyHost": "a.example", "proxyPassword": "x"},
    ],
)
def test_options_that_lack_another_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidURI, match=r"expected (both proxyUsername|proxyHost)"):
        MongoClient(connect=False, **options)


@pytest.mark.parametrize("value", [0, 65_536, "x"])
def test_a_port_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="for proxyPort"):
        MongoClient(connect=False, proxyHost="a.example", proxyPort=value)
