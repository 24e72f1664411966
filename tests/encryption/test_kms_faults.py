"""Faulty key services: a clear error in time, without secrets, and a client that keeps working."""

from __future__ import annotations

import concurrent.futures
import logging
import re
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from encryption.kms_faults import CASES, LATE, MATERIAL, SECRETS, Fault
from encryption.scripted_kms import PROVIDERS, ScriptedKms, providers, scripted_kms, server_context
from encryption.seen import shown
from mangonel import errors
from mangonel.encryption import Algorithm, AutoEncryptionOpts
from tls.certificates import Certificates
from tools.faces import TIMEOUT, eventually
from tools.hanging_resolver import NAME, hanging_resolver
from tools.interrupts import press_ctrl_c

RANDOM = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random
# Seconds to wait for a response that never comes.
LIMIT = 0.5


def make(face: Any, keys: Any, kind: str, master: Any, seconds: float = TIMEOUT) -> Any:
    """Make a data key within a time limit."""
    return face.within(seconds, lambda: keys.create_data_key(kind, master, key_material=MATERIAL))


def check_is_silent(error: BaseException, *others: str) -> None:
    seen = shown(error) + "".join(others)
    assert [secret for secret in SECRETS if secret in seen] == []


@pytest.mark.parametrize(
    ("kind", "before", "fault"),
    [pytest.param(*case, id=f"{case[0]}-{case[1]}-{case[2].name}") for case in CASES],
)
def test_what_a_service_does_wrong_is_a_clear_error(
    face: Any,
    kms: ScriptedKms,
    keys_of: Any,
    kind: str,
    before: int,
    fault: Fault,
    caplog: pytest.LogCaptureFixture,
) -> None:
    keys, master = keys_of(kind, kms)
    kms.plan = ["good"] * before + [fault] * fault.attempts

    with caplog.at_level(logging.DEBUG), pytest.raises(errors.EncryptionError) as caught:
        make(face, keys, kind, master, LIMIT if fault.is_slow else TIMEOUT)

    assert re.search(fault.says, str(caught.value), re.DOTALL | re.I)
    assert caught.value.timeout is fault.is_slow
    assert f"{kind} service {kms.address}" in str(caught.value)
    # On a slow machine the time may be over before.
    assert len(kms.requests) == before + fault.attempts or fault.is_slow
    check_is_silent(caught.value, caplog.text, repr(keys))
    if fault.is_slow:
        eventually(lambda: not kms.is_answering)
        kms.plan = []
    # Nothing is left of the call.
    assert make(face, keys, kind, master).subtype == 4


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize("fault", ["expired", "elsewhere", "unknown"])
def test_a_service_that_is_not_known_gets_nothing(
    face: Any, certificates: Certificates, keys_of: Any, kind: str, fault: str
) -> None:
    certificate = certificates.server if fault == "unknown" else getattr(certificates, fault)
    tls = {kind: {"tlsCAFile": str(certificates.other_authority)}} if fault == "unknown" else None
    with scripted_kms(server_context(certificate)) as service:
        keys, master = keys_of(kind, service, **({"kms_tls_options": tls} if tls else {}))

        with pytest.raises(
            errors.EncryptionError, match=r"the certificate of 127\.0\.0\.1 was refused"
        ) as caught:
            make(face, keys, kind, master)
        assert service.requests == []
    check_is_silent(caught.value)


class Plain:
    """A service that accepts connections and speaks no TLS; `begins` is its greeting, byte by byte."""

    def __init__(self, begins: bytes) -> None:
        self.begins = begins
        self.ended = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError:
            return
        with sock:
            try:
                for byte in self.begins:
                    sock.sendall(bytes([byte]))
                    if self.ended.wait(0.02):
                        return
            except OSError:
                return
            self.ended.wait(TIMEOUT)


@pytest.fixture
def plain(request: pytest.FixtureRequest) -> Iterator[Plain]:
    made = Plain(request.param)
    yield made
    made.ended.set()
    # Without a connection, a thread that waits in accept wakes.
    made.listener.shutdown(socket.SHUT_RDWR)
    made.thread.join(TIMEOUT)
    made.listener.close()


