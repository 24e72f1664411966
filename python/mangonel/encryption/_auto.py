"""Automatic encryption, an option of a client: encrypts its commands and decrypts their replies.

Spec: client-side-encryption.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._faces.encrypting import EncryptingPort
from mangonel._faces.kms_connect import KMSConnectContext
from mangonel._light import Any, Mapping
from mangonel._shared.client.client import _MongoClient
from mangonel.auth import without_frames
from mangonel.bson.binary import UuidRepresentation
from mangonel.bson.codec_options import CodecOptions
from mangonel.common import validate_is_mapping
from mangonel.encryption._commands import CommandCipher
from mangonel.encryption._credentials import encode_providers
from mangonel.encryption._kms import Kms
from mangonel.encryption._library import Crypt, MongoCryptError, require
from mangonel.encryption._machine import key_vault
from mangonel.encryption._mongocryptd import Mongocryptd, spawn_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mangonel._faces.port import Port

_MAP_CODEC: CodecOptions[Any] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)


class AutoEncryptionOpts:
    """Settings of a client for encrypted fields: `MongoClient(auto_encryption_opts=...)`.

    Replies are decrypted. Commands are encrypted according to the schemas of their collections; this needs MongoDB
    Enterprise or Atlas, with the library crypt_shared or the program mongocryptd. Without these, set
    `bypass_auto_encryption` or `bypass_query_analysis` and encrypt fields with `ClientEncryption`.

    Args:
        kms_providers, key_vault_namespace, kms_tls_options, key_expiration_ms: as for `ClientEncryption`.
        key_vault_client: the client for the key vault, of the same face. None: the client that gets these options.
        schema_map: namespace -> JSON schema; takes precedence over the server's schema.
        encrypted_fields_map: namespace -> encrypted fields of Queryable Encryption; takes precedence over the server's.
        bypass_auto_encryption: do not encrypt commands; still decrypt replies.
        bypass_query_analysis: do not encrypt fields automatically; values encrypted with `ClientEncryption` can still
            be written to collections of Queryable Encryption.
        crypt_shared_lib_path: path of crypt_shared. None: the system's library path.
        crypt_shared_lib_required: never use mongocryptd.
        mongocryptd_uri, mongocryptd_bypass_spawn, mongocryptd_spawn_path, mongocryptd_spawn_args: address of
            mongocryptd, whether the driver must not start it, and the program to start with its arguments. Used only
            without crypt_shared.
        kms_connect_callback: called with a `KMSConnectContext` for each connection to a key service; returns a
            connected `socket.socket` without TLS, as `HTTPProxyKMSConnect` does. On asyncio a coroutine function. None:
            the driver connects directly.

    Raises:
        ConfigurationError: `mangonel[encryption]` is not installed.
        TypeError: `kms_connect_callback` cannot be called.
        ValueError, TypeError: the providers are incomplete. No message contains a key.

    Example:
        >>> providers = {"local": {"key": bytes(96)}}
        >>> options = AutoEncryptionOpts(providers, "keys.vault", bypass_auto_encryption=True)
        >>> MongoClient("mongodb://localhost:27017", auto_encryption_opts=options).shop.employees
        Collection(...)
    """

    def __init__(
        self,
        kms_providers: Mapping[str, Any],
        key_vault_namespace: str,
        key_vault_client: Any | None = None,
        schema_map: Mapping[str, Any] | None = None,
        bypass_auto_encryption: bool = False,
        mongocryptd_uri: str = "mongodb://localhost:27020",
        mongocryptd_bypass_spawn: bool = False,
        mongocryptd_spawn_path: str = "mongocryptd",
        mongocryptd_spawn_args: list[str] | None = None,
        kms_tls_options: Mapping[str, Any] | None = None,
        crypt_shared_lib_path: str | None = None,
        crypt_shared_lib_required: bool = False,
        bypass_query_analysis: bool = False,
        encrypted_fields_map: Mapping[str, Any] | None = None,
        key_expiration_ms: int | None = None,
        kms_connect_callback: Callable[[KMSConnectContext], object] | None = None,
    ) -> None:
        try:
            require()
            if kms_connect_callback is not None and not callable(kms_connect_callback):
                raise TypeError(f"kms_connect_callback must be callable, not {type(kms_connect_callback)}")
            if encrypted_fields_map:
                validate_is_mapping("encrypted_fields_map", encrypted_fields_map)
            self._spawn_command = spawn_command(mongocryptd_spawn_path, mongocryptd_spawn_args)
            encoded, self._asks = encode_providers(kms_providers)
        except Exception as error:
            # Some tools show the locals in a traceback, and these hold keys.
            kms_providers, kms_tls_options = {}, None
            without_frames(error)
            raise
        self._encoded = encoded
        self._kms_providers = kms_providers
        self._key_vault_namespace = key_vault_namespace
        self._key_vault_client = key_vault_client
        self._kms_tls_options = kms_tls_options
        self._key_expiration_ms = key_expiration_ms
        self._kms_connect_callback = kms_connect_callback
        self._schema_map = schema_map
        self._encrypted_fields_map = encrypted_fields_map
        self._bypass_auto_encryption = bypass_auto_encryption
        self._bypass_query_analysis = bypass_query_analysis
        self._mongocryptd_uri = mongocryptd_uri
        self._mongocryptd_bypass_spawn = mongocryptd_bypass_spawn
        self._crypt_shared_lib_path = crypt_shared_lib_path
        self._crypt_shared_lib_required = crypt_shared_lib_required

    def __repr__(self) -> str:
        return f"AutoEncryptionOpts(kms_providers={sorted(self._kms_providers)}, ...)"

    @property
    def _analyses(self) -> bool:
        """Whether a query analyser decides which fields of a command to encrypt."""
        return not (self._bypass_auto_encryption or self._bypass_query_analysis)

    def _attach(self, client: _MongoClient[Any], core: _core.Core, plain: Port) -> Any:
        """Return a port for the client that encrypts and decrypts.

        Raises:
            ConfigurationError, TypeError: the options do not fit the client.
            MongoCryptError: libmongocrypt refuses the providers, a map or the library crypt_shared.
        """
        unencrypted = _unencrypted(client)
        owner = self._key_vault_client
        if owner is None:
            owner = unencrypted
        elif not isinstance(owner, _MongoClient) or owner._port.is_async is not plain.is_async:
            raise TypeError(f"expected key_vault_client to be a {type(client).__name__}, got {type(owner)}")
        try:
            crypt = self._crypt()
            cipher = CommandCipher(
                crypt,
                not self._bypass_auto_encryption,
                unencrypted,
                self._mongocryptd(client, crypt),
                key_vault(owner, self._key_vault_namespace),
                Kms(plain, self._kms_tls_options, self._kms_connect_callback),
                self._kms_providers,
            )
        except Exception as error:
            without_frames(error)
            raise
        # EncryptingPort forwards every other attribute, so it is a port of the same face.
        return EncryptingPort(core, plain, cipher)

    def _crypt(self) -> Crypt:
        crypt = Crypt(
            self._encoded,
            asks_for_credentials=self._asks,
            schemas=_encoded_map(self._schema_map),
            encrypted_fields=_encoded_map(self._encrypted_fields_map),
            analyses_commands=self._analyses,
            shared_library=self._crypt_shared_lib_path if self._analyses else None,
            marks_commands=self._analyses,
            key_expiration_ms=self._key_expiration_ms,
        )
        if self._analyses and self._crypt_shared_lib_required and crypt.shared_library_version is None:
            raise MongoCryptError(
                "crypt_shared_lib_required=True, got no library crypt_shared where the system looks for libraries; "
                "set crypt_shared_lib_path to its path, or crypt_shared_lib_required=False to use mongocryptd"
            )
        return crypt

    def _mongocryptd(self, client: _MongoClient[Any], crypt: Crypt) -> Mongocryptd | None:
        if not self._analyses or crypt.shared_library_version is not None:
            return None
        from mangonel.api import AsyncMongoClient, MongoClient

        command = None if self._mongocryptd_bypass_spawn else self._spawn_command
        kind: Any = AsyncMongoClient if client._port.is_async else MongoClient
        return Mongocryptd(kind, self._mongocryptd_uri, command)

    def _fields_of(self, namespace: str) -> Mapping[str, Any] | None:
        """Return the encrypted fields of a collection in `encrypted_fields_map`."""
        return (self._encrypted_fields_map or {}).get(namespace)


def _encoded_map(given: Mapping[str, Any] | None) -> bytes | None:
    return None if given is None else _core.encode(given, codec_options=_MAP_CODEC)


def _unencrypted(client: _MongoClient[Any]) -> _MongoClient[Any]:
    """Return the same client without encryption: with its original port to the same deployment."""
    twin: _MongoClient[Any] = object.__new__(type(client))
    twin.__dict__.update(vars(client))
    return twin
