"""Encrypts commands and decrypts replies: answers libmongocrypt's questions about keys, schemas and fields to encrypt.

Spec: client-side-encryption ("Automatic encryption").
"""

from __future__ import annotations

from mangonel import _core
from mangonel._light import Any
from mangonel._shared.operation import build_operation
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.encryption import _library
from mangonel.encryption._machine import VAULT_CODEC, Answers
from mangonel.errors import InvalidOperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mangonel._shared.client.client import _MongoClient
    from mangonel._shared.collection.collection import _Collection
    from mangonel.encryption._kms import Kms
    from mangonel.encryption._library import Context, Crypt
    from mangonel.encryption._mongocryptd import Mongocryptd

_RAW = _core.Codec(VAULT_CODEC)


class CommandCipher(Answers):
    """Encrypts the commands of one client and decrypts its replies.

    Args:
        crypt: libmongocrypt's state.
        encrypts: whether commands are encrypted; replies are always decrypted.
        metadata: a client without encryption, for reading the schemas of collections.
        mongocryptd: marks the fields of a command to encrypt. None: the library crypt_shared does, or nothing does.
        vault, kms, providers: as for `Answers`.
    """

    def __init__(
        self,
        crypt: Crypt,
        encrypts: bool,
        metadata: _MongoClient[Any],
        mongocryptd: Mongocryptd | None,
        vault: _Collection[Any],
        kms: Kms,
        providers: Mapping[str, Any],
    ) -> None:
        super().__init__(vault, kms, providers)
        self.encrypts = encrypts
        self._crypt = crypt
        self._metadata = metadata
        self._mongocryptd = mongocryptd

    async def encrypt_flow(self, database: str, command: bytes) -> bytes | None:
        """Return the command with its fields encrypted, or None if there is nothing to encrypt.

        Raises:
            EncryptionError: see `cause`. Nothing was sent.
        """
        if _name_of(command) == b"bulkWrite":
            # The specification forbids this, although libmongocrypt could do it.
            raise InvalidOperation(
                "MongoClient.bulk_write does not currently support automatic encryption; "
                "use the bulk_write of each collection"
            )
        return await self.through_flow(
            self._crypt, lambda context: context.begin_encrypting(database, command)
        )

    async def decrypt_flow(self, reply: bytes) -> bytes | None:
        """Return the reply with its fields decrypted, or None if there is nothing to decrypt.

        Raises:
            EncryptionError: see `cause`. The server did run the command.
        """
        return await self.through_flow(self._crypt, lambda context: context.begin_decrypting(reply))

    def close(self) -> None:
        """Close the connections to mongocryptd."""
        if self._mongocryptd is not None:
            self._mongocryptd.close()

    async def _command_flow(self, context: Context, state: int) -> None:
        if state == _library.NEED_MARKINGS and self._mongocryptd is not None:
            context.feed(await self._mongocryptd.mark_flow(context.database, context.question()))
        elif state == _library.NEED_COLLECTION:
            await self._collections_flow(context)
        else:
            await super()._command_flow(context, state)
        context.end_answer()

    async def _collections_flow(self, context: Context) -> None:
        """Feed the server's listing of the command's collection, or nothing if the collection does not exist."""
        client = self._metadata
        command = {"listCollections": 1, "cursor": {}, "filter": RawBSONDocument(context.question())}
        operation = build_operation(
            command, database=context.database, codec=_RAW, kind=_core.KIND_READ, reading=_core.READ_BATCH
        )
        batch = await client._port.arun(operation)
        for description in batch:
            context.feed(description.raw)


def _name_of(command: bytes) -> bytes:
    """Return the key of a document's first element."""
    return command[5 : command.index(0, 5)]
