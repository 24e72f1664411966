"""Key management services over TLS that follow a test's plan. Their "encryption" returns the plain value."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

PROVIDERS = ("aws", "azure", "gcp", "kmip")
# The action in place of a response: a name, an HTTP status, or a function that sends bytes, given the good response.
Plan = str | int | Callable[["ScriptedKms", ssl.SSLSocket, bytes], None]
SECRET = b"m" * 96
TOKEN = "a-token-that-must-stay-hidden"


class ScriptedKms:
    """A service on a port of this machine, for all providers. `plan` has the outcomes of the next requests, in turn;
    after that all succeed. `requests` are the received ones, `connections` counts those that began TLS, and `given_up`
    the waiting ones that the client closed.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self.plan: list[Plan] = []
        self.requests: list[bytes] = []
        self.connections = 0
        self.given_up = 0
        self.is_answering = False
        # Requests that get no response wait for this.
        self.ended = threading.Event()
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        self.ended.set()
        # This wakes a thread that waits in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(30)

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            plain.settimeout(30)
            thread = threading.Thread(target=self._serve, args=(plain,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, plain: socket.socket) -> None:
        with plain:
            try:
                with self._context.wrap_socket(plain, server_side=True) as sock:
                    self.connections += 1
                    self.is_answering = True
                    self._answer(sock)
            except OSError:
                return
            finally:
                self.is_answering = False

    def _answer(self, sock: ssl.SSLSocket) -> None:
        data = sock.recv(65536)
        is_kmip = data.startswith(b"\x42")
        while not is_kmip and not _is_whole(data):
            more = sock.recv(65536)
            if not more:
                # The client's time was over before it sent a request.
                return
            data += more
        self.requests.append(data)
        answer = _kmip_answer() if is_kmip else _http(200, _http_answer(data))
        step = self.plan.pop(0) if self.plan else "good"
        if callable(step):
            step(self, sock, answer)
        elif step == "silent":
            self.wait_for_the_end(sock)
        elif step == "cut":
            sock.sendall(answer[: len(answer) // 2])
        elif isinstance(step, int):
            sock.sendall(_http(step, {"__type": "Refused", "message": "the token has expired"}))
        else:
            sock.sendall(answer)

    def wait_for_the_end(self, sock: socket.socket) -> None:
        """Wait until the other side hangs up, or the service ends."""
        sock.settimeout(0.05)
        while not self.ended.is_set():
            try:
                gone = not sock.recv(1)
            except TimeoutError:
                continue
            except OSError:
                gone = True
            if gone:
                self.given_up += 1
                return


@contextlib.contextmanager
def scripted_kms(context: ssl.SSLContext) -> Iterator[ScriptedKms]:
    """Run a service during a block."""
    made = ScriptedKms(context)
    try:
        yield made
    finally:
        made.close()


def _is_whole(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    length = next(
        (line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), b":0"
    )
    return bool(end) and len(body) >= int(length.partition(b":")[2])


def _http(status: int, body: dict[str, Any]) -> bytes:
    return http(status, json.dumps(body).encode())


def http(status: int, body: bytes, *headers: bytes) -> bytes:
    """Return a response as it is sent."""
    lines = [b"HTTP/1.1 %d X" % status, b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


def _http_answer(request: bytes) -> dict[str, Any]:
    head, _, body = request.partition(b"\r\n\r\n")
    if b"token" in head.split(b"\r\n")[0] and b"grant_type" in body:
        return {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
    asked = json.loads(body)
    # AWS, Azure, GCP: the name of the requested value, and its name in the response.
    for given, named in (
        ("Plaintext", "CiphertextBlob"),
        ("CiphertextBlob", "Plaintext"),
        ("value", "value"),
        ("plaintext", "ciphertext"),
        ("ciphertext", "plaintext"),
    ):
        if given in asked:
            return {named: asked[given], "KeyId": "key"}
    raise AssertionError(f"expected a request of a known service, got {sorted(asked)}")


def _kmip_answer() -> bytes:
    """The response to a Get: SECRET as Secret Data. Tags and types are those of KMIP 1.2."""
    material = _structure(0x420045, _item(0x420043, 8, SECRET))
    data = _structure(0x420085, _item(0x420086, 5, _number(2)), _structure(0x420040, material))
    payload = _structure(0x42007C, data)
    status = _item(0x42007F, 5, _number(0))
    return _structure(0x42007B, _structure(0x42000F, status, payload))


def _number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _item(tag: int, kind: int, value: bytes) -> bytes:
    return tag.to_bytes(3, "big") + bytes([kind]) + _number(len(value)) + value + bytes(-len(value) % 8)


def _structure(tag: int, *items: bytes) -> bytes:
    return _item(tag, 1, b"".join(items))


def server_context(certificate: Path) -> ssl.SSLContext:
    """Return the TLS of a service with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@cache
def _private_key() -> bytes:
    # A longer key takes seconds on a busy machine.
    made = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    kind = serialization.PrivateFormat.PKCS8
    return made.private_bytes(serialization.Encoding.DER, kind, serialization.NoEncryption())


def providers(kind: str, address: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `kms_providers` and a master key of a service at `address`."""
    if kind == "aws":
        given = {"accessKeyId": "an-id", "secretAccessKey": "an-aws-secret"}
        return {kind: given}, {"region": "us-east-1", "key": "arn:key", "endpoint": address}
    if kind == "azure":
        given = {"tenantId": "t", "clientId": "c", "clientSecret": "an-azure-secret"}
        given["identityPlatformEndpoint"] = address
        return {kind: given}, {"keyVaultEndpoint": address, "keyName": "name", "keyVersion": "1"}
    if kind == "gcp":
        key = base64.b64encode(_private_key()).decode()
        master = {"projectId": "p", "location": "l", "keyRing": "r", "keyName": "k", "endpoint": address}
        return {kind: {"email": "e", "privateKey": key, "endpoint": address}}, master
    return {kind: {"endpoint": address}}, {"keyId": "1"}
