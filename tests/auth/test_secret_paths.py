"""Generated failures while a secret is in use: no error, frame, representation or log record shows it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from auth.test_secrets import SECRET
from mangonel import AsyncMongoClient, MongoClient
from tls.certificates import Certificates
from tools.faces import Face
from tools.frames import DRIVER, frames_below
from tools.scripted_server import Close, ScriptedServer

__all__ = ["certificates"]

# Options that the client refuses, beside a valid secret.
WRONG_OPTIONS: dict[str, dict[str, Any]] = {
    "an unknown option": {"noSuchOption": 1},
    "a negative pool": {"maxPoolSize": -1},
    "an unknown read preference": {"readPreference": "first"},
    "a file that is not there": {"tlsCAFile": "/no/such/file"},
    "a set that is a number": {"replicaSet": 5},
    "a negative time": {"connectTimeoutMS": -5},
    "a long name": {"appname": "a" * 129},
    "listeners that are none": {"event_listeners": [5]},
    "documents that are numbers": {"document_class": int},
    "an unknown mechanism": {"authMechanism": "NOPE"},
    "unknown properties": {"authMechanism": "SCRAM-SHA-1", "authMechanismProperties": "NOPE"},
    "two hosts for one": {"directConnection": True},
    "a name that cannot be encoded": {"appname": "\ud800"},
}
# Ways to hand a secret to a client: the hosts and the options.
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "a URI's password": (f"mongodb://u:{SECRET}@127.0.0.1:1/", {}),
    "a password": ("mongodb://127.0.0.1:1/", {"username": "u", "password": SECRET}),
    "a session's token": (
        "mongodb://k:v@127.0.0.1:1/",
        {"authMechanism": "MONGODB-AWS", "authMechanismProperties": {"AWS_SESSION_TOKEN": SECRET}},
    ),
    "a key's password": ("mongodb://127.0.0.1:1/", {"tlsCertificateKeyFilePassword": SECRET, "tls": True}),
}
# Faults of a URI that has a password.
WRONG_URIS = [
    f"mongodb://u:{SECRET}@",
    f"mongodb://u:{SECRET}@a:b:c/",
    f"mongodb://u:{SECRET}@@a/",
    f"mongodb://u:{SECRET}/x@a:1/",
    f"mongodb://u:x/{SECRET}@a:1/db",
    f"mongodb://u:1/{SECRET}%40a/db",
    f"mongodb://u:{SECRET}%zz@a/",
    f"mongodb://u:{SECRET}@a:99999/",
    f"mongodb://u:{SECRET}@[::1/",
    f"mongodb://u:{SECRET}@a/?tls=true&tls=false&ssl=false",
    f"mongodb://u:{SECRET}@a/?w=0&journal=true",
    f"mongodb://u:{SECRET}@a/?authMechanism=GSSAPI&authSource=db",
    f"mongodb+srv://u:{SECRET}@127.0.0.1/",
    f"mongodb+srv://u:{SECRET}@a.example,b.example/",
    f"mongodb://k:v@a/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN-{SECRET}",
    f"mongodb://k:v@a/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:{SECRET},{SECRET}:1",
    f"mongodb://a/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:{SECRET}",
    f"mongodb://a/?tlsCertificateKeyFile=/no/such/file&tlsCertificateKeyFilePassword={SECRET}",
]
COMMANDS = ["createUser", "updateUser", "saslStart", "saslContinue", "authenticate"]
# Failures of a command that carries a secret: the server's reply, and further fields.
WRONG_COMMANDS: dict[str, tuple[Any, dict[Any, Any]]] = {
    "refused": ({"ok": 0, "code": 51003, "errmsg": "no"}, {}),
    "closed": (Close(), {}),
    "an object": ({"ok": 1}, {"customData": object()}),
    "a lone surrogate": ({"ok": 1}, {"pwd": SECRET + "\ud800"}),
    "a key that is no string": ({"ok": 1}, {5: 6}),
    "an int too large": ({"ok": 1}, {"customData": {"a": 2**70}}),
}

Path_ = tuple[str, Callable[[], Any]]


def option_paths(kind: type[Any], certificates: Certificates, folder: Path) -> Iterator[Path_]:
    """Yield the name and the call of each path on which making a client fails."""
    for way, (host, given) in WAYS.items():
        for wrong, more in WRONG_OPTIONS.items():
            hosts = [host, "127.0.0.1:2"] if "directConnection" in more else host
            yield f"{way}, {wrong}", partial(kind, hosts, connect=False, **{**given, **more})
    for uri in WRONG_URIS:
        yield uri, partial(kind, uri)
    nothing = folder / "nothing.pem"
    nothing.write_text("nothing", encoding="ascii")
    for file in (certificates.locked_client, nothing, folder / "none.pem"):
        options: dict[str, Any] = {
            "tlsCertificateKeyFile": str(file),
            "tlsCertificateKeyFilePassword": SECRET,
        }
        yield f"a key's password, {file.name}", partial(kind, connect=False, **options)
    for name in ("username", "password"):
        options = {"username": "u", "password": "p", name: SECRET + "\ud800"}
        yield f"{name} with a lone surrogate", partial(kind, "mongodb://a", **options)


def command_paths(face: Face, server: ScriptedServer) -> Iterator[Path_]:
    """Yield the name and the call of each path on which a command with a secret fails."""
    client = face.client(server.uri)
    for command in COMMANDS:
        for wrong, (reply, more) in WRONG_COMMANDS.items():
            if wrong == "closed" and command != "createUser":
                # After each failure the server is checked again, half a second later.
                continue
            fields = {"pwd": SECRET, "payload": SECRET, "key": SECRET, **more}

            def as_document(fields: Any = fields, command: str = command, reply: Any = reply) -> Any:
                server.on(command, reply)
                return client.admin.command({command: "user", **fields})

            def as_keywords(fields: Any = fields, command: str = command, reply: Any = reply) -> Any:
                server.on(command, reply)
                return client.admin.command(command, "user", **fields)

            yield f"{command} as a document, {wrong}", partial(face.run, as_document)
            if all(isinstance(key, str) for key in fields):
                yield f"{command} by keywords, {wrong}", partial(face.run, as_keywords)


def shown_by(error: BaseException, seen: set[int]) -> Iterator[str]:
    """Yield everything that a tool could show of an error and its causes: words, attributes, the driver's locals."""
    if id(error) in seen:
        return
    seen.add(id(error))
    yield f"{error} {error!r} {error.args!r} {vars(error)!r} {getattr(error, '__notes__', '')}"
    for frame in frames_below(DRIVER, error):
        for name, value in frame.f_locals.items():
            try:
                yield f"{frame.f_code.co_qualname}: {name}={value!r}"
            except Exception as failed:
                yield repr(failed)
    # A tool may follow either, despite `raise from`.
    for other in (error.__cause__, error.__context__):
        if other is not None:
            yield from shown_by(other, seen)


