"""Every store with a connection has a URL option to encrypt it, and then refuses any other server.

One authority has signed the servers' certificate, another one has not.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from inspect import isawaitable
from typing import Any
from urllib.parse import quote

import pytest
from cryptography import x509

from mangonel.engines.certificates import Certificates, certify
from mangonel.engines.engine import Engine
from mangonel.engines.programs import Missing
from mangonel.engines.stores import running
from mangonel.server import start
from mangonel.websessions import RequestView, StoreError, UsageError, WebSessions
from mangonel.websessions.stores.tls import advice
from mangonel.websessions.stores.urls import open_blocking, open_store
from mangonel.websessions.testing import a_record
from tools.needed import go_without

ENGINES = ("redis", "memcached", "mysql", "postgresql")
CLIENTS = {"redis": "redis", "memcached": "emcache", "mysql": "asyncmy", "postgresql": "asyncpg"}
# A visitor whom no store knows.
STRANGER = RequestView("__Host-sid=" + "A" * 43)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Certificates, Certificates]:
    made = [certify(tmp_path_factory.mktemp(name)) for name in ("trusted", "stranger")]
    return made[0], made[1]


@pytest.fixture(scope="module")
def secure_url(authorities: tuple[Certificates, Certificates]) -> Iterator[Callable[[str], str]]:
    """Return a function from an engine's name to the URL of one that encrypts, started once."""
    started: dict[str, str] = {}
    with ExitStack() as stack:

        def url_of(name: str) -> str:
            if name not in started:
                if name == "mongodb":
                    server = stack.enter_context(start(tls=authorities[0].for_mongod()))
                    started[name] = server.uri.replace("/?", "/app?")
                else:
                    started[name] = stack.enter_context(running(name, tls=authorities[0])).url
            return started[name]

        def url_or_skip(name: str) -> str:
            if name in CLIENTS:
                pytest.importorskip(CLIENTS[name])
            try:
                return url_of(name)
            except Missing as error:
                go_without(error)

        yield url_or_skip


async def loaded(load: Callable[[RequestView], Any]) -> None:
    """Load by either side; the blocking one returns no awaitable."""
    answer = load(STRANGER)
    if isawaitable(answer):
        await answer


@pytest.mark.enough(3)
@pytest.mark.parametrize("name", [*ENGINES, "mongodb"])
async def test_both_sides_of_a_store_put_and_get_over_tls(
    name: str, secure_url: Callable[[str], str]
) -> None:
    url = secure_url(name)
    store, blocking = open_store(url), open_blocking(url)
    try:
        if hasattr(store, "setup"):
            await store.setup()
        first, second = a_record(), a_record()
        assert await store.put(first, 0)
        assert blocking.put(second, 0)
        assert await store.get(second.key) == second
        assert blocking.get(first.key) == first
    finally:
        await store.aclose()
        blocking.close()


@pytest.mark.parametrize("name", [*ENGINES, "mongodb"])
async def test_a_certificate_of_another_authority_is_refused_with_what_would_help(
    name: str, secure_url: Callable[[str], str], authorities: tuple[Certificates, Certificates]
) -> None:
    right, wrong = (str(each.ca) for each in authorities)
    url = secure_url(name)
    assert quote(right) in url
    url = url.replace(quote(right), quote(wrong))
    if name == "mongodb":
        url += "&serverSelectionTimeoutMS=1000"
    sessions: WebSessions[Any] = WebSessions(url, events=lambda event: None)
    for load in (sessions.asynchronous.load, sessions.blocking.load):
        # The driver's short limit may pass before it has tried to connect.
        for _ in range(30):
            with pytest.raises(StoreError) as caught:
                await loaded(load)
            text = str(caught.value)
            if name != "mongodb" or "authority" in text:
                break
        assert "127.0.0.1:" in text
        if name == "mongodb":  # whose driver raises the error itself
            assert (
                "no authority that this client trusts has signed it; name the authority's certificate" in text
            )
        else:
            option = "sslrootcert" if name == "postgresql" else "tlsCAFile"
            assert f"a certificate for that host, signed by {option}={wrong}, got one that does not" in text
            assert f"give {option}= the file of the authority that signed it" in text
    await sessions.asynchronous.aclose()


