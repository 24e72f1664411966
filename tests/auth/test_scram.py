"""SCRAM against a real mongod: who gets in, who does not, and what the error says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymongo
import pytest

from auth.conftest import ROOT, USERS, uri
from mangonel.errors import ConfigurationError, OperationFailure
from mangonel.server import Server, start
from tools.faces import TIMEOUT, Face

SCRAM = ["SCRAM-SHA-1", "SCRAM-SHA-256"]


def whoami(face: Face, client: Any) -> list[str]:
    status = face.run(lambda: client.admin.command("connectionStatus"))
    return [user["user"] for user in status["authInfo"]["authenticatedUsers"]]


def refusal(face: Face, call: Callable[[], Any]) -> OperationFailure:
    with pytest.raises(OperationFailure) as caught:
        face.run(call)
    return caught.value


def mechanism_counts(server: Server) -> dict[str, dict[str, dict[str, int]]]:
    """Return the server's own counts, read through PyMongo."""
    with pymongo.MongoClient(server.uri) as client:
        counts: dict[str, Any] = client.admin.command("serverStatus")["security"]["authentication"][
            "mechanisms"
        ]
        return counts


def test_a_user_with_any_characters_in_name_and_password_gets_in(face: Face, guarded: Server) -> None:
    assert whoami(face, face.client(guarded.uri)) == [ROOT[0]]


@pytest.mark.parametrize("user", USERS)
def test_every_user_gets_in_without_naming_a_mechanism(face: Face, guarded: Server, user: str) -> None:
    password, _, database = USERS[user]
    assert whoami(face, face.client(uri(guarded, user, password, authSource=database))) == [user]


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("user", ["sha1", "sha256", "both"])
def test_a_user_gets_in_with_the_mechanisms_it_was_made_for(
    face: Face, guarded: Server, user: str, mechanism: str
) -> None:
    password, mechanisms, _ = USERS[user]
    client = face.client(uri(guarded, user, password, authMechanism=mechanism))
    if mechanism in mechanisms:
        assert whoami(face, client) == [user]
    else:
        assert mechanism in str(refusal(face, lambda: client.shop.orders.find_one()))


@pytest.mark.parametrize(
    ("user", "password"), [("IX", "I\u00adX"), ("IX", "\u2168"), ("\u2168", "\u2163"), ("\u2168", "IV")]
)
def test_a_password_is_prepared_by_saslprep_and_a_name_is_not(
    face: Face, guarded: Server, user: str, password: str
) -> None:
    assert whoami(face, face.client(uri(guarded, user, password))) == [user]


def test_the_database_of_the_uri_is_the_source_unless_auth_source_says_otherwise(
    face: Face, guarded: Server
) -> None:
    password = USERS["local"][0]
    assert whoami(face, face.client(uri(guarded, "local", password, "shop"))) == ["local"]
    assert whoami(face, face.client(uri(guarded, "local", password, "other", authSource="shop"))) == ["local"]
    refusal(face, lambda: face.client(uri(guarded, "local", password)).shop.orders.find_one())


@pytest.mark.parametrize(
    ("user", "password", "source"),
    [("both", "wrong", "admin"), ("nobody", "both secret", "admin"), ("both", "both secret", "shop")],
    ids=["wrong password", "unknown user", "wrong source"],
)
def test_who_is_refused_is_told_the_mechanism_the_user_and_the_source_but_not_the_password(
    face: Face, guarded: Server, user: str, password: str, source: str
) -> None:
    client = face.client(uri(guarded, user, password, authSource=source))
    error = refusal(face, lambda: client.shop.orders.find_one())
    assert error.code == 18
    assert error.details is not None
    assert error.details["codeName"] == "AuthenticationFailed"
    for part in (
        guarded.members[0].address,
        repr(user).replace("'", '"'),
        "SCRAM-SHA-",
        f'"{source}"',
        "authSource",
    ):
        assert part in str(error)
    assert password not in str(error)


def test_a_refused_user_does_not_wait_for_server_selection_and_is_refused_again(
    face: Face, guarded: Server
) -> None:
    client = face.client(uri(guarded, "both", "wrong"), serverSelectionTimeoutMS=60_000)
    for _ in range(3):
        assert refusal(face, lambda: client.shop.orders.find_one()).code == 18


def test_one_wrong_client_leaves_another_alone(face: Face, guarded: Server) -> None:
    right = face.client(guarded.uri)
    assert whoami(face, right) == [ROOT[0]]
    refusal(face, lambda: face.client(uri(guarded, "both", "wrong")).shop.orders.find_one())
    assert whoami(face, right) == [ROOT[0]]


def test_a_client_without_credentials_may_say_hello_and_no_more(face: Face, guarded: Server) -> None:
    client = face.client(f"mongodb://{guarded.members[0].address}/")
    assert face.run(lambda: client.admin.command("hello"))["ok"] == 1
    assert refusal(face, lambda: client.shop.orders.find_one()).code == 13


def test_the_conversation_begins_inside_hello(face: Face, guarded: Server) -> None:
    password = USERS["both"][0]
    before = mechanism_counts(guarded)["SCRAM-SHA-256"]["speculativeAuthenticate"]["successful"]
    assert whoami(face, face.client(uri(guarded, "both", password, authMechanism="SCRAM-SHA-256"))) == [
        "both"
    ]
    after = mechanism_counts(guarded)["SCRAM-SHA-256"]["speculativeAuthenticate"]["successful"]
    # PyMongo's own query of the counts starts with SCRAM-SHA-256 inside hello as well.
    assert after - before >= 2


def test_a_password_with_prohibited_characters_is_refused_before_it_is_sent(
    face: Face, guarded: Server
) -> None:
    client = face.client(uri(guarded, "both", "a\u0007b", authMechanism="SCRAM-SHA-256"))
    with pytest.raises(ConfigurationError, match="SASLprep prohibits"):
        face.run(lambda: client.shop.orders.find_one())


def test_many_operations_at_once_all_get_in(face: Face, guarded: Server) -> None:
    client = face.client(uri(guarded, "both", USERS["both"][0]))
    started = [face.start(lambda: client.shop.orders.find_one()) for _ in range(50)]
    assert [future.result(TIMEOUT) for future in started] == [None] * 50


def test_the_first_user_is_made_by_a_client_without_credentials(face: Face) -> None:
    with start(arguments=["--auth"]) as server:
        anonymous = face.client(server.uri)
        roles = [{"role": "root", "db": "admin"}]
        face.run(lambda: anonymous.admin.command("createUser", "first", pwd="one", roles=roles))
        assert refusal(face, lambda: anonymous.shop.orders.find_one()).code == 13
        assert whoami(face, face.client(uri(server, "first", "one"))) == ["first"]
