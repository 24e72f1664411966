"""Faults of TLS and of the login, each provoked; no secret is ever shown."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from auth.conftest import ROOT, USERS, uri
from doctor.conftest import failures, look, only
from mangonel import MongoClient
from mangonel.server import Server
from tls.certificates import Certificates
from tools.scripted_server import ScriptedServer


def secured(server: Server, **options: object) -> str:
    given = "&".join(f"{name}={quote(str(value))}" for name, value in options.items())
    return f"mongodb://localhost:{server.members[0].port}/?tls=true&{given}"


def test_a_secured_server_shows_its_chain(demanding: Server, certificates: Certificates) -> None:
    report = look(
        secured(demanding, tlsCAFile=certificates.authority, tlsCertificateKeyFile=certificates.client)
    )
    assert failures(report) == []
    finding = only(report, "tls-secured")
    assert finding.facts["names"] == ["localhost", "127.0.0.1"]
    assert finding.facts["version"] == "TLSv1.3"
    assert "signed by Authority ca" in finding.text
    # The server's is good for two days.
    assert "tls-expires-soon" in [finding.code for finding in report.findings]


def test_a_client_without_a_certificate_is_told_what_the_server_wants(
    demanding: Server, certificates: Certificates
) -> None:
    report = look(secured(demanding, tlsCAFile=certificates.authority))
    assert failures(report) == ["tls-client-wanted"]
    assert "tlsCertificateKeyFile" in only(report, "tls-client-wanted").remedy
    assert report.exit_status() == 6


def test_a_client_certificate_that_the_server_refuses_is_told(
    demanding: Server, certificates: Certificates
) -> None:
    report = look(
        secured(
            demanding, tlsCAFile=certificates.authority, tlsCertificateKeyFile=certificates.strange_client
        )
    )
    assert failures(report)[0].startswith("tls-client-")


@pytest.mark.parametrize("authority", ["", "other_authority"])
def test_an_unknown_authority_is_named(demanding: Server, certificates: Certificates, authority: str) -> None:
    options = {"tlsCAFile": getattr(certificates, authority)} if authority else {}
    report = look(secured(demanding, tlsCertificateKeyFile=certificates.client, **options))
    assert failures(report) == ["tls-unknown-authority"]
    finding = only(report, "tls-unknown-authority")
    assert "signed by Authority ca" in finding.text
    assert "tlsCAFile" in finding.remedy


@pytest.mark.parametrize(
    ("certificate", "code", "words"),
    [
        ("expired", "tls-expired", "Jan  2 00:00:00 2020"),
        ("elsewhere", "tls-wrong-name", "db.example.org"),
    ],
)
def test_a_wrong_certificate_is_shown_with_what_is_wrong(
    certificates: Certificates, server_context: Any, certificate: str, code: str, words: str
) -> None:
    with ScriptedServer(ssl_context=server_context(getattr(certificates, certificate))) as server:
        report = look(f"mongodb://localhost:{server.port}/?tlsCAFile={quote(str(certificates.authority))}")
    assert failures(report) == [code]
    assert words in only(report, code).text


def test_a_revoked_certificate_is_told(certificates: Certificates, server_context: Any) -> None:
    with ScriptedServer(ssl_context=server_context(certificates.revoked)) as server:
        named = {"tlsCAFile": certificates.authority, "tlsCRLFile": certificates.revocations}
        files = "&".join(f"{name}={quote(str(path))}" for name, path in named.items())
        report = look(f"mongodb://localhost:{server.port}/?{files}")
    assert failures(report) == ["tls-revoked"]


def test_a_server_without_tls_is_told(standalone: Server, certificates: Certificates) -> None:
    report = look(secured(standalone, tlsCAFile=certificates.authority))
    assert failures(report) == ["tls-not-spoken"]


def test_a_client_without_tls_is_told_that_the_server_wants_it(demanding: Server) -> None:
    report = look(f"mongodb://localhost:{demanding.members[0].port}/")
    assert failures(report) == ["hello-wants-tls"]
    assert "tls=true" in only(report, "hello-wants-tls").remedy


def test_certificates_that_are_not_checked_are_a_warning(
    demanding: Server, certificates: Certificates
) -> None:
    report = look(secured(demanding, tlsInsecure="true", tlsCertificateKeyFile=certificates.client))
    assert only(report, "uri-insecure").status == "warning"
    assert "signed by Authority ca" in only(report, "tls-secured").text


def test_who_gets_in_is_shown_with_the_roles(guarded: Server) -> None:
    report = look(guarded.uri)
    finding = only(report, "auth-in")
    assert finding.facts["users"] == [f"{ROOT[0]}@admin"]
    assert finding.facts["roles"] == ["root@admin"]
    assert failures(report) == []


@pytest.mark.parametrize(
    ("user", "password", "options", "code", "words"),
    [
        ("both", "wrong", {}, "auth-wrong-password", "quote_plus"),
        (
            "local",
            USERS["local"][0],
            {"path": "shop", "authSource": "admin"},
            "auth-wrong-source",
            "authSource=shop",
        ),
        ("both", USERS["both"][0], {"authSource": "shop"}, "auth-wrong-source", "authSource=admin"),
        ("sha1", USERS["sha1"][0], {"authMechanism": "SCRAM-SHA-256"}, "auth-mechanism", "authMechanism"),
        ("nobody", "secret password", {}, "auth-unknown-user", "authSource"),
    ],
)
def test_a_refused_login_is_told_by_its_reason(
    guarded: Server, user: str, password: str, options: dict[str, str], code: str, words: str
) -> None:
    options = dict(options)
    report = look(uri(guarded, user, password, options.pop("path", ""), **options))
    assert failures(report) == [code]
    assert words in only(report, code).remedy
    assert report.exit_status() == 8


def test_a_mechanism_that_the_server_does_not_have_is_told(guarded: Server) -> None:
    report = look(uri(guarded, "both", "secret password", authMechanism="PLAIN", authSource="$external"))
    assert failures(report) in (["auth-refused"], ["auth-mechanism"])


def test_a_server_that_wants_a_login_is_told(guarded: Server) -> None:
    report = look(f"mongodb://{guarded.members[0].address}/")
    assert failures(report) == ["auth-needed"]


def test_a_user_who_may_not_ask_for_the_state_is_told_the_role(guarded: Server) -> None:
    report = look(uri(guarded, "both", USERS["both"][0]))
    assert failures(report) == []
    assert "clusterMonitor" in only(report, "auth-not-monitor").remedy


def test_a_user_without_roles_is_told(guarded: Server) -> None:
    with MongoClient(guarded.uri) as client:
        client.admin.command("createUser", "idle", pwd="idle secret", roles=[])
    assert only(look(uri(guarded, "idle", "idle secret")), "auth-no-roles").status == "warning"


@pytest.mark.parametrize("password", ["hush-hush", "h/u?s#h-@hush", "hush%hush", "admin"])
@pytest.mark.parametrize("escape", [True, False])
def test_no_report_shows_a_password(guarded: Server, password: str, escape: bool) -> None:
    address = guarded.members[0].address
    given = uri(guarded, "both", password) if escape else f"mongodb://both:{password}@{address}/"
    report = look(given, timeout=30.0)
    assert report.exit_status() in (3, 8)
    shown = json.dumps(report.as_dict(), default=str)
    # One password equals a word that must be shown: the users' default database.
    if password != "admin":
        assert "hush" not in shown
    assert f":{password}@" not in shown


def test_no_report_shows_the_secrets_of_options() -> None:
    options = "tlsCertificateKeyFilePassword=hush-1&authMechanismProperties=AWS_SESSION_TOKEN:hush-2"
    report = look(f"mongodb://k:hush-3@localhost:1/?authMechanism=MONGODB-AWS&{options}", timeout=0.5)
    assert "hush" not in json.dumps(report.as_dict(), default=str)
