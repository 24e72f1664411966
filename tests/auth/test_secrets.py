"""A password never appears: not in errors, tracebacks with locals, representations, logs, events or options."""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import mangonel
from auth.conftest import ROOT, uri
from auth.test_mechanisms import Provider, Tokens, oidc
from mangonel import AsyncMongoClient, MongoClient
from mangonel.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult
from mangonel.errors import ConfigurationError
from mangonel.monitoring import CommandListener
from mangonel.server import Server
from tools.faces import EMPTY, Face
from tools.frames import DRIVER, frames_below
from tools.scripted_server import Close, ScriptedServer

SECRET = "s3cr3t-w0rd"


def exposed(error: BaseException | None) -> str:
    """Return everything that a tool could show of an error: its message, and the driver's local variables."""
    shown = []
    while error is not None:
        shown += [str(error), repr(error), repr(getattr(error, "details", None))]
        for frame in frames_below(DRIVER, error):
            for name, value in frame.f_locals.items():
                try:
                    shown.append(f"{name}={value!r}")
                except Exception as failed:
                    shown.append(repr(failed))
        error = error.__cause__ or error.__context__
    return "\n".join(shown)


def check_hidden(face: Face, call: Callable[[], Any]) -> BaseException:
    with pytest.raises(Exception) as caught:  # any error must hide the secret
        face.run(call)
    assert SECRET not in exposed(caught.value)
    return caught.value


def test_the_check_itself_sees_locals_of_the_driver() -> None:
    with pytest.raises(TypeError) as caught:
        mangonel.common.validate_string(SECRET, 5)
    assert SECRET in exposed(caught.value)


@pytest.mark.parametrize("kind", [MongoClient, AsyncMongoClient])
@pytest.mark.parametrize(
    ("host", "options"),
    [
        (f"mongodb://u:{SECRET}@", {}),
        (f"mongodb://u:{SECRET}@a:b:c/", {}),
        (f"mongodb://u:{SECRET}@@a/", {}),
        (f"mongodb://u:{SECRET}@a/?authMechanism=GSSAPI&authSource=db", {}),
        (f"mongodb://u:{SECRET}@a/?authMechanism=MONGODB-X509", {}),
        (f"mongodb://u:{SECRET}@a/?directConnection=true", {"host": ["a", "b"]}),
        ("mongodb://a", {"username": "u", "password": SECRET, "maxPoolSize": -1}),
        ("mongodb://a", {"username": "u", "password": SECRET, "noSuchOption": 1}),
        ("mongodb://a", {"username": "u", "password": SECRET, "authMechanism": "MONGODB-X509"}),
        ("mongodb://a", {"username": "u", "password": SECRET, "tlsCAFile": "/no/such/file"}),
        (
            "mongodb://a",
            {
                "username": "u",
                "password": "p",
                "authMechanism": "MONGODB-AWS",
                "authSource": "x",
                "authMechanismProperties": {"AWS_SESSION_TOKEN": SECRET},
            },
        ),
    ],
)
def test_an_option_that_is_refused_shows_no_password(
    kind: type[Any], host: str, options: dict[str, Any]
) -> None:
    options = dict(options)
    hosts = options.pop("host", None)
    with pytest.raises(Exception) as caught:
        kind([host, *hosts] if hosts else host, **options)
    assert SECRET not in exposed(caught.value)


@pytest.mark.parametrize("kind", [MongoClient, AsyncMongoClient])
def test_a_refused_uri_that_is_a_classes_default_shows_no_password(kind: type[Any]) -> None:
    class AtHome(kind):  # type: ignore[misc, valid-type]
        HOST = f"mongodb://u:{SECRET}@a:b:c/"

    with pytest.raises(Exception) as caught:
        AtHome()
    assert SECRET not in exposed(caught.value)


def test_a_name_that_cannot_be_looked_up_shows_no_password(face: Face) -> None:
    def use() -> Any:
        return face.client(f"mongodb+srv://u:{SECRET}@a.b.c.invalid/").shop.orders.find_one()

    check_hidden(face, use)


def test_clients_options_and_credentials_show_no_password() -> None:
    pytest.importorskip("botocore")
    for client in (
        MongoClient(f"mongodb://u:{SECRET}@a/"),
        MongoClient("mongodb://a/", username="u", password=SECRET),
        AsyncMongoClient(f"mongodb://u:{SECRET}@a/?authMechanism=PLAIN"),
        MongoClient(f"mongodb://u:{SECRET}@a/?authMechanism=MONGODB-AWS"),
    ):
        credential = client.options._credentials
        assert credential is not None
        assert credential.password == SECRET
        shown = [client, client.db, client.db.c, client.options, client.options.pool_options, credential]
        shown += [client._core, client._port, credential.responder, credential.mechanism_properties]
        assert SECRET not in repr(shown) + str(client._core)
        for copier in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="credential"):
                copier(credential)  # type: ignore[operator]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256", "DEFAULT"])
def test_a_refused_password_is_not_shown(face: Face, guarded: Server, mechanism: str) -> None:
    client = face.client(uri(guarded, "both", SECRET, authMechanism=mechanism))
    check_hidden(face, lambda: client.shop.orders.find_one())