def leaks(paths: Iterator[Path_], log: pytest.LogCaptureFixture) -> tuple[list[str], int]:
    """Run every path, each of which must raise or warn; return the places that showed the secret, and the count."""
    found, walked = [], 0
    for name, call in paths:
        log.clear()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                call()
            except Exception as error:
                texts = list(shown_by(error, set()))
            else:
                # Faults of a URI only cause warnings.
                texts = [] if warned else [f"did not fail, and {SECRET} was never reported"]
        walked += 1
        texts += [f"{warning.message} {warning.message!r}" for warning in warned]
        found += [f"{name}: {text[:300]}" for text in texts if SECRET in text]
        for record in log.records:
            if SECRET in f"{record.getMessage()} {record.__dict__!r}":
                found.append(f"{name}: log record of {record.name}")
    return found, walked


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("kind", [MongoClient, AsyncMongoClient])
def test_no_path_on_which_making_a_client_fails_shows_a_secret(
    kind: type[Any], certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    found, walked = leaks(option_paths(kind, certificates, tmp_path), caplog)
    assert found == []
    assert walked >= 60


def test_no_path_on_which_a_command_with_a_secret_fails_shows_it(
    face: Face, scripted_server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    found, walked = leaks(command_paths(face, scripted_server), caplog)
    assert found == []
    assert walked >= 40
