"""Encrypts single values and decrypts replies, as bytes, for the mapper's encrypted fields."""

from __future__ import annotations

from mangonel._light import Any
from mangonel.encryption._auto import AutoEncryptionOpts
from mangonel.encryption._client_encryption import _ClientEncryption
from mangonel.encryption._commands import CommandCipher
from mangonel.encryption._value_options import ValueOptions
from mangonel.errors import ConfigurationError, InvalidOperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mangonel._shared.client.client import _MongoClient
    from mangonel.encryption._library import Crypt
    from mangonel.encryption._machine import Answers

__all__ = ["ValueCipher", "ValueOptions", "cipher_of", "options_of"]


class ValueCipher:
    """Encrypts values and decrypts replies with the keys of a client or of a `ClientEncryption`."""

    def __init__(self, answers: Answers, crypt: Callable[[], Crypt]) -> None:
        self._answers = answers
        self._crypt = crypt

    async def encrypt_flow(self, what: str, document: bytes, options: ValueOptions) -> bytes:
        """Return `{"v": encrypted}` for `{"v": value}`; `what` is the library's name for the operation.

        Raises:
            EncryptionError: see `cause`.
        """
        found = await self._answers.through_flow(
            self._crypt(), lambda context: options.begin(context, what, document)
        )
        return found or b""

    async def decrypt_flow(self, reply: bytes) -> bytes | None:
        """Return the reply with its fields decrypted, or None if there is nothing to decrypt.

        Raises:
            EncryptionError: see `cause`. The server did run the command.
        """
        return await self._answers.through_flow(
            self._crypt(), lambda context: context.begin_decrypting(reply)
        )


def options_of(client: _MongoClient[Any]) -> AutoEncryptionOpts | None:
    """Return the client's `auto_encryption_opts`."""
    return client.options.auto_encryption_opts


def cipher_of(client: _MongoClient[Any], encryption: Any) -> ValueCipher | None:
    """Return a cipher with the keys of `encryption`, or else of the client's own options; None without either.

    Raises:
        ConfigurationError: `encryption` belongs to the other face, or has another type.
    """
    if encryption is not None:
        is_async = client._port.is_async
        if not isinstance(encryption, _ClientEncryption) or encryption._port.is_async is not is_async:
            expected = "an AsyncClientEncryption" if is_async else "a ClientEncryption"
            raise ConfigurationError(
                f"expected {'aencryption' if is_async else 'encryption'} to be {expected}, got {type(encryption)}"
            )

        def crypt() -> Crypt:
            if encryption._crypt is None:
                raise InvalidOperation("Cannot use closed ClientEncryption; make a new one")
            return encryption._crypt

        return ValueCipher(encryption._answers, crypt)
    cipher = getattr(client._port, "_cipher", None) if client._port.is_encrypting else None
    if not isinstance(cipher, CommandCipher):
        return None
    return ValueCipher(cipher, lambda: cipher._crypt)
