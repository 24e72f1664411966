"""GSSAPI with a real KDC, against a scripted server that accepts clients' tokens with the key in its keytab."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel._auth.kerberos import canonical_host
from mangonel.engines.programs import Missing
from mangonel.errors import ConfigurationError, OperationFailure, ProtocolError
from tools.faces import EMPTY, TIMEOUT, Face
from tools.kerberos import Kdc, load_gssapi, running
from tools.messages import Request
from tools.needed import go_without
from tools.scripted_server import Close, ScriptedServer

REALM, OTHER = "EXAMPLE.ORG", "OTHER.EXAMPLE"
ADA, PASSWORD = f"ada@{REALM}", "secret%of/ada"
# Principals of the scripted server, each with its keytab.
SERVICES = (
    f"mongodb/127.0.0.1@{REALM}",
    f"mongodb/localhost@{REALM}",
    f"database/127.0.0.1@{REALM}",
    f"mongodb/127.0.0.1@{OTHER}",
)
CLOSED_PORT = 1
REFUSED = {"ok": 0, "code": 18, "codeName": "AuthenticationFailed", "errmsg": "Authentication failed."}
NO_LAYER, ONLY_INTEGRITY = b"\x01\x00\x00\x00", b"\x02\x00\x10\x00"


@pytest.fixture(scope="session")
def gssapi() -> ModuleType:
    try:
        return load_gssapi()
    except Missing as error:
        go_without(error)


@pytest.fixture(scope="module")
def realm(gssapi: ModuleType) -> Iterator[Kdc]:
    """A KDC that knows Ada and the servers; shared."""
    try:
        with running(REALM, OTHER) as kdc:
            kdc.add_user(ADA, PASSWORD)
            kdc.keytabs = {
                service: kdc.add_keytab(service, f"{number}.keytab")
                for number, service in enumerate(SERVICES)
            }
            yield kdc
    except Missing as error:
        go_without(error)


@pytest.fixture
def kdc(realm: Kdc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kdc:
    """The KDC, and a user of this process without tickets."""
    for name, value in realm.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'cache'}")
    return realm


class MongoService:
    """The server's half of the conversation, as RFC 4752 has it.

    Attributes:
        principal: whose key it has.
        offer: the security layers that it offers.
        last: how it ends the conversation.
        users: the names that were asked for, each with the principal that asked.
    """

    def __init__(
        self, gssapi: ModuleType, server: ScriptedServer, kdc: Kdc, principal: str = SERVICES[0]
    ) -> None:
        self._gssapi = gssapi
        self._kdc = kdc
        self._contexts: dict[int, Any] = {}
        self.principal = principal
        self.offer = NO_LAYER
        self.last = said(b"", done=True)
        self.users: list[tuple[str, str]] = []
        server.on("saslStart", self.start)
        server.on("saslContinue", self.go_on)
        server.on("find", EMPTY)

    def start(self, request: Request) -> dict[str, Any]:
        assert request.command["mechanism"] == "GSSAPI"
        assert request.command["$db"] == "$external"
        assert request.command["autoAuthorize"] == 1
        keytab = self._kdc.keytabs[self.principal]
        credentials = self._gssapi.Credentials(usage="accept", store={"keytab": str(keytab)})
        context = self._gssapi.SecurityContext(creds=credentials, usage="accept")
        self._contexts[request.connection] = context
        return said(context.step(request.command["payload"]))

    def go_on(self, request: Request) -> dict[str, Any]:
        context, payload = self._contexts[request.connection], request.command["payload"]
        if not payload:
            return said(context.wrap(self.offer, False).message)
        choice = context.unwrap(payload).message
        assert choice[:4] == NO_LAYER
        self.users.append((choice[4:].decode(), str(context.initiator_name)))
        return self.last


def said(payload: bytes, *, done: bool = False) -> dict[str, Any]:
    return {"ok": 1, "conversationId": 7, "done": done, "payload": payload}


@pytest.fixture
def service(gssapi: ModuleType, scripted_server: ScriptedServer, kdc: Kdc) -> MongoService:
    return MongoService(gssapi, scripted_server, kdc)


@pytest.fixture
def ticket(gssapi: ModuleType, kdc: Kdc) -> None:
    """Put Ada's ticket into the cache, as `kinit` does."""
    name = gssapi.Name(ADA, gssapi.NameType.kerberos_principal)
    found = gssapi.raw.acquire_cred_with_password(name, PASSWORD.encode(), usage="initiate")
    gssapi.Credentials(found.creds).store(usage="initiate", overwrite=True, set_default=True)