# The start of a handshake record of 16 kB.
SLOW_HANDSHAKE = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc" + bytes(16_000)


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize("plain", [b"", SLOW_HANDSHAKE], ids=["mute", "slow"], indirect=True)
def test_a_handshake_that_does_not_end_costs_no_more_than_the_time_limit(
    face: Any, keys_of: Any, plain: Any, kind: str
) -> None:
    keys, master = keys_of(kind, plain)

    with pytest.raises(errors.EncryptionError, match=LATE) as caught:
        make(face, keys, kind, master, LIMIT)
    assert plain.address in str(caught.value)
    assert caught.value.timeout
    assert not plain.ended.is_set()


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_service_that_is_not_there_is_named(face: Any, keys_of: Any, kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

    class NoService:
        pass

    NoService.address = address  # type: ignore[attr-defined]
    keys, master = keys_of(kind, NoService)

    with pytest.raises(errors.EncryptionError, match=f"no answer from the {kind} service {address}"):
        make(face, keys, kind, master)


# The sent part of the response: nothing, or most of it.
STAGES = {"waiting": 0.0, "reading": 0.8}


def stopping(stage: str) -> Fault:
    """Return a service that stops in the middle of its answer."""
    return Fault(stage, "", lambda answer: answer[: int(len(answer) * STAGES[stage])], is_slow=True)


def stop(face: Any, kms: ScriptedKms, call: Any) -> BaseException:
    """Start a call and stop it once the service has the request: cancel on asyncio, else Ctrl-C. Return its end."""

    def interrupt() -> None:
        eventually(lambda: len(kms.requests) == 1)
        press_ctrl_c()

    if not face.is_async:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt) as interrupted:
            call()
        return interrupted.value
    future = face.start(call)
    eventually(lambda: len(kms.requests) == 1)
    future.cancel()
    with pytest.raises(concurrent.futures.CancelledError) as cancelled:
        future.result(TIMEOUT)
    return cancelled.value


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_request_that_is_stopped_leaves_nothing_behind(
    face: Any, kms: ScriptedKms, keys_of: Any, kind: str, stage: str
) -> None:
    keys, master = keys_of(kind, kms)
    kms.plan = [stopping(stage)]

    error = stop(face, kms, lambda: keys.create_data_key(kind, master, key_material=MATERIAL))

    check_is_silent(error)
    eventually(lambda: kms.given_up == 1)
    assert make(face, keys, kind, master).subtype == 4


@pytest.mark.parametrize("place", ["client", "block"])
def test_a_read_that_needs_a_silent_service_ends_in_time(
    face: Any,
    kms: ScriptedKms,
    keys_of: Any,
    standalone: Any,
    vault: str,
    certificates: Certificates,
    place: str,
) -> None:
    keys, master = keys_of("aws", kms)
    secret = face.wait(keys.encrypt(MATERIAL, RANDOM, make(face, keys, "aws", master)))
    given, _ = providers("aws", kms.address)
    tls = {"aws": {"tlsCAFile": str(certificates.authority)}}
    options = AutoEncryptionOpts(given, vault, bypass_auto_encryption=True, kms_tls_options=tls)
    limit = {"timeoutMS": int(LIMIT * 1000)} if place == "client" else {}
    client = face.client(standalone.uri, auto_encryption_opts=options, **limit)
    people = face.client(standalone.uri)[vault.partition(".")[0]].people
    face.wait(people.insert_one({"_id": 1, "secret": secret}))
    kms.plan = ["silent"]

    def read(seconds: float | None) -> Any:
        find_one = client[people.database.name].people.find_one
        return face.within(seconds, find_one)

    with pytest.raises(errors.PyMongoError) as caught:
        read(LIMIT if place == "block" else None)
    assert caught.value.timeout
    check_is_silent(caught.value)
    kms.plan = []
    assert read(TIMEOUT) == {"_id": 1, "secret": MATERIAL}


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_service_whose_name_nobody_looks_up_is_given_up_in_time(
    face: Any, kms: ScriptedKms, keys_of: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, master = keys_of(kind, SimpleNamespace(address=kms.address.replace("127.0.0.1", NAME)))

    def is_told() -> bool:
        with pytest.raises(errors.EncryptionError, match=NAME) as caught:
            make(face, keys, kind, master, LIMIT)
        assert caught.value.timeout
        return "did not answer within" in str(caught.value)

    with hanging_resolver(monkeypatch) as resolver:
        # On a slow machine the time may be over before the name is looked up.
        eventually(is_told)
        assert resolver.is_hanging
    assert kms.requests == []
