"""OCSP: stapled answers and responders of our own, judged as the specification's table says, on every face."""

from __future__ import annotations

import contextlib
import datetime
import functools
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509 import ocsp
from hypothesis import given
from hypothesis import strategies as st

from mangonel._faces.secure import Secured
from mangonel._options.tls import Security
from mangonel.errors import ServerSelectionTimeoutError
from mangonel.server import start
from tls.responders import (
    HOUR,
    Answer,
    Owner,
    Responder,
    delegate,
    intermediate,
    issue,
    over_http,
    refusal,
    responder,
    server,
    write,
)
from tools.faces import EMPTY, Face, eventually, in_the_end
from tools.scripted_server import ScriptedServer

SSL = pytest.importorskip("OpenSSL.SSL")
pytest.importorskip("service_identity")

from mangonel._faces.ocsp import _UNREADABLE, Answers, verified  # noqa: E402

GOOD, REVOKED, UNKNOWN = ocsp.OCSPCertStatus.GOOD, ocsp.OCSPCertStatus.REVOKED, ocsp.OCSPCertStatus.UNKNOWN
STRANGER = issue("another authority", None)


@pytest.fixture(autouse=True)
def on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests leave OCSP off."""
    monkeypatch.delenv("MANGONEL_OCSP", raising=False)


@pytest.fixture(scope="module")
def authority() -> Owner:
    return issue("an authority", None)


@pytest.fixture
def asked() -> Iterator[Responder]:
    with responder() as made:
        yield made


def _tampered(answer: bytes) -> bytes:
    return answer[:-1] + bytes([answer[-1] ^ 1])


# Each response: its change from a good one, and whether it is trusted.
ANSWERS: dict[str, tuple[Callable[[Answer], bytes], bool]] = {
    "good": (lambda good: good.der(), True),
    "by name": (lambda good: good.of(by_hash=False).der(), True),
    "revoked": (lambda good: good.of(status=REVOKED).der(), True),
    "unknown": (lambda good: good.of(status=UNKNOWN).der(), True),
    "delegated": (lambda good: good.of(signer=delegate(good.authority)).der(), True),
    "delegated by name": (lambda good: good.of(signer=delegate(good.authority), by_hash=False).der(), True),
    "no next update": (lambda good: good.of(next_update=None).der(), True),
    "expired": (lambda good: good.of(this_update=-3 * HOUR, next_update=-HOUR).der(), False),
    "from the future": (lambda good: good.of(this_update=HOUR, next_update=2 * HOUR).der(), False),
    "old, without next update": (
        lambda good: good.of(this_update=-datetime.timedelta(days=31), next_update=None).der(),
        False,
    ),
    "a stranger's": (lambda good: good.of(signer=STRANGER, sends_certificate=False).der(), False),
    "a stranger's, with certificate": (lambda good: good.of(signer=STRANGER).der(), False),
    "a stranger's delegate": (lambda good: good.of(signer=delegate(STRANGER)).der(), False),
    "not meant to sign": (lambda good: good.of(signer=delegate(good.authority, is_meant=False)).der(), False),
    "signer expired": (lambda good: good.of(signer=delegate(good.authority, until=-HOUR)).der(), False),
    "signer not sent": (
        lambda good: good.of(signer=delegate(good.authority), sends_certificate=False).der(),
        False,
    ),
    "signed by the server itself": (lambda good: good.of(signer=good.about).der(), False),
    "about another": (lambda good: good.of(about=server(good.authority)).der(), False),
    "about another authority's": (
        lambda good: good.of(authority=STRANGER, signer=good.authority).der(),
        False,
    ),
    "try later": (lambda good: refusal(), False),
    "empty": (lambda good: b"", False),
    "no DER": (lambda good: b"<html>", False),
    "cut": (lambda good: good.der()[:-20], False),
    "tampered": (lambda good: _tampered(good.der()), False),
}


@pytest.mark.parametrize("is_rsa", [False, True], ids=["EC", "RSA"])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_believed_if_its_signer_may_and_it_holds_now(name: str, is_rsa: bool) -> None:
    authority = issue("an authority", None, is_rsa=is_rsa)
    owner = server(authority)
    make, is_believed = ANSWERS[name]
    answer = make(Answer(owner, authority))
    if is_believed:
        assert verified(answer, owner.certificate, authority.certificate).serial_number
    else:
        with pytest.raises(_UNREADABLE):
            verified(answer, owner.certificate, authority.certificate)


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255), st.booleans()), min_size=1, max_size=4))
def test_hostile_bytes_are_refused_and_nothing_else(changes: list[tuple[int, int, bool]]) -> None:
    owner, authority, original = _fuzzed()
    answer = bytearray(original)
    for place, byte, is_cut in changes:
        if is_cut:
            del answer[place % len(answer) + 1 :]
        else:
            answer[place % len(answer)] = byte
    try:
        found = verified(bytes(answer), owner.certificate, authority.certificate)
    except _UNREADABLE:
        return
    # A trusted response was signed.
    signed = ocsp.load_der_ocsp_response(original)
    assert found.tbs_response_bytes == signed.tbs_response_bytes


@functools.cache
def _fuzzed() -> tuple[Owner, Owner, bytes]:
    authority = issue("an authority", None)
    owner = server(authority)
    return owner, authority, Answer(owner, authority).der()


def shake(security: Security, owner: Owner, staple: bytes | None = None, seconds: float = 5) -> Secured:
    """Do a handshake in memory with a server that staples this response, and judge the certificate."""
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.use_certificate(owner.certificate)
    context.use_privatekey(owner.key)
    if staple is not None:
        context.set_ocsp_server_callback(lambda connection, data: staple)
    peer = SSL.Connection(context, None)
    peer.set_accept_state()
    secured = Secured(security, ("127.0.0.1", 27017))
    received: bytes | None = None
    for _ in range(10):
        saying, is_answered = secured.shake(received)
        if saying:
            peer.bio_write(saying)
        with contextlib.suppress(SSL.WantReadError):
            peer.do_handshake()
        if not is_answered:
            secured.check_revocation(seconds)
            return secured
        received = peer.bio_read(1 << 20)
    raise AssertionError("the handshake did not end")


def security_of(authority: Owner, tmp_path: Path, **options: Any) -> Security:
    path = tmp_path / "authority.pem"
    path.write_bytes(authority.pem)
    made = Security({"tlscafile": str(path), **options})
    assert made.checks_revocation
    return made


# The stapled response, whether the certificate demands one, whether responders are asked, the responder's response
# (None: it stays silent longer than the time limit), and the result.
STAPLED = ["good", "revoked", "unknown", "expired", "a stranger's", "delegated"]


@pytest.mark.parametrize("must_staple", [False, True])
@pytest.mark.parametrize("name", STAPLED)
def test_a_stapled_answer_decides_alone(
    authority: Owner, tmp_path: Path, asked: Responder, name: str, must_staple: bool
) -> None:
    owner = server(authority, asked.url, must_staple=must_staple)
    make, is_believed = ANSWERS[name]
    security = security_of(authority, tmp_path)
    if is_believed and name != "revoked":
        shake(security, owner, make(Answer(owner, authority)))
    else:
        with pytest.raises(ssl.SSLCertVerificationError, match=r"revoked|not valid"):
            shake(security, owner, make(Answer(owner, authority)))
    assert not asked.asked


@pytest.mark.parametrize("name", ANSWERS)
def test_a_peer_that_sends_any_bytes_along_is_judged_by_them(authority: Owner, name: str) -> None:
    """OpenSSL staples only bytes that it can parse; other servers may send any bytes, but not none."""
    owner = server(authority)
    make, is_believed = ANSWERS[name]
    staple = make(Answer(owner, authority)) or b"\0"
    is_good = is_believed and name != "revoked"
    with contextlib.nullcontext() if is_good else pytest.raises(ssl.SSLCertVerificationError):
        Answers(True).check(owner.certificate, [owner.certificate, authority.certificate], staple, 5)


@pytest.mark.parametrize("option", [{}, {"tlsdisableocspendpointcheck": True}])
def test_a_certificate_that_must_be_stapled_and_is_not_is_refused(
    authority: Owner, tmp_path: Path, asked: Responder, option: dict[str, Any]
) -> None:
    owner = server(authority, asked.url, must_staple=True)
    asked.plan = lambda: over_http(Answer(owner, authority).der())
    with pytest.raises(ssl.SSLCertVerificationError, match="must-staple"):
        shake(security_of(authority, tmp_path, **option), owner, None, 5)
    assert not asked.asked


@pytest.mark.parametrize("name", ANSWERS)
def test_only_a_valid_revocation_of_a_responder_is_an_error(
    authority: Owner, tmp_path: Path, asked: Responder, name: str
) -> None:
    owner = server(authority, asked.url)
    make, _ = ANSWERS[name]
    asked.plan = lambda: over_http(make(Answer(owner, authority)))
    security = security_of(authority, tmp_path)
    if name == "revoked":
        with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
            shake(security, owner)
    else:
        shake(security, owner)
    assert len(asked.asked) == 1
    assert asked.asked[0].startswith(b"POST /ocsp HTTP/1.0\r\nHost: 127.0.0.1:")


WALLS: dict[str, Callable[[bytes], bytes | None]] = {
    "silent": lambda answer: None,
    "hangs up": lambda answer: b"",
    "no HTTP": lambda answer: b"220 mail.example ESMTP\r\n",
    "error": lambda answer: over_http(answer, 500),
    "login page": lambda answer: over_http(b"<html>log in</html>"),
    "redirect": lambda answer: b"HTTP/1.0 302 X\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
    "endless": lambda answer: b"HTTP/1.0 200 X\r\n\r\n" + bytes(1 << 20),
}


@pytest.mark.parametrize("name", WALLS)
def test_a_wall_before_the_responder_stops_nothing(
    authority: Owner, tmp_path: Path, asked: Responder, name: str
) -> None:
    owner = server(authority, "http://127.0.0.1:1/", "ldap://127.0.0.1/", asked.url)
    answer = Answer(owner, authority, REVOKED).der()
    asked.plan = lambda: WALLS[name](answer)
    shake(security_of(authority, tmp_path), owner, None, 0.5 if name == "silent" else 30)
    # A request that was given up may be read later.
    eventually(lambda: len(asked.asked) == 1)


def test_a_responder_that_drips_is_given_up_in_time(
    authority: Owner, tmp_path: Path, asked: Responder
) -> None:
    owner = server(authority, asked.url)
    asked.plan, asked.pause = lambda: over_http(Answer(owner, authority, REVOKED).der()), 0.05
    begun = time.monotonic()
    shake(security_of(authority, tmp_path), owner, None, 0.5)
    # In single bytes it would take half a minute.
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("status", "next_update", "times"), [(GOOD, HOUR, 1), (UNKNOWN, HOUR, 3), (GOOD, None, 3)]
)
def test_an_answer_is_kept_until_its_next_update(
    authority: Owner, tmp_path: Path, asked: Responder, status: Any, next_update: Any, times: int
) -> None:
    owner = server(authority, asked.url)
    answer = Answer(owner, authority, status, next_update=next_update)
    asked.plan = lambda: over_http(answer.der())
    security = security_of(authority, tmp_path)
    for _ in range(3):
        shake(security, owner)
    assert len(asked.asked) == times


def test_a_stapled_answer_is_kept_too(authority: Owner, tmp_path: Path, asked: Responder) -> None:
    owner = server(authority, asked.url)
    security = security_of(authority, tmp_path)
    staple = Answer(owner, authority).der()
    shake(security, owner, staple, 5)
    shake(security, owner)
    assert not asked.asked


@pytest.mark.parametrize("is_stapled", [True, False], ids=["stapled", "not stapled"])
@pytest.mark.parametrize(
    ("status", "is_refused"), [(GOOD, False), (UNKNOWN, False), (REVOKED, True), (None, False)], ids=str
)
def test_an_authority_below_the_root_is_asked_about_as_well(
    authority: Owner, asked: Responder, is_stapled: bool, status: Any, is_refused: bool
) -> None:
    between = intermediate(authority, asked.url)
    owner = server(between)
    staple = Answer(owner, between).der() if is_stapled else b""
    asked.plan = lambda: b"" if status is None else over_http(Answer(between, authority, status).der())
    chain = [owner.certificate, between.certificate, authority.certificate]
    answers = Answers(True)
    for _ in range(2):
        if is_refused:
            with pytest.raises(ssl.SSLCertVerificationError, match="of its authority CN=an intermediate"):
                answers.check(owner.certificate, chain, staple, 5)
        else:
            answers.check(owner.certificate, chain, staple, 5)
    # A response that is valid for a while is requested once.
    assert len(asked.asked) == (1 if status in (GOOD, REVOKED) else 2)


@pytest.mark.parametrize(
    "options", [{"tlsallowinvalidcertificates": True}, {"ssl_context": ssl.create_default_context()}]
)
def test_who_switches_checks_off_or_brings_a_context_has_no_ocsp(options: dict[str, Any]) -> None:
    assert not Security(options).checks_revocation


def test_the_other_engine_refuses_what_the_standard_librarys_does(authority: Owner, tmp_path: Path) -> None:
    """Each error has the same remedy."""
    stranger = server(STRANGER)
    elsewhere = issue("elsewhere", authority)
    for owner, text in ((stranger, "tlsCAFile"), (elsewhere, "tlsAllowInvalidHostnames")):
        with pytest.raises(ssl.SSLCertVerificationError, match=text):
            shake(security_of(authority, tmp_path), owner)


# Whole clients.


def find(face: Face, uri: str, authority: Path, **options: Any) -> Any:
    client = face.client(uri, tlsCAFile=str(authority), **options)
    return face.run(lambda: client.shop.orders.find_one())


def test_a_client_asks_once_for_all_of_its_connections(
    face: Face, authority: Owner, tmp_path: Path, asked: Responder
) -> None:
    owner = server(authority, asked.url)
    asked.plan = lambda: over_http(Answer(owner, authority).der())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write(owner, tmp_path / "server.pem"))
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    with ScriptedServer(ssl_context=context) as scripted:
        scripted.on(
            "find", {"ok": 1, "cursor": {"id": 0, "ns": "a.b", "firstBatch": [{"text": "x" * 300_000}]}}
        )
        uri = f"mongodb://localhost:{scripted.port}/?directConnection=true"
        assert len(find(face, uri, tmp_path / "ca.pem")["text"]) == 300_000
        # A monitor and an operation may ask at the same time.
        assert 1 <= len(asked.asked) <= 3

        asked.plan = lambda: over_http(Answer(owner, authority, REVOKED).der())
        in_the_end(
            ServerSelectionTimeoutError,
            "revoked",
            lambda: find(face, uri, tmp_path / "ca.pem", serverSelectionTimeoutMS=500),
        )
        scripted.on("find", EMPTY)
        find(face, uri, tmp_path / "ca.pem", tlsDisableOCSPEndpointCheck=True)


GREENLETS = """
from gevent import monkey
monkey.patch_all()
import sys
import gevent
from mangonel import MongoClient

