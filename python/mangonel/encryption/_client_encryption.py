"""Explicit encryption: single values, and data keys in the key vault. One definition for both faces.

Spec: client-side-encryption ("ClientEncryption").
"""

from __future__ import annotations

from copy import deepcopy
from uuid import UUID

from mangonel import _core
from mangonel._arguments import expect_instance, told_by_public_name
from mangonel._faces.kms_connect import KMSConnectContext
from mangonel._light import Any, Mapping
from mangonel._shared.client.database import _Database
from mangonel._shared.face_result import FaceResult
from mangonel._shared.settings import port_of
from mangonel.auth import without_frames
from mangonel.bson.binary import Binary
from mangonel.bson.codec_options import CodecOptions
from mangonel.bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS, RawBSONDocument
from mangonel.encryption._credentials import encode_providers
from mangonel.encryption._kms import Kms
from mangonel.encryption._library import Context, Crypt, require
from mangonel.encryption._machine import Answers, key_vault
from mangonel.encryption._names import RangeOpts, StringOpts
from mangonel.encryption._results import RewrapManyDataKeyResult
from mangonel.encryption._value_options import ValueOptions
from mangonel.errors import (
    ConfigurationError,
    EncryptedCollectionError,
    EncryptionError,
    InvalidOperation,
)
from mangonel.operations import UpdateOne

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mangonel._faces.port import Port
    from mangonel._shared.client.client import _MongoClient
    from mangonel._shared.collection.collection import _Collection
    from mangonel._shared.cursors.find_cursor import _Cursor
    from mangonel.results import DeleteResult

_UUID = 4
_ENCRYPTED = 6