@pytest.fixture
def kdc_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that makes this process look for the KDC at another port."""

    def change(port: int) -> None:
        config = tmp_path / "krb5.conf"
        config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_canonicalize_hostname = false\n"
            f" udp_preference_limit = 1\n[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        )
        monkeypatch.setenv("KRB5_CONFIG", str(config))

    return change


def client_of(face: Face, server: ScriptedServer, *, password: str | None = PASSWORD, **options: Any) -> Any:
    return face.client(server.uri, username=ADA, password=password, authMechanism="GSSAPI", **options)


def find(face: Face, client: Any) -> Any:
    return face.run(lambda: client.shop.orders.find_one())


def test_a_password_gets_the_ticket_that_logs_in(
    face: Face, scripted_server: ScriptedServer, service: MongoService
) -> None:
    find(face, client_of(face, scripted_server))
    assert service.users == [(ADA, ADA)]
    assert len(scripted_server.received("saslContinue")) == 2
    assert all("speculativeAuthenticate" not in request.command for request in scripted_server.requests)


@pytest.mark.usefixtures("ticket")
def test_a_ticket_in_the_cache_logs_in_by_a_uri_without_password(
    face: Face, scripted_server: ScriptedServer, service: MongoService
) -> None:
    user = ADA.replace("@", "%40")
    uri = f"mongodb://{user}@{scripted_server.address}/?directConnection=true&authMechanism=GSSAPI"
    find(face, face.client(uri))
    assert service.users == [(ADA, ADA)]


def test_a_client_keytab_logs_in(
    blocking_face: Face, scripted_server: ScriptedServer, service: MongoService, realm: Kdc, monkeypatch: Any
) -> None:
    job = f"{blocking_face.name}-job@{REALM}"
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(realm.add_keytab(job, f"{blocking_face.name}.keytab")))
    find(
        blocking_face,
        blocking_face.client(scripted_server.uri, username=job, authMechanism="GSSAPI"),
    )
    assert service.users == [(job, job)]


def test_further_connections_need_no_kdc(
    face: Face, scripted_server: ScriptedServer, service: MongoService, kdc_at: Callable[[int], None]
) -> None:
    client = client_of(face, scripted_server)
    find(face, client)
    kdc_at(CLOSED_PORT)
    scripted_server.once("find", Close())
    find(face, client)
    assert service.users == [(ADA, ADA)] * 2


def test_many_connections_log_in_side_by_side(
    face: Face, scripted_server: ScriptedServer, service: MongoService
) -> None:
    client = client_of(face, scripted_server, maxConnecting=10)
    for future in [face.start(lambda: client.shop.orders.find_one()) for _ in range(10)]:
        future.result(TIMEOUT)
    assert set(service.users) == {(ADA, ADA)}


def test_a_server_that_wants_to_see_the_user_again_gets_a_new_conversation_on_the_same_connection(
    face: Face, scripted_server: ScriptedServer, service: MongoService
) -> None:
    client = client_of(face, scripted_server)
    scripted_server.once("find", {"ok": 0, "code": 391, "errmsg": "expired"})
    find(face, client)
    assert service.users == [(ADA, ADA)] * 2
    first, second = scripted_server.received("saslStart")
    assert first.connection == second.connection


@pytest.mark.parametrize(
    ("properties", "principal"),
    [
        ({"SERVICE_NAME": "database"}, SERVICES[2]),
        ({"SERVICE_REALM": OTHER}, SERVICES[3]),
        ({"SERVICE_HOST": "localhost"}, SERVICES[1]),
        ({"CANONICALIZE_HOST_NAME": "none"}, SERVICES[0]),
    ],
    ids=str,
)
def test_properties_name_the_servers_principal(
    blocking_face: Face,
    scripted_server: ScriptedServer,
    service: MongoService,
    properties: dict[str, Any],
    principal: str,
) -> None:
    service.principal = principal
    find(blocking_face, client_of(blocking_face, scripted_server, authMechanismProperties=properties))
    assert service.users == [(ADA, ADA)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (False, "Alias.example"),
        ("none", "Alias.example"),
        ("forward", "real.example"),
        ("forwardAndReverse", "reverse.example"),
        (True, "reverse.example"),
    ],
)
def test_a_host_name_is_looked_up_as_asked(
    monkeypatch: pytest.MonkeyPatch, kind: bool | str, expected: str
) -> None:
    address = ("192.0.2.1", 0)
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "Real.example", address)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(
        socket, "getnameinfo", lambda asked, _: ("Reverse.example", "0") if asked == address else None
    )
    assert canonical_host("Alias.example", kind) == expected


def test_a_host_name_that_cannot_be_looked_up_is_an_error_that_names_the_property(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(OperationFailure, match=r"db\.example: .*CANONICALIZE_HOST_NAME"):
        canonical_host("db.example", True)


def test_a_wrong_password_is_refused_by_the_kdc_and_nothing_is_sent_to_the_server(
    face: Face, scripted_server: ScriptedServer, service: MongoService
) -> None:
    with pytest.raises(OperationFailure, match="check the password") as caught:
        find(face, client_of(face, scripted_server, password="wrong-password"))
    assert ADA in str(caught.value)
    assert "wrong-password" not in str(caught.value)
    assert scripted_server.received("saslStart") == []


def test_without_a_ticket_the_error_says_which_command_gets_one(
    face: Face, scripted_server: ScriptedServer, service: MongoService
) -> None:
    with pytest.raises(OperationFailure, match=f"kinit {ADA}"):
        find(face, client_of(face, scripted_server, password=None))
    assert scripted_server.received("saslStart") == []


def test_a_server_that_the_realm_does_not_know_gets_nothing(
    face: Face, scripted_server: ScriptedServer, service: MongoService
) -> None:
    properties = {"SERVICE_NAME": "unknown"}
    with pytest.raises(OperationFailure, match="cannot authenticate"):
        find(face, client_of(face, scripted_server, authMechanismProperties=properties))
    assert scripted_server.received("saslStart") == []


def test_a_server_with_another_key_cannot_read_the_ticket_and_says_so(
    face: Face, scripted_server: ScriptedServer, service: MongoService
) -> None:
    service.principal = SERVICES[1]
    with pytest.raises(OperationFailure, match="ticket isn't for us"):
        find(face, client_of(face, scripted_server))
    assert service.users == []


def test_a_user_without_rights_is_refused_by_the_server(
    face: Face, scripted_server: ScriptedServer, service: MongoService
) -> None:
    service.last = REFUSED
    with pytest.raises(OperationFailure, match="with GSSAPI against database") as caught:
        find(face, client_of(face, scripted_server))
    assert caught.value.code == 18
    assert service.users == [(ADA, ADA)]


def test_a_server_that_does_not_prove_itself_is_not_trusted(
    face: Face, scripted_server: ScriptedServer, service: MongoService
) -> None:
    scripted_server.on("saslStart", said(b"", done=True))
    with pytest.raises(OperationFailure, match="before it proved who it is"):
        find(face, client_of(face, scripted_server))
    scripted_server.on("saslStart", said(b"no token"))
    with pytest.raises(OperationFailure, match="cannot authenticate"):
        find(face, client_of(face, scripted_server))
    assert scripted_server.received("find") == []


@pytest.mark.parametrize("offer", [ONLY_INTEGRITY, NO_LAYER + b"\x00", b""], ids=repr)
def test_an_offer_that_needs_a_security_layer_is_refused(
    blocking_face: Face, scripted_server: ScriptedServer, service: MongoService, offer: bytes
) -> None:
    service.offer = offer
    with pytest.raises(ProtocolError, match="security layer"):
        find(blocking_face, client_of(blocking_face, scripted_server))
    assert service.users == []


def test_a_conversation_that_does_not_end_is_broken_off(
    blocking_face: Face, scripted_server: ScriptedServer, service: MongoService
) -> None:
    service.last = said(b"")
    with pytest.raises(ProtocolError, match="expected the server to end"):
        find(blocking_face, client_of(blocking_face, scripted_server))


def test_the_event_loop_runs_on_while_the_kdc_is_asked(
    async_face: Face,
    scripted_server: ScriptedServer,
    service: MongoService,
    kdc_at: Callable[[int], None],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as slow:
        kdc_at(slow.getsockname()[1])
        is_asked, is_free = threading.Event(), threading.Event()

        def answer_nothing_until_the_loop_ran() -> None:
            connection, _ = slow.accept()
            is_asked.set()
            is_free.wait(TIMEOUT)
            # The library must not try this KDC again.
            slow.close()
            connection.close()

        threading.Thread(target=answer_nothing_until_the_loop_ran, daemon=True).start()

        async def steps() -> None:
            client = client_of(async_face, scripted_server)
            login = asyncio.ensure_future(client.shop.orders.find_one())
            while not is_asked.is_set():
                await asyncio.sleep(0.01)
            for _ in range(10):
                await asyncio.sleep(0)
            assert not login.done()
            is_free.set()
            with pytest.raises(OperationFailure, match="cannot authenticate"):
                await login

        async_face.run(steps)


def test_without_the_library_it_is_said_what_to_install_and_nothing_is_sent(
    face: Face, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "gssapi"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigurationError, match=r"GSSAPI authentication requires .*mangonel\[gssapi\]"):
        find(face, client_of(face, scripted_server))
    assert scripted_server.received("saslStart") == []


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        (
            {"SERVICENAME": "db"},
            r"expected one of .*SERVICE_NAME.* in authMechanismProperties, got 'SERVICENAME'",
        ),
        ({"CANONICALIZE_HOST_NAME": "forwards"}, "CANONICALIZE_HOST_NAME 'forwards' must be one of"),
    ],
)
def test_a_property_that_would_be_ignored_is_refused(properties: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        MongoClient("a.example", authMechanism="GSSAPI", authMechanismProperties=properties, connect=False)
