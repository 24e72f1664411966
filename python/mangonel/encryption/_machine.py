"""Runs a libmongocrypt context and answers its questions. A flow, for every face.

Must not know: the public classes, sockets. Spec: client-side-encryption ("libmongocrypt Integration").
"""

from __future__ import annotations

from mangonel import _core
from mangonel._light import Any
from mangonel.auth import without_frames
from mangonel.bson.codec_options import CodecOptions
from mangonel.bson.errors import BSONError
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.encryption import _library
from mangonel.encryption._kms import Kms
from mangonel.errors import ConfigurationError, EncryptionError
from mangonel.read_concern import ReadConcern
from mangonel.write_concern import WriteConcern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mangonel._faces.port import Port
    from mangonel._shared.client.client import _MongoClient
    from mangonel._shared.collection.collection import _Collection
    from mangonel.encryption._library import Crypt

# The key vault's documents are passed on without decoding.
VAULT_CODEC = CodecOptions(RawBSONDocument)


def key_vault(client: _MongoClient[Any], namespace: str) -> _Collection[Any]:
    """Return the collection of data keys, with majority concerns, so that no failover undoes the creation of a key.

    Raises:
        ValueError: the namespace is not of the form `database.collection`.
    """
    database, _, name = namespace.partition(".")
    if not database or not name:
        raise ValueError(f"expected key_vault_namespace to be database.collection, got {namespace!r}")
    # Not `get_collection`: a stand-in for a client keeps its documents in the collections that its `[name]` returns.
    return client[database][name].with_options(
        codec_options=VAULT_CODEC,
        read_concern=ReadConcern("majority"),
        write_concern=WriteConcern("majority"),
    )


class Answers:
    """Answers the questions of a context.

    Args:
        vault: the collection of data keys.
        kms: sends requests to key management services.
        providers: names and documents of the providers, as the application passed them.
    """

    def __init__(self, vault: _Collection[Any], kms: Kms, providers: Mapping[str, Any]) -> None:
        self.port: Port = vault._port
        self._vault = vault
        self._kms = kms
        self._providers = providers

    async def run_flow(self, context: _library.Context) -> bytes | None:
        """Run `context` to its end and close it. Return its result, or None if there was nothing to do.

        Raises:
            MongoCryptError: a key is missing, a service refuses, or an option does not fit.
            PyMongoError: the key vault could not be read.
        """
        try:
            while (state := context.state) != _library.READY:
                if state == _library.DONE:
                    return None
                if state == _library.NEED_KEYS:
                    await self._keys_flow(context)
                elif state == _library.NEED_KMS:
                    await self._kms.answer_flow(context)
                elif state == _library.NEED_CREDENTIALS:
                    context.provide_credentials(await self._kms.credentials_flow(self._providers))
                elif state == _library.ERROR:
                    raise context.failure()
                else:
                    await self._command_flow(context, state)
            return context.result()
        finally:
            context.close()

    async def through_flow(self, crypt: Crypt, begin: Callable[[_library.Context], None]) -> bytes | None:
        """Run a new context that `begin` sets up and begins. Return its result.

        Raises:
            EncryptionError: see `cause`, which has no frames, since they may hold keys.
            BSONError: the value cannot be encoded.
        """
        try:
            context = crypt.context()
            try:
                begin(context)
            except BaseException:
                context.close()
                raise
            return await self.run_flow(context)
        except BSONError:
            raise
        except Exception as error:
            failure = error
        except BaseException as error:
            # Ctrl-C, or the task was cancelled, while a question was being answered.
            without_frames(error)
            raise
        without_frames(failure)
        raise EncryptionError(failure) from failure

    async def _keys_flow(self, context: _library.Context) -> None:
        cursor: Any = self._vault.find(RawBSONDocument(context.question()))
        for key in await cursor._to_list_flow(None) if self.port.is_async else list(cursor):
            context.feed(key.raw)
        context.end_answer()

    async def _command_flow(self, context: _library.Context, state: int) -> None:
        """Raise for a state that libmongocrypt enters only for commands: this class encrypts single values."""
        raise ConfigurationError(f"expected libmongocrypt to ask for keys, got state {state}")

    async def insert_key_flow(self, key: bytes) -> Any:
        """Store a new data key and return its id."""
        await self.port.call(lambda: self._vault.insert_one(RawBSONDocument(key)))
        return _core.decode(key)["_id"]
