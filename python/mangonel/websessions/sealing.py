"""Sealing: session data encrypted at rest with AES-GCM, under a ring of keys. Knows no store and no codec.

The sealed form: 1 byte version, 4 bytes key id, 12 bytes nonce, then ciphertext and tag. The seal is bound to the rest
of the record, so a moved value or a changed user, time or trail does not open.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Sequence
from hashlib import sha256
from secrets import token_bytes
from typing import Any

from mangonel.websessions.errors import UsageError

__all__ = ["KeyRing", "key_bytes"]

VERSION = b"\x02"
KEY_ID_BYTES = 4
NONCE_BYTES = 12
_HEAD_BYTES = 1 + KEY_ID_BYTES + NONCE_BYTES


def key_bytes(key: bytes | str) -> bytes:
    """Return a key given as 16, 24 or 32 bytes, or as URL-safe base64 text.

    Raises:
        UsageError: neither of them.
    """
    try:
        raw = key if isinstance(key, bytes) else urlsafe_b64decode(key + "=" * (-len(key) % 4))
    except (ValueError, TypeError):
        raise UsageError(
            "expected a sealing key of bytes or URL-safe base64 text; mangonel.websessions.new_key() makes one"
        ) from None
    if len(raw) not in (16, 24, 32):
        raise UsageError(
            f"expected a sealing key of 16, 24 or 32 bytes, got {len(raw)}; mangonel.websessions.new_key() makes one"
        )
    return raw


class KeyRing:
    """Seals with the first key; opens with the key that was used to seal.

    To rotate keys, put the new one first, and drop the old one once no websession sealed with it can be alive.
    """

    def __init__(self, keys: Sequence[bytes | str]) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise UsageError(
                'sealing needs the package cryptography: pip install "mangonel[sealing]"'
            ) from error
        if not keys:
            raise UsageError("expected at least one sealing key; secrets.token_bytes(32) makes one")
        self._invalid: type[Exception] = InvalidTag
        raw = [key_bytes(key) for key in keys]
        self._ring: dict[bytes, Any] = {_key_id(key): AESGCM(key) for key in raw}
        self._head = VERSION + _key_id(raw[0])
        self._first: Any = self._ring[_key_id(raw[0])]

    def seal(self, data: bytes, bound_to: bytes) -> bytes:
        """Return the data sealed with the newest key."""
        nonce = token_bytes(NONCE_BYTES)
        return self._head + nonce + bytes(self._first.encrypt(nonce, data, bound_to))

    def unseal(self, sealed: bytes, bound_to: bytes) -> bytes:
        """Return the data.

        Raises:
            ValueError: no key of the ring opens it, or it was changed or moved.
        """
        key = self._ring.get(sealed[1 : 1 + KEY_ID_BYTES]) if sealed[:1] == VERSION else None
        if key is None:
            raise ValueError("no key of the ring sealed this")
        nonce = sealed[1 + KEY_ID_BYTES : _HEAD_BYTES]
        try:
            return bytes(key.decrypt(nonce, sealed[_HEAD_BYTES:], bound_to))
        except (self._invalid, ValueError):
            raise ValueError("the sealed data was changed or belongs to another record") from None


def _key_id(key: bytes) -> bytes:
    return sha256(b"mangonel websession key id" + key).digest()[:KEY_ID_BYTES]
