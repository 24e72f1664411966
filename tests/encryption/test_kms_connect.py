"""`kms_connect_callback`: the application opens connections to key services, and an HTTP proxy carries them."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from encryption.http_proxy import http_proxy
from encryption.scripted_kms import PROVIDERS, ScriptedKms, providers, server_context
from encryption.seen import shown
from mangonel import errors
from mangonel.encryption import (
    Algorithm,
    AsyncHTTPProxyKMSConnect,
    AutoEncryptionOpts,
    HTTPProxyKMSConnect,
    KMSConnectContext,
)
from tls.certificates import Certificates
from tools.faces import eventually

RANDOM = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random
SECRET = "a password: with @signs"


def via(face: Any, *args: Any, **options: Any) -> Any:
    return (AsyncHTTPProxyKMSConnect if face.is_async else HTTPProxyKMSConnect)(*args, **options)


def callback(face: Any, connect: Callable[[KMSConnectContext], Any]) -> Any:
    """Make a callback of the face."""

    async def on_loop(context: KMSConnectContext) -> Any:
        return connect(context)

    return on_loop if face.is_async else connect


@pytest.fixture(params=["http", "https"])
def proxy(request: pytest.FixtureRequest, certificates: Certificates) -> Any:
    """A proxy, and the arguments of a callback that reaches it."""
    is_secure = request.param == "https"
    with http_proxy(server_context(certificates.server) if is_secure else None) as made:
        made.ssl_context = (  # type: ignore[attr-defined]
            ssl.create_default_context(cafile=str(certificates.authority)) if is_secure else None
        )
        yield made


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_data_key_is_made_through_a_proxy(
    face: Any, kms: ScriptedKms, keys_of: Any, proxy: Any, kind: str
) -> None:
    login = f"http{'s' if proxy.ssl_context else ''}://me:a%20password%3A%20with%20%40signs@127.0.0.1:{proxy.port}"
    connect = via(face, login, proxy.ssl_context, {"X-Trace": "7"})
    keys, master = keys_of(kind, kms, kms_connect_callback=connect)

    key_id = face.wait(keys.create_data_key(kind, master))
    face.wait(keys.encrypt("457-55-5462", RANDOM, key_id))

    assert kms.connections == proxy.carried == len(proxy.heads) >= 1
    head = proxy.heads[0].decode()
    assert head.startswith(f"CONNECT {kms.address} HTTP/1.1\r\nHost: {kms.address}\r\nX-Trace: 7\r\n")
    assert base64.b64encode(f"me:{SECRET}".encode()).decode() in head


def test_a_client_that_decrypts_asks_through_its_callback(
    face: Any, kms: ScriptedKms, keys_of: Any, certificates: Certificates, standalone: Any, vault: str
) -> None:
    keys, master = keys_of("aws", kms)
    secret = face.wait(keys.encrypt(7, RANDOM, face.wait(keys.create_data_key("aws", master))))
    seen: list[KMSConnectContext] = []

    def connect(context: KMSConnectContext) -> socket.socket:
        seen.append(context)
        return socket.create_connection((context.host, context.port), context.timeout)

    options = AutoEncryptionOpts(
        providers("aws", kms.address)[0],
        vault,
        bypass_auto_encryption=True,
        kms_tls_options={"aws": {"tlsCAFile": str(certificates.authority)}},
        kms_connect_callback=callback(face, connect),
    )
    plain = face.client(standalone.uri)[vault.partition(".")[0]].people
    face.wait(plain.insert_one({"_id": 1, "n": secret}))
    people = face.client(standalone.uri, auto_encryption_opts=options)[vault.partition(".")[0]].people

    assert face.wait(people.find_one({"_id": 1}))["n"] == 7
    (context,) = seen
    assert f"{context.host}:{context.port}" == kms.address
    assert 0 < context.timeout <= 10


def test_the_key_service_itself_is_verified(
    face: Any, kms: ScriptedKms, keys_of: Any, tmp_path: Path
) -> None:
    """A callback that reaches another service gets no request."""
    other = Certificates(tmp_path)
    with http_proxy() as proxy:
        keys, master = keys_of(
            "aws",
            kms,
            kms_connect_callback=via(face, proxy.url),
            kms_tls_options={"aws": {"tlsCAFile": str(other.authority)}},
        )
        with pytest.raises(errors.EncryptionError, match="tlsCAFile"):
            face.wait(keys.create_data_key("aws", master))
    assert not kms.requests


WRONG: dict[str, tuple[Callable[[KMSConnectContext], Any], str]] = {
    "nothing": (lambda context: None, "NoneType"),
    "not connected": (lambda context: socket.socket(), "not connected"),
    "datagrams": (lambda context: socket.socket(socket.AF_INET, socket.SOCK_DGRAM), "datagram"),
    "a TLS socket": (
        lambda context: ssl.create_default_context().wrap_socket(socket.socket(), server_hostname="a"),
        "SSLSocket",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_result_that_cannot_carry_tls_is_refused_at_once(
    face: Any, kms: ScriptedKms, keys_of: Any, name: str
) -> None:
    make, text = WRONG[name]
    made: list[Any] = []

    def connect(context: KMSConnectContext) -> Any:
        made.append(make(context))
        return made[-1]

    keys, master = keys_of("aws", kms, kms_connect_callback=callback(face, connect))
    with pytest.raises(errors.EncryptionError, match=text) as caught:
        face.wait(keys.create_data_key("aws", master))
    assert isinstance(caught.value.cause, errors.ConfigurationError)
    assert len(made) == 1
    assert made[0] is None or made[0].fileno() == -1


@pytest.mark.parametrize("kind", [OSError, ValueError])
def test_a_callback_that_fails_is_tried_as_often_as_a_service(
    face: Any, kms: ScriptedKms, keys_of: Any, kind: type[Exception]
) -> None:
    count = 0

    def connect(context: KMSConnectContext) -> socket.socket:
        nonlocal count
        count += 1
        if count == 1:
            raise kind("the first is refused")
        return socket.create_connection((context.host, context.port))

    keys, master = keys_of("aws", kms, kms_connect_callback=callback(face, connect))
    assert face.wait(keys.create_data_key("aws", master)).subtype == 4
    assert count == 2


def test_a_callback_that_always_fails_is_named(face: Any, kms: ScriptedKms, keys_of: Any) -> None:
    def connect(context: KMSConnectContext) -> socket.socket:
        raise ValueError("no way out")

    keys, master = keys_of("aws", kms, kms_connect_callback=callback(face, connect))
    with pytest.raises(errors.EncryptionError, match=f"aws service {kms.address}.*no way out"):
        face.wait(keys.create_data_key("aws", master))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407"),
        (b"HTTP/1.1 2000 X\r\n\r\n", "2000"),
        (b"SSH-2.0\r\n\r\n", "SSH"),
        (b"HTTP/1.1 200 OK\r\n", "closed the connection"),
        (b"", "closed the connection"),
        (b"x" * 9000, "too long"),
    ],
)
def test_a_proxys_refusal_is_in_the_error(face: Any, proxy: Any, answer: bytes, text: str) -> None:
    proxy.plan = lambda head: answer
    scheme = "https" if proxy.ssl_context else "http"
    connect = via(face, f"{scheme}://me:{SECRET[:10]}@127.0.0.1:{proxy.port}", proxy.ssl_context)

    with pytest.raises(OSError, match=text) as caught:
        face.run(lambda: connect(KMSConnectContext("kms.example", 443, 10)))

    assert f"proxy 127.0.0.1:{proxy.port}" in str(caught.value)
    assert "kms.example:443" in str(caught.value)
    assert SECRET[:10] not in shown(caught.value)


def test_a_silent_proxy_costs_no_more_than_the_time_limit(face: Any, kms: ScriptedKms, keys_of: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connect = via(face, f"http://127.0.0.1:{silent.getsockname()[1]}")
        keys, master = keys_of("aws", kms, kms_connect_callback=connect)
        with pytest.raises(errors.EncryptionError) as caught:
            face.within(0.3, lambda: keys.create_data_key("aws", master))
    assert caught.value.timeout


def test_a_coroutine_that_waits_for_ever_is_cancelled(kms: ScriptedKms, keys_of: Any, face: Any) -> None:
    if not face.is_async:
        pytest.skip("Python cannot end a blocking function")
    told: list[str] = []

    async def connect(context: KMSConnectContext) -> socket.socket:
        told.append("begun")
        try:
            await asyncio.sleep(3600)
        finally:
            told.append("cancelled")
        raise AssertionError

    keys, master = keys_of("aws", kms, kms_connect_callback=connect)

    def is_begun() -> bool:
        with pytest.raises(errors.EncryptionError) as caught:
            face.within(0.2, lambda: keys.create_data_key("aws", master))
        assert caught.value.timeout
        return told != []

    # On a slow machine the time may be over before.
    eventually(is_begun)
    assert told == ["begun", "cancelled"]


def test_a_callback_of_the_other_face_is_refused_when_it_is_given(face: Any, make_keys: Any) -> None:
    async def on_loop(context: KMSConnectContext) -> None:
        return None

    def blocking(context: KMSConnectContext) -> None:
        return None

    for wrong in (
        blocking if face.is_async else on_loop,
        (HTTPProxyKMSConnect if face.is_async else AsyncHTTPProxyKMSConnect)("http://proxy:1"),
    ):
        with pytest.raises(errors.ConfigurationError, match=r"for the (asynchronous|blocking) API"):
            make_keys(kms_connect_callback=wrong)
    for kind in (
        lambda **given: AutoEncryptionOpts({"local": {"key": bytes(96)}}, "a.b", **given),
        make_keys,
    ):
        with pytest.raises(TypeError, match="must be callable"):
            kind(kms_connect_callback=1)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("ftp://proxy", {}),
        ("proxy:8080", {}),
        ("http://", {}),
        ("http://proxy:0", {}),
        ("http://proxy:99999", {}),
        ("http://[::1", {}),
        ("http://proxy/path", {}),
        ("http://proxy?x=1", {}),
        ("http://me:hidden@", {}),
        ("me:hidden@proxy:1", {}),
        ("http://me:hid@den@proxy:0", {}),
        ("http://proxy", {"ssl_context": ssl.create_default_context()}),
        ("http://proxy", {"headers": {"Host": "a"}}),
        ("http://proxy", {"headers": {"a b": "a"}}),
        ("http://proxy", {"headers": {"a": "hidden\r\nb"}}),
        ("http://me@proxy", {"headers": {"proxy-authorization": "hidden"}}),
        ("http://proxy", {"headers": {"a": 1}}),
        (b"http://proxy", {}),
    ],
)
def test_pymongo_refuses_the_same_proxies(url: Any, options: dict[str, Any]) -> None:
    theirs = pytest.importorskip("pymongo.encryption_options").HTTPProxyKMSConnect
    with pytest.raises(Exception) as expected:  # its class is compared
        theirs(url, **options)
    with pytest.raises(Exception) as caught:
        HTTPProxyKMSConnect(url, **options)
    assert type(caught.value).__name__ == type(expected.value).__name__
    assert "hid" not in str(caught.value)


@pytest.mark.parametrize("host", ["a b", "a\r\nX: 1", "a\x00"])
def test_a_host_that_would_split_the_request_is_refused(host: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="host name"):
        HTTPProxyKMSConnect("http://127.0.0.1:1")(KMSConnectContext(host, 443, 1))


def test_a_socket_that_arrives_late_is_closed(certificates: Certificates) -> None:
    """The thread that connects outlives the task that waits for it; `http_proxy` asserts that all are closed."""
    with http_proxy() as proxy:

        def slow(head: bytes) -> None:
            time.sleep(0.3)

        proxy.plan = slow
        with socket.create_server(("127.0.0.1", 0)) as target:
            context = KMSConnectContext("127.0.0.1", target.getsockname()[1], 10)

            async def give_up() -> None:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(AsyncHTTPProxyKMSConnect(proxy.url)(context), 0.1)
                await asyncio.sleep(0.5)

            asyncio.run(give_up())