@pytest.mark.parametrize("phase", ["isMaster", "saslStart", "find"])
@pytest.mark.parametrize(
    "reply", [Close(), {"ok": 0, "code": 18, "errmsg": "no"}, {"ok": 1}, {"ok": 1, "payload": 5}]
)
def test_whatever_goes_wrong_with_the_server_shows_no_password(
    face: Face, scripted_server: ScriptedServer, phase: str, reply: Any
) -> None:
    scripted_server.on("saslStart", {"ok": 1, "done": True, "payload": b"", "conversationId": 1})
    scripted_server.on("find", EMPTY)
    client = face.client(
        scripted_server.uri,
        username="u",
        password=SECRET,
        authMechanism="PLAIN",
        serverSelectionTimeoutMS=300 if phase == "isMaster" else 60_000,
        retryReads=False,
    )
    if phase == "isMaster":
        scripted_server.once("isMaster", *[reply] * 30)
        scripted_server.once("hello", *[reply] * 30)
    else:
        scripted_server.on(phase, reply)
    if (phase, reply) in (("saslStart", {"ok": 1}), ("saslStart", {"ok": 1, "payload": 5})):
        # PLAIN needs no more than `ok`.
        face.run(lambda: client.shop.orders.find_one())
    else:
        check_hidden(face, lambda: client.shop.orders.find_one())


@pytest.mark.parametrize("is_trusted", [True, False])
def test_tokens_are_not_shown(face: Face, scripted_server: ScriptedServer, is_trusted: bool) -> None:
    provider = Provider(scripted_server, *[SECRET] * is_trusted)
    client = oidc(face, scripted_server, {"OIDC_HUMAN_CALLBACK": Tokens(SECRET, refresh_tokens=True)})
    scripted_server.on("find", {"ok": 0, "code": 59, "errmsg": "no"})
    check_hidden(face, lambda: client.shop.orders.find_one())
    assert provider.seen == [SECRET]
    assert SECRET not in repr([client.options._credentials, client.options._credentials.responder])
    assert SECRET not in repr(OIDCCallbackResult(SECRET, refresh_token=SECRET))


def test_a_refresh_token_is_not_shown_when_the_callback_fails(
    face: Face, scripted_server: ScriptedServer
) -> None:
    class Once(OIDCCallback):
        def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
            if context.refresh_token:
                raise LookupError("no more")
            return OIDCCallbackResult(SECRET, refresh_token=SECRET)

    Provider(scripted_server, SECRET)
    client = oidc(face, scripted_server, {"OIDC_HUMAN_CALLBACK": Once()})
    scripted_server.on("find", {"ok": 0, "code": 391, "errmsg": "expired"})
    check_hidden(face, lambda: client.shop.orders.find_one())


def test_logs_and_events_show_no_password_nor_conversation(
    face: Face, guarded: Server, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    class Listener(CommandListener):
        def started(self, event: Any) -> None:
            seen.append((event.command_name, repr(event.command)))

        def succeeded(self, event: Any) -> None:
            seen.append((event.command_name, repr(event.reply)))

        def failed(self, event: Any) -> None:
            seen.append((event.command_name, repr(event.failure)))

    caplog.set_level(logging.DEBUG)
    good = face.client(guarded.uri, event_listeners=[Listener()])
    face.run(lambda: good.admin.command("createUser", "temporary", pwd=SECRET, roles=[]))
    face.run(lambda: good.admin.command("dropUser", "temporary"))
    bad = face.client(uri(guarded, "both", SECRET), event_listeners=[Listener()])
    check_hidden(face, lambda: bad.shop.orders.find_one())
    assert ("createUser", "{}") in seen
    shown = repr(seen) + caplog.text + repr([record.__dict__ for record in caplog.records])
    for secret in (SECRET, ROOT[1], "payload", "saslStart"):
        assert secret not in shown, secret


@pytest.mark.parametrize("command", ["createUser", "updateUser", "saslStart", "authenticate"])
@pytest.mark.parametrize("way", ["refused", "closed", "not encodable", "no session"])
def test_a_command_that_sets_a_password_and_fails_shows_none(
    face: Face, scripted_server: ScriptedServer, command: str, way: str
) -> None:
    refusal = {"ok": 0, "code": 51003, "errmsg": "User already exists"}
    scripted_server.on(command, Close() if way == "closed" else refusal)
    client = face.client(scripted_server.uri)
    fields: dict[str, Any] = {"pwd": SECRET, "roles": []}
    if way == "not encodable":
        fields["customData"] = object()
    session = object() if way == "no session" else None
    check_hidden(face, lambda: client.admin.command(command, "user", session=session, **fields))
    check_hidden(face, lambda: client.admin.command({command: "user", **fields}, session=session))


@pytest.mark.parametrize("kind", [MongoClient, AsyncMongoClient])
@pytest.mark.parametrize("where", ["username", "password"])
def test_an_option_that_utf_8_has_no_characters_for_shows_no_password(kind: type[Any], where: str) -> None:
    options = {"username": "u", "password": "p", "appname": "a", where: SECRET + "\ud800"}
    with pytest.raises(ConfigurationError, match="lone surrogate") as caught:
        kind("mongodb://127.0.0.1:1", connect=False, **options)
    assert SECRET not in exposed(caught.value)