@told_by_public_name
class _ClientEncryption:
    """Encrypts and decrypts single values, and manages data keys. Safe to use from many threads and tasks at once.

    Args:
        kms_providers: provider (`local`, `aws`, `azure`, `gcp`, `kmip`, or one with a name, such as `aws:other`) to its
            master key or credentials. An empty dict for aws, azure or gcp: use the credentials of this machine.
        key_vault_namespace: `database.collection` that stores the data keys.
        key_vault_client: a client of the same face.
        codec_options: how values are encoded before encryption; pass those of the collections.
        kms_tls_options: provider to TLS options, with a client's option names.
        key_expiration_ms: how many milliseconds a decrypted data key is cached. None: a minute; 0: for ever.
        kms_connect_callback: called with a `KMSConnectContext` for each connection to a key service; returns a
            connected `socket.socket` without TLS, as `HTTPProxyKMSConnect` does. On asyncio a coroutine function. None:
            the driver connects directly.

    Raises:
        ConfigurationError: an option cannot be used, or `mangonel[encryption]` is not installed.
        ValueError, TypeError: the providers are incomplete. No message contains a key.
        MongoCryptError: libmongocrypt refuses the providers.

    Example:
        >>> keys = ClientEncryption({"local": {"key": os.urandom(96)}}, "keys.vault", client, CodecOptions())
        >>> key_id = keys.create_data_key("local", key_alt_names=["wages"])
        >>> secret = keys.encrypt(4200, Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random, key_alt_name="wages")
        >>> keys.decrypt(secret)
        4200
    """

    # Set by each face in `api.py`.
    _is_async = False

    def __init__(
        self,
        kms_providers: Mapping[str, Any],
        key_vault_namespace: str,
        key_vault_client: _MongoClient[Any],
        codec_options: CodecOptions[Any],
        kms_tls_options: Mapping[str, Any] | None = None,
        key_expiration_ms: int | None = None,
        kms_connect_callback: Callable[[KMSConnectContext], object] | None = None,
    ) -> None:
        try:
            require()
            expect_instance("codec_options", codec_options, CodecOptions)
            expected = "AsyncMongoClient" if self._is_async else "MongoClient"
            # A stand-in may keep the keys in memory; its class has the name of PyMongo's client.
            if port_of(key_vault_client, "MongoClient").is_async is not self._is_async:
                raise TypeError(f"expected key_vault_client to be {expected}, got {type(key_vault_client)}")
            vault = key_vault(key_vault_client, key_vault_namespace)
            kms = Kms(vault._port, kms_tls_options, kms_connect_callback)
            encoded, asks = encode_providers(kms_providers)
            self._crypt: Crypt | None = Crypt(
                encoded, asks_for_credentials=asks, key_expiration_ms=key_expiration_ms
            )
            self._answers = Answers(vault, kms, kms_providers)
        except Exception as error:
            # Some tools show the locals in a traceback, and these hold keys.
            kms_providers, encoded, kms_tls_options = {}, b"", None
            without_frames(error)
            raise
        self._key_vault_coll: _Collection[Any] = vault
        self._port: Port = vault._port
        self._codec_options = codec_options
        self._providers = frozenset(kms_providers)

    def create_data_key(
        self,
        kms_provider: str,
        master_key: Mapping[str, Any] | None = None,
        key_alt_names: Sequence[str] | None = None,
        key_material: bytes | None = None,
    ) -> FaceResult[Binary]:
        """Create a data key, encrypt it with the provider, and store it in the key vault. Return its id.

        Args:
            kms_provider: one of the providers' names.
            master_key: the provider's key that encrypts the data key, in PyMongo's format; not for `local`.
            key_alt_names: alternative names of the data key.
            key_material: 96 bytes for the key. None: random bytes.

        Raises:
            EncryptionError: see `cause`. Nothing was stored, unless the insert itself failed.

        Example:
            >>> keys.create_data_key("local", key_alt_names=["addresses"]).subtype
            4
        """
        # Tools that show the locals in a traceback would show the argument.
        material, key_material = _Hidden(key_material), None
        return self._port.flow(self._create_key_flow(kms_provider, master_key, key_alt_names, material))

    async def _create_key_flow(
        self,
        kms_provider: str,
        master_key: Mapping[str, Any] | None,
        key_alt_names: Sequence[str] | None,
        material: _Hidden,
    ) -> Any:
        def begin(context: Context) -> None:
            if kms_provider not in self._providers:
                raise ValueError(
                    f"unknown kms_provider {kms_provider!r}: kms_providers has {sorted(self._providers)}"
                )
            document = _core.encode({**(master_key or {}), "provider": kms_provider})
            context.set_document("key_encryption_key", document)
            for name in key_alt_names or ():
                context.set_document("key_alt_name", _core.encode({"keyAltName": name}))
            if material.value is not None:
                context.set_document("key_material", _core.encode({"keyMaterial": material.value}))
            context.begin("datakey")

        key = await self._run_flow(begin)
        try:
            return await self._answers.insert_key_flow(key or b"")
        except Exception as error:
            raise EncryptionError(error) from error

    def encrypt(
        self,
        value: Any,
        algorithm: str,
        key_id: Binary | UUID | None = None,
        key_alt_name: str | None = None,
        query_type: str | None = None,
        contention_factor: int | None = None,
        range_opts: RangeOpts | None = None,
        string_opts: StringOpts | None = None,
    ) -> FaceResult[Binary]:
        """Encrypt a value; return a Binary of subtype 6. Pass exactly one of `key_id` and `key_alt_name`.

        Args:
            value: any value that BSON can store.
            algorithm: one of `Algorithm`.
            key_id, key_alt_name: the data key.
            query_type: one of `QueryType` when the value is part of a query.
            contention_factor: for INDEXED and RANGE: the number of index entries over which equal values are spread.
            range_opts, string_opts: the options of the field's index.

        Raises:
            EncryptionError: the key is missing, the options do not match, or a key service refused; see `cause`.
            InvalidDocument: the value cannot be encoded.

        Example:
            >>> keys.encrypt("457-55-5462", Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random, key_alt_name="salaries")
            Binary(..., 6)
        """
        options = ValueOptions(algorithm, key_id, key_alt_name, query_type, contention_factor)  # type: ignore[arg-type]  # a UUID is checked below
        return self._port.flow(
            self._encrypt_flow("explicit_encrypt", value, options, range_opts, string_opts)
        )

    def encrypt_expression(
        self,
        expression: Mapping[str, Any],
        algorithm: str,
        key_id: Binary | UUID | None = None,
        key_alt_name: str | None = None,
        query_type: str | None = None,
        contention_factor: int | None = None,
        range_opts: RangeOpts | None = None,
    ) -> FaceResult[RawBSONDocument]:
        """Return a query or aggregate expression with encrypted bounds: `{"$and": [{"f": {"$gt": 1}}, ...]}`.

        For range queries of Queryable Encryption.

        Args:
            expression: the query, or the aggregate expression.
            algorithm, key_id, key_alt_name, query_type, contention_factor, range_opts: as for `encrypt`.

        Raises:
            EncryptionError: as for `encrypt`.

        Example:
            >>> found = {"$and": [{"age": {"$gte": 18}}, {"age": {"$lt": 65}}]}
            >>> bounds = RangeOpts(min=0, max=200, sparsity=1, trim_factor=1)
            >>> options = {"query_type": "range", "contention_factor": 0, "range_opts": bounds}
            >>> keys.encrypt_expression(found, Algorithm.RANGE, key_id, **options)
            RawBSONDocument(...)
        """
        options = ValueOptions(algorithm, key_id, key_alt_name, query_type, contention_factor)  # type: ignore[arg-type]  # a UUID is checked below
        return self._port.flow(
            self._encrypt_flow("explicit_encrypt_expression", expression, options, range_opts)
        )

    async def _encrypt_flow(
        self,
        what: str,
        value: Any,
        given: ValueOptions,
        range_opts: RangeOpts | None,
        string_opts: StringOpts | None = None,
    ) -> Any:
        key_id: Any = given.key_id
        if isinstance(key_id, UUID):
            key_id = Binary(key_id.bytes, _UUID)
        if key_id is not None and not (isinstance(key_id, Binary) and key_id.subtype == _UUID):
            raise TypeError(
                f"key_id must be a bson.binary.Binary with subtype 4 or a uuid.UUID, not {type(key_id)}"
            )
        options = self._codec_options
        document = _core.encode({"v": value}, codec_options=options)
        ranges = None if range_opts is None else _core.encode(range_opts.document, codec_options=options)
        strings = None if string_opts is None else _core.encode(string_opts.document, codec_options=options)

        chosen = given._replace(key_id=key_id, ranges=ranges, strings=strings)
        found = await self._run_flow(lambda context: chosen.begin(context, what, document))
        if what == "explicit_encrypt_expression":
            return RawBSONDocument(found or b"", DEFAULT_RAW_BSON_OPTIONS)["v"]
        return _core.decode(found or b"")["v"]

    def decrypt(self, value: Binary) -> FaceResult[Any]:
        """Return the decrypted value.

        Args:
            value: a Binary of subtype 6, written by any driver.

        Raises:
            EncryptionError: the key is not in the vault, or a service cannot decrypt it; see `cause`.
            TypeError: `value` is not a Binary of subtype 6.

        Example:
            >>> keys.decrypt(employee["salary"])
            4200
        """
        return self._port.flow(self._decrypt_flow(value))

    async def _decrypt_flow(self, value: Binary) -> Any:
        if not (isinstance(value, Binary) and value.subtype == _ENCRYPTED):
            raise TypeError(
                f"value to decrypt must be a bson.binary.Binary with subtype 6, not {type(value)}"
            )
        document = _core.encode({"v": value})
        found = await self._run_flow(lambda context: context.begin("explicit_decrypt", document))
        return _core.decode(found or b"", self._codec_options)["v"]

    async def _run_flow(self, begin: Callable[[Context], None]) -> bytes | None:
        if self._crypt is None:
            raise InvalidOperation("Cannot use closed ClientEncryption; make a new one")
        return await self._answers.through_flow(self._crypt, begin)

    def get_key(self, id: Binary) -> FaceResult[RawBSONDocument | None]:
        """Return the document of a data key, or None. The key in it stays encrypted.

        Args:
            id: the id that `create_data_key` returned.

        Example:
            >>> keys.get_key(key_id)["masterKey"]["provider"]
            'local'
        """
        return self._vault.find_one({"_id": id})

    def get_keys(self) -> _Cursor[RawBSONDocument]:
        """Return a cursor over the documents of all data keys. Sends nothing yet.

        Example:
            >>> [key["keyAltNames"] for key in keys.get_keys()]
            [['salaries']]
        """
        return self._vault.find({})

    def get_key_by_alt_name(self, key_alt_name: str) -> FaceResult[RawBSONDocument | None]:
        """Return the document of the data key with this alternative name, or None.

        Args:
            key_alt_name: one of the key's alternative names.

        Raises:
            PyMongoError: the key vault could not be read; as for `find_one`.

        Example:
            >>> keys.get_key_by_alt_name("salaries")["_id"] == key_id
            True
        """
        return self._vault.find_one({"keyAltNames": key_alt_name})

    def delete_key(self, id: Binary) -> FaceResult[DeleteResult]:
        """Delete a data key. Data that was encrypted with it becomes unreadable for ever.

        Args:
            id: the id that `create_data_key` returned.

        Example:
            >>> keys.delete_key(key_id).deleted_count
            1
        """
        return self._vault.delete_one({"_id": id})

    def add_key_alt_name(self, id: Binary, key_alt_name: str) -> FaceResult[RawBSONDocument | None]:
        """Add an alternative name to a data key. Return its previous document, or None if there is no such key.

        Args:
            id: the id that `create_data_key` returned.
            key_alt_name: the name; if the vault has the unique index, no other key may have it.

        Example:
            >>> keys.add_key_alt_name(key_id, "wages")["keyAltNames"]
            ['salaries']
        """
        return self._vault.find_one_and_update({"_id": id}, {"$addToSet": {"keyAltNames": key_alt_name}})

    def remove_key_alt_name(self, id: Binary, key_alt_name: str) -> FaceResult[RawBSONDocument | None]:
        """Remove an alternative name from a data key. Return its previous document, or None if there is no such key.

        Args:
            id: the id that `create_data_key` returned.
            key_alt_name: the name. Removing the last one removes the field.

        Example:
            >>> keys.remove_key_alt_name(key_id, "salaries")["keyAltNames"]
            ['salaries']
        """
        others = {"$filter": {"input": "$keyAltNames", "cond": {"$ne": ["$$this", key_alt_name]}}}
        is_last = {"$eq": ["$keyAltNames", [key_alt_name]]}
        names = {"$cond": [is_last, "$$REMOVE", others]}
        return self._vault.find_one_and_update({"_id": id}, [{"$set": {"keyAltNames": names}}])

    def rewrap_many_data_key(
        self,
        filter: Mapping[str, Any],
        provider: str | None = None,
        master_key: Mapping[str, Any] | None = None,
    ) -> FaceResult[RewrapManyDataKeyResult]:
        """Encrypt data keys again, with another master key or provider. The data does not change.

        Args:
            filter: query document that selects the keys.
            provider: the new provider. None: keep each key's own.
            master_key: the master key of the new provider.

        Raises:
            ConfigurationError: `master_key` is given without `provider`.
            EncryptionError: a key could not be decrypted or encrypted; see `cause`. No key was changed.

        Example:
            >>> keys.rewrap_many_data_key({}, provider="local").bulk_write_result.modified_count
            1
        """
        if master_key is not None and provider is None:
            raise ConfigurationError("expected a provider beside master_key, got none")
        return self._port.flow(self._rewrap_flow(filter, provider, master_key))

    async def _rewrap_flow(
        self, filter: Mapping[str, Any], provider: str | None, master_key: Mapping[str, Any] | None
    ) -> RewrapManyDataKeyResult:
        def begin(context: Context) -> None:
            if provider is not None:
                document = _core.encode({"provider": provider, **(master_key or {})})
                context.set_document("key_encryption_key", document)
            context.begin("rewrap_many_datakey", _core.encode(filter))

        found = await self._run_flow(begin)
        keys = [] if found is None else RawBSONDocument(found, DEFAULT_RAW_BSON_OPTIONS)["v"]
        changes: list[Any] = [
            UpdateOne(
                {"_id": key["_id"]},
                {
                    "$set": {"keyMaterial": key["keyMaterial"], "masterKey": key["masterKey"]},
                    "$currentDate": {"updateDate": True},
                },
            )
            for key in keys
        ]
        if not changes:
            return RewrapManyDataKeyResult()
        return RewrapManyDataKeyResult(await self._port.call(lambda: self._vault.bulk_write(changes)))

    def create_encrypted_collection(
        self,
        database: _Database[Any],
        name: str,
        encrypted_fields: Mapping[str, Any],
        kms_provider: str | None = None,
        master_key: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> FaceResult[tuple[_Collection[Any], Mapping[str, Any]]]:
        """Create a collection for Queryable Encryption, with a new data key for each field whose `keyId` is None.

        Args:
            database: the database of the new collection, from a client of this face.
            name: the name of the collection.
            encrypted_fields: `{"fields": [{"path": ..., "bsonType": ..., "keyId": ..., "queries": ...}]}`. Not changed.
            kms_provider, master_key: as for `create_data_key`.
            **kwargs: as for `create_collection`.

        Returns:
            The collection, and the encrypted fields with their keys; put these into `encrypted_fields_map`.

        Raises:
            EncryptedCollectionError: see `cause`; `encrypted_fields` holds the keys that were created.

        Example:
            >>> fields = {"fields": [{"path": "ssn", "bsonType": "string", "keyId": None}]}
            >>> employees, fields = keys.create_encrypted_collection(client.shop, "employees", fields, "local")
        """
        if not isinstance(database, _Database):
            raise TypeError(f"expected a database, got {type(database)}")
        return self._port.flow(
            self._create_collection_flow(database, name, encrypted_fields, kms_provider, master_key, kwargs)
        )

    async def _create_collection_flow(
        self,
        database: _Database[Any],
        name: str,
        encrypted_fields: Mapping[str, Any],
        kms_provider: Any,
        master_key: Mapping[str, Any] | None,
        options: dict[str, Any],
    ) -> tuple[Any, Mapping[str, Any]]:
        filled: Any = deepcopy(encrypted_fields)
        try:
            for field in filled["fields"]:
                if isinstance(field, dict) and field.get("keyId") is None:
                    field["keyId"] = await self._create_key_flow(
                        kms_provider, master_key, None, _Hidden(None)
                    )
            options = {**options, "encryptedFields": filled, "check_exists": False}
            made = await self._port.call(lambda: database.create_collection(name, **options))
        except Exception as error:
            raise EncryptedCollectionError(error, filled) from error
        return made, filled

    @property
    def _vault(self) -> _Collection[Any]:
        if self._crypt is None:
            raise InvalidOperation("Cannot use closed ClientEncryption; make a new one")
        return self._key_vault_coll

    def close(self) -> FaceResult[None]:
        """Discard the keys. The client stays open, and running operations finish normally."""
        return self._port.flow(self._close_flow())

    async def _close_flow(self) -> None:
        self._crypt = None


class _Hidden:
    """Holds a key in a frame; its `repr` does not show the key."""

    __slots__ = ("value",)

    def __init__(self, value: bytes | None) -> None:
        self.value = value