@pytest.mark.parametrize("name", ENGINES)
async def test_a_certificate_for_another_host_is_refused(name: str, secure_url: Callable[[str], str]) -> None:
    # The name resolves to this machine too, but the certificate does not list it.
    url = secure_url(name).replace("127.0.0.1", "127.1")
    sessions: WebSessions[Any] = WebSessions(url, events=lambda event: None)
    with pytest.raises(StoreError, match=r"expected from \S*127\.1:\d+\S* a certificate for that host"):
        await sessions.asynchronous.load(STRANGER)
    await sessions.asynchronous.aclose()


async def test_every_connection_of_memcacheds_pool_verifies_and_not_the_first_alone(
    secure_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(secure_url("memcached").replace("127.0.0.1", "127.1") + "&timeout=0.5")

    async def trusting(host: str, port: int) -> None:
        return None

    monkeypatch.setattr(store, "_shake_hands", trusting)
    with pytest.raises(TimeoutError):  # emcache logs the error, and tries again
        await store.get(b"k" * 32)
    await store.aclose()


@pytest.mark.parametrize("name", ENGINES)
async def test_a_server_that_does_not_encrypt_is_not_spoken_to_in_the_clear(
    name: str, engine: Callable[[str], Engine], authorities: tuple[Certificates, Certificates]
) -> None:
    query = "sslmode=verify-full&sslrootcert" if name == "postgresql" else "timeout=1&tls=1&tlsCAFile"
    url = f"{engine(name).url}?{query}={authorities[0].ca}"
    sessions: WebSessions[Any] = WebSessions(url, events=lambda event: None)
    for load in (sessions.asynchronous.load, sessions.blocking.load):
        with pytest.raises(StoreError):
            await loaded(load)
    await sessions.asynchronous.aclose()


@pytest.mark.parametrize("opened", [open_store, open_blocking])
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("rediss://h/0?tls=0", "expected tls=1 or no tls with the scheme rediss .* got tls=0"),
        ("unix:///s?tls=1", "no TLS options with a Unix socket"),
        (
            "memcached://h?tlsCAFile=/no/file",
            "tlsCAFile as a file of certificates in PEM, got '/no/file': .*No such",
        ),
        ("mysql://h/app?tls=0&tlsCAFile=/x", "with tlsCAFile in the store's URL, got tls=0"),
        (
            "redis://h?tlsCertificateKeyFile=/no/file",
            "tlsCertificateKeyFile as a file of a certificate and its key",
        ),
        ("mysql://h/app?tls=perhaps", "expected tls as flag"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anybody_connects(
    opened: Callable[[str], Any], url: str, message: str
) -> None:
    pytest.importorskip("redis")
    pytest.importorskip("emcache")
    pytest.importorskip("asyncmy")
    with pytest.raises(UsageError, match=message):
        opened(url)


async def test_a_redis_that_wants_to_know_its_clients_is_shown_their_certificate(
    secure_url: Callable[[str], str], authorities: tuple[Certificates, Certificates]
) -> None:
    url = secure_url("redis")
    store: Any = open_blocking(url)
    await store.flows._send("CONFIG", "SET", "tls-auth-clients", "yes")
    try:
        known = open_store(f"{url}&tlsCertificateKeyFile={quote(str(authorities[0].pair))}")
        assert await known.get(b"k" * 32) is None
        unknown = open_store(url)
        with pytest.raises(Exception, match=r"(?i)certificate required|reset|closed|lost"):
            await unknown.get(b"k" * 32)
        await known.aclose()
        await unknown.aclose()
    finally:
        await store.flows._send("CONFIG", "SET", "tls-auth-clients", "no")
        store.close()


def test_advice_is_for_certificates_alone_and_tells_no_password() -> None:
    assert advice(ConnectionRefusedError("refused"), "redis://h") == ""
    outer = ConnectionError("it did not work")
    outer.__cause__ = ssl.SSLCertVerificationError(1, "certificate verify failed")
    text = advice(outer, "rediss://me:secret@h/0")
    assert "expected from rediss://…@h/0 a certificate" in text
    assert "signed by the system's authorities" in text
    assert "secret" not in text


def test_there_is_no_option_that_verifies_nothing() -> None:
    pytest.importorskip("redis")
    for option in ("ssl_cert_reqs=none", "tlsInsecure=1", "tlsAllowInvalidCertificates=1"):
        with pytest.raises(UsageError, match="knows no option"):
            open_store(f"rediss://h/0?{option}")


def test_the_certificate_of_a_run_is_for_this_machine_only(
    authorities: tuple[Certificates, Certificates],
) -> None:
    told = x509.load_pem_x509_certificate(authorities[0].certificate.read_bytes())
    names = told.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["localhost", "127.0.0.1"]
