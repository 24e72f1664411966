"""Faults of key services for every provider, each with the text of the resulting error."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from encryption.scripted_kms import SECRET, TOKEN, ScriptedKms, http

# A data key's material: the request has it in base64, and so has a good response.
MATERIAL = bytes(range(100, 196))
# Secrets that must never appear, in the forms in which they are sent.
SECRETS = [
    "an-aws-secret",
    "an-azure-secret",
    TOKEN,
    base64.b64encode(MATERIAL).decode()[:20],
    base64.urlsafe_b64encode(MATERIAL).decode()[:20],
    repr(MATERIAL)[3:20],
    repr(SECRET)[3:20],
]
MEBIBYTE = 1024 * 1024
_FIELDS = ("access_token", "expires_in", "Plaintext", "CiphertextBlob", "value", "plaintext", "ciphertext")


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: of the test's case.
        says: a pattern of the error's words.
        makes: turns the good response into the bytes to send.
        attempts: how many requests it causes; KMIP never repeats one.
        is_slow: the caller waits until its time is over.
    """

    name: str
    says: str
    makes: Callable[[bytes], bytes]
    attempts: int = 1
    is_slow: bool = False
    sends_bytewise: bool = False

    def __call__(self, kms: ScriptedKms, sock: ssl.SSLSocket, answer: bytes) -> None:
        """Apply the fault."""
        made = self.makes(answer)
        if self.sends_bytewise:
            for byte in made:
                sock.sendall(bytes([byte]))
                if kms.ended.wait(0.02):
                    return
        try:
            sock.sendall(made)
        except OSError:
            # On a slow machine the client may have hung up before.
            kms.given_up += 1
            raise
        if self.is_slow:
            kms.wait_for_the_end(sock)


def _body(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def _says(status: int, **answer: Any) -> Callable[[bytes], bytes]:
    return lambda _: http(status, json.dumps(answer).encode(), b"Retry-After: 3600")


def _with_head(head: bytes) -> Callable[[bytes], bytes]:
    return lambda answer: head + b"\r\n\r\n" + _body(answer)


def _quoted(answer: bytes) -> bytes:
    """Return a refusal that quotes the request and the answer."""
    secret = _body(answer).decode()
    said = f"the token has expired; x-amz-security-token:{TOKEN}\nAuthorization: Bearer {TOKEN}"
    return http(401, json.dumps({"message": said, "request": secret, "error": {"details": secret}}).encode())


def _cut(share: float) -> Callable[[bytes], bytes]:
    return lambda answer: answer[: int(len(answer) * share)]


LATE = "did not answer within|no time is left"
_ANSWERED = r"HTTP status=200.*may hold a key"

# Of a service that speaks HTTP: the places of tokens, and of keys.
HTTP = (
    Fault(
        "redirect",
        "HTTP status=302",
        lambda answer: http(302, _body(answer), b"Location: https://127.0.0.1:1/"),
    ),
    Fault("page", _ANSWERED, lambda answer: http(200, b"<html>" + _body(answer))),
    Fault("half a document", _ANSWERED, lambda answer: http(200, _body(answer)[:-3])),
    Fault("list", _ANSWERED, lambda answer: http(200, b"[" + _body(answer) + b"]")),
    Fault("nothing", "HTTP status=200", lambda _: http(200, b"")),
    Fault("missing fields", _ANSWERED, lambda _: http(200, b"{}")),
    Fault(
        "wrong types",
        _ANSWERED,
        lambda _: http(200, json.dumps({name: [TOKEN] for name in _FIELDS}).encode()),
    ),
    Fault("no length", "unexpected extra", _with_head(b"HTTP/1.1 200 OK")),
    Fault("wrong length", "Content-Length", _with_head(b"HTTP/1.1 200 OK\r\nContent-Length: -5")),
    Fault(
        "wrong chunk", "chunk length", _with_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz")
    ),
    Fault("another protocol", "HTTP-Version", lambda _: b"SSH-2.0-OpenSSH_9.2\r\n\r\n" + bytes(4096)),
    Fault("huge body", "longer than 1 MiB", lambda _: http(200, b" " * (2 * MEBIBYTE))),
    Fault("endless header", "longer than 1 MiB", lambda _: b"HTTP/1.1 200 OK\r\nX: " + b"x" * (2 * MEBIBYTE)),
    Fault("endless headers", "longer than 1 MiB", lambda _: b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 400_000),
    Fault("expired", "the token has expired.*<hidden>", _quoted),
    Fault(
        "refused", "HTTP status=403.*no such key", _says(403, error={"code": 403, "message": "no such key"})
    ),
    Fault("too often", "HTTP status=429.*later", _says(429, message="later"), attempts=4),
    Fault("out of order", "HTTP status=503", _says(503), attempts=4),
    Fault("cut in the head", "closed before the answer was complete", _cut(0.1), attempts=4),
    Fault("cut in the body", "closed before the answer was complete", _cut(0.8), attempts=4),
    Fault("slow", LATE, lambda answer: answer, is_slow=True, sends_bytewise=True),
    Fault("stops", LATE, _cut(0.8), is_slow=True),
)

KMIP = (
    Fault("page", "too large", lambda _: http(200, b"<html>")),
    Fault("zeros", "ResponseMessage", lambda _: bytes(64)),
    Fault("empty", "ResponseMessage|BatchItem", lambda _: bytes.fromhex("42007b01") + bytes(4)),
    Fault("wrong item", ".", lambda answer: answer.replace(b"\x42\x00\x43\x08", b"\x42\x00\x43\x05")),
    Fault("another length", ".", lambda answer: answer.replace(SECRET, SECRET[:8])),
    Fault(
        "huge",
        "longer than 1 MiB",
        lambda _: bytes.fromhex("42007b01") + (2 * MEBIBYTE).to_bytes(4, "big") + bytes(2 * MEBIBYTE),
    ),
    Fault(
        "refused",
        "KMIP",
        lambda answer: answer.replace(
            bytes.fromhex("42007f0500000004") + bytes(4), bytes.fromhex("42007f050000000400000001")
        ),
    ),
    Fault("cut in the head", "closed before the answer was complete", _cut(0.02)),
    Fault("cut in the body", "closed before the answer was complete", _cut(0.8)),
    Fault("slow", LATE, lambda answer: answer, is_slow=True, sends_bytewise=True),
    Fault("stops", LATE, _cut(0.8), is_slow=True),
)

# The provider, and how many requests succeed before the faulty one.
PLACES = (("aws", 0), ("azure", 0), ("azure", 1), ("gcp", 0), ("gcp", 1), ("kmip", 0))
CASES = [(kind, before, fault) for kind, before in PLACES for fault in (KMIP if kind == "kmip" else HTTP)]