count = 0
def tick():
    global count
    while True:
        gevent.sleep(0.001)
        count += 1

gevent.spawn(tick)
with MongoClient(sys.argv[1], tlsCAFile=sys.argv[2], serverSelectionTimeoutMS=20_000) as client:
    before = count
    client.shop.orders.find_one()
    print("other greenlets ran" if count > before else "other greenlets stood still")
"""


def test_under_gevent_other_greenlets_run_while_a_responder_is_asked(
    authority: Owner, tmp_path: Path, asked: Responder
) -> None:
    pytest.importorskip("gevent")
    owner = server(authority, asked.url)

    def answer_late() -> bytes:
        time.sleep(0.5)
        return over_http(Answer(owner, authority).der())

    asked.plan = answer_late
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write(owner, tmp_path / "server.pem"))
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    with ScriptedServer(ssl_context=context) as scripted:
        scripted.on("find", EMPTY)
        uri = f"mongodb://localhost:{scripted.port}/?directConnection=true&connectTimeoutMS=60000"
        command = [sys.executable, "-c", GREENLETS, uri, str(tmp_path / "ca.pem")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "other greenlets ran\n", done.stderr
    assert asked.asked


@pytest.fixture(scope="module")
def stapling(
    authority: Owner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path, Responder]]:
    """A real server whose certificate requires stapling; it asks the responder by itself."""
    folder = tmp_path_factory.mktemp("stapling")
    with responder() as asked:
        owner = server(authority, asked.url, must_staple=True)
        asked.plan = lambda: over_http(Answer(owner, authority).der())
        (folder / "ca.pem").write_bytes(authority.pem)
        tls = {
            "certificateKeyFile": write(owner, folder / "server.pem"),
            "CAFile": folder / "ca.pem",
            "allowConnectionsWithoutCertificates": True,
        }
        with start(tls=tls) as mongod:
            yield f"mongodb://{mongod.members[0].address}/?tls=true", folder / "ca.pem", asked


def test_mongod_sends_the_answer_along(face: Face, stapling: tuple[str, Path, Responder]) -> None:
    uri, path, asked = stapling
    before = len(asked.asked)
    assert find(face, uri, path) is None
    assert len(asked.asked) == before
