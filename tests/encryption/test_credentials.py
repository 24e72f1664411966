"""Credentials from GCP's metadata service; the service's address can be set."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from encryption.scripted_kms import TOKEN, ScriptedKms, http, providers
from encryption.seen import shown
from mangonel import errors
from tls.certificates import Certificates
from tools.faces import TIMEOUT

# Its response, and whether it stops before the end.
ANSWERS = {
    "good": http(200, b'{"access_token": "%s", "expires_in": 3600}' % TOKEN.encode()),
    "refused": http(403, b"{}"),
    "huge": http(200, b" " * 10_000_000),
    "wrong type": http(200, b'{"access_token": ["%s"]}' % TOKEN.encode()),
    "page": http(200, b"<html>" + TOKEN.encode()),
    "cut": http(200, b'{"access_token": "%s"}' % TOKEN.encode())[:-9],
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "mute": b"",
    "slow": http(200, b" " * 5000),
}
SLOW = ("mute", "slow")


class Metadata:
    """A service on this machine that sends one response to every request."""

    def __init__(self) -> None:
        self.name = "good"
        self.ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(TIMEOUT)

    def _accept(self) -> None:
        while not self.ended.is_set():
            try:
                sock, _ = self._listener.accept()
                with sock:
                    sock.recv(65536)
                    self._answer(sock)
            except OSError:
                continue

    def _answer(self, sock: socket.socket) -> None:
        answer = ANSWERS[self.name]
        if self.name not in SLOW:
            sock.sendall(answer)
            return
        sock.settimeout(0.02)
        # Until the other side has disconnected.
        for place in range(TIMEOUT_STEPS):
            sock.sendall(answer[place : place + 1])
            try:
                if not sock.recv(1):
                    return
            except TimeoutError:
                if self.ended.is_set():
                    return


TIMEOUT_STEPS = int(TIMEOUT / 0.02)


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[Metadata]:
    made = Metadata()
    monkeypatch.setenv("GCE_METADATA_HOST", made.address)
    yield made
    made.close()


@pytest.fixture
def make_key(
    face: Any, metadata: Metadata, kms: ScriptedKms, make_keys: Any, certificates: Certificates
) -> Any:
    """Make a data key with GCP within some seconds."""
    keys = make_keys({"gcp": {}}, kms_tls_options={"gcp": {"tlsCAFile": str(certificates.authority)}})
    _, master = providers("gcp", kms.address)

    def make(seconds: float = TIMEOUT) -> Any:
        return face.within(seconds, lambda: keys.create_data_key("gcp", master))

    return make


def test_the_token_of_the_machine_is_sent(make_key: Any, kms: ScriptedKms) -> None:
    assert make_key().subtype == 4
    assert f"Bearer {TOKEN}".encode() in kms.requests[0]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("refused", "of GCP refused a token: HTTP 403"),
        ("huge", "expected access_token from the metadata service of GCP"),
        ("wrong type", "expected access_token from the metadata service of GCP"),
        ("page", "expected access_token from the metadata service of GCP"),
        ("cut", "expected access_token from the metadata service of GCP"),
        ("another protocol", "expected access_token from the metadata service of GCP"),
        ("mute", "of GCP did not answer in time"),
        ("slow", "of GCP did not answer in time"),
    ],
)
def test_a_service_that_gives_no_token_is_an_error_in_time(
    make_key: Any, metadata: Metadata, kms: ScriptedKms, name: str, says: str
) -> None:
    metadata.name = name

    with pytest.raises(errors.EncryptionError, match=says) as caught:
        make_key(0.5 if name in SLOW else TIMEOUT)

    assert caught.value.timeout is (name in SLOW)
    assert TOKEN not in shown(caught.value)
    assert kms.requests == []
    metadata.name = "good"
    assert make_key().subtype == 4
