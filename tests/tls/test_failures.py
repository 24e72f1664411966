"""Faults of a secured connection are reported with a remedy, and as early as they can be found."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import pytest

from mangonel import AsyncMongoClient, MongoClient
from mangonel.errors import ConfigurationError, InvalidURI, ServerSelectionTimeoutError
from mangonel.server import Server
from tls.certificates import PASSWORD, Certificates
from tools.faces import EMPTY, Face, in_the_end
from tools.scripted_server import ScriptedServer


def uri_of(server: ScriptedServer) -> str:
    return f"mongodb://localhost:{server.port}/?directConnection=true"


def failure(face: Face, server: ScriptedServer, *words: str, **options: Any) -> str:
    """Return the message of a client that finds no server; on a busy machine its first attempt takes time."""
    server.on("find", EMPTY)
    return message_of(face, uri_of(server), *words, **options)


def message_of(face: Face, uri: str, *words: str, **options: Any) -> str:
    message = ""
    for limit_ms in (300, 3000, 20_000):
        client = face.client(uri, serverSelectionTimeoutMS=limit_ms, **options)
        with pytest.raises(ServerSelectionTimeoutError) as caught:
            face.run(lambda client=client: client.shop.orders.find_one())
        message = str(caught.value)
        if all(word in message for word in words):
            break
    return message


@pytest.mark.parametrize(
    ("certificate", "options", "words"),
    [
        ("server", {"tlsCAFile": "other_authority"}, ["no authority that this client trusts", "tlsCAFile"]),
        ("server", {"tls": True}, ["no authority that this client trusts", "tlsCAFile"]),
        ("elsewhere", {}, ["other host names", "localhost", "tlsAllowInvalidHostnames"]),
        ("expired", {}, ["has expired", "renew"]),
        ("revoked", {"tlsCRLFile": "revocations"}, ["was revoked"]),
    ],
)
def test_a_certificate_that_is_refused_is_named_with_the_remedy(
    face: Face,
    certificates: Certificates,
    server_context: Any,
    certificate: str,
    options: dict[str, Any],
    words: list[str],
) -> None:
    options = {"tlsCAFile": "authority", **options} if "tls" not in options else options
    options = {name: getattr(certificates, str(value), value) for name, value in options.items()}
    options = {name: value if value is True else str(value) for name, value in options.items()}
    with ScriptedServer(ssl_context=server_context(getattr(certificates, certificate))) as server:
        message = failure(face, server, *words, **options)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_wants_a_client_certificate_is_told_apart(
    face: Face, certificates: Certificates, server_context: Any, version: ssl.TLSVersion
) -> None:
    context = server_context(demands_client=True)
    context.maximum_version = version
    with ScriptedServer(ssl_context=context) as server:
        message = failure(face, server, "tlsCertificateKeyFile", tlsCAFile=str(certificates.authority))
    assert "tlsCertificateKeyFile" in message


def test_a_server_without_tls_is_told_apart(
    face: Face, certificates: Certificates, standalone: Server
) -> None:
    uri = f"mongodb://{standalone.members[0].address}/?directConnection=true"
    words = "may not speak TLS"
    assert words in message_of(face, uri, words, tlsCAFile=str(certificates.authority))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tls": True}, r"in the TLS handshake for \d\.\d s; the server may not speak TLS on this port"),
        ({}, r"no reply to hello for \d\.\d s"),
    ],
)
def test_a_server_that_has_not_answered_in_time_is_told_by_what_was_asked_of_it(
    face: Face, options: dict[str, Any], words: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"mongodb://127.0.0.1:{silent.getsockname()[1]}/?directConnection=true"
        # The connection exists as soon as the system has accepted it.
        client = face.client(uri, serverSelectionTimeoutMS=1000, **options)
        said = rf"\(Unknown: {words}\)$"
        in_the_end(ServerSelectionTimeoutError, said, lambda: face.run(lambda: client.shop.orders.find_one()))


def test_a_client_without_tls_hears_that_the_server_may_want_it(face: Face, server_context: Any) -> None:
    with ScriptedServer(ssl_context=server_context()) as server:
        message = failure(face, server, "set tls=true")
    assert "set tls=true" in message


@pytest.mark.parametrize("make", [MongoClient, AsyncMongoClient])
@pytest.mark.parametrize(
    ("password", "words"),
    [
        (None, "is encrypted; give tlsCertificateKeyFilePassword"),
        ("wrong", "tlsCertificateKeyFilePassword may be wrong"),
    ],
)
def test_a_key_that_cannot_be_decrypted_fails_when_the_client_is_made(
    certificates: Certificates, make: Any, password: str | None, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        make(
            tlsCertificateKeyFile=str(certificates.locked_client),
            tlsCertificateKeyFilePassword=password,
            connect=False,
        )


def test_the_password_of_a_key_stays_out_of_messages(certificates: Certificates) -> None:
    with pytest.raises(ConfigurationError) as caught:
        MongoClient(
            tlsCertificateKeyFile=str(certificates.locked_client), tlsCertificateKeyFilePassword="hush-hush"
        )
    assert "hush-hush" not in str(caught.value)


@pytest.mark.parametrize("option", ["tlsCAFile", "tlsCRLFile", "tlsCertificateKeyFile"])
def test_a_file_that_holds_nothing_useful_is_named(tmp_path: Any, option: str) -> None:
    path = tmp_path / "nothing.pem"
    path.write_text("nothing")
    with pytest.raises(ConfigurationError, match=f"{option}.*nothing.pem"):
        MongoClient(**{option: str(path)})


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tls": False, "tlsCAFile": "authority"}, ConfigurationError),
        ({"tlsInsecure": True, "tlsAllowInvalidCertificates": True}, InvalidURI),
        ({"ssl_context": ssl.create_default_context(), "tlsCAFile": "authority"}, ConfigurationError),
        ({"ssl_context": ssl.create_default_context(), "tlsAllowInvalidHostnames": True}, ConfigurationError),
        ({"ssl_context": ssl.create_default_context(), "tls": False}, ConfigurationError),
        ({"ssl_context": "no context"}, TypeError),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    certificates: Certificates, options: dict[str, Any], error: type[Exception]
) -> None:
    if "tlsCAFile" in options:
        options = {**options, "tlsCAFile": str(certificates.authority)}
    with pytest.raises(error):
        MongoClient(**options)


def test_the_right_password_opens_the_key(
    face: Face, certificates: Certificates, server_context: Any
) -> None:
    with ScriptedServer(ssl_context=server_context(demands_client=True)) as server:
        server.on("find", EMPTY)
        client = face.client(
            uri_of(server),
            tlsCAFile=str(certificates.authority),
            tlsCertificateKeyFile=str(certificates.locked_client),
            tlsCertificateKeyFilePassword=PASSWORD,
        )
        assert face.run(lambda: client.shop.orders.find_one()) is None


@pytest.mark.parametrize("moment", ["wrap", "handshake", "decryption"])
def test_an_applications_context_that_raises_anything_fails_a_check_and_not_the_monitor(
    face: Face, certificates: Certificates, server_context: Any, moment: str
) -> None:
    left = [moment]

    def fail_once(now: str) -> None:
        if now in left:
            left.remove(now)
            raise RuntimeError("the card is not in its reader")

    class Engine(ssl.SSLObject):
        def do_handshake(self) -> None:
            fail_once("handshake")
            super().do_handshake()

        def read(self, *arguments: Any) -> Any:
            fail_once("decryption")
            return super().read(*arguments)

    class Context(ssl.SSLContext):
        sslobject_class = Engine

        def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
            fail_once("wrap")
            return super().wrap_bio(*arguments, **options)

    context = Context(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificates.authority)
    with ScriptedServer(ssl_context=server_context()) as server:
        server.on("find", EMPTY)
        client = face.client(uri_of(server), ssl_context=context)
        assert face.run(lambda: client.shop.orders.find_one()) is None
    assert not left
