# Written by tools/stubs.py from the definitions; change those, then run `make stubs`.

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self
from typing_extensions import TypeVar
from uuid import UUID
from mangonel._faces.kms_connect import KMSConnectContext
from mangonel.api import (
    AsyncCollection,
    AsyncCursor,
    AsyncDatabase,
    AsyncMongoClient,
    Collection,
    Cursor,
    Database,
    MongoClient,
)
from mangonel.bson.binary import Binary
from mangonel.bson.codec_options import CodecOptions
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.encryption._names import RangeOpts, StringOpts
from mangonel.encryption._results import RewrapManyDataKeyResult
from mangonel.results import DeleteResult

_DocumentType = TypeVar("_DocumentType", bound=Mapping[str, Any], default=dict[str, Any])
_OtherDocumentType = TypeVar("_OtherDocumentType", bound=Mapping[str, Any])
_Result = TypeVar("_Result")

class ClientEncryption:
    def __init__(
        self, kms_providers: Mapping[str, object], key_vault_namespace: str,
        key_vault_client: MongoClient[Any], codec_options: CodecOptions[Any],
        kms_tls_options: Mapping[str, object] | None = None, key_expiration_ms: int | None = None,
        kms_connect_callback: Callable[[KMSConnectContext], object] | None = None
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...
    def create_data_key(
        self, kms_provider: str, master_key: Mapping[str, object] | None = None,
        key_alt_names: Sequence[str] | None = None, key_material: bytes | None = None
    ) -> Binary: ...
    def encrypt(
        self, value: object, algorithm: str, key_id: Binary | UUID | None = None,
        key_alt_name: str | None = None, query_type: str | None = None, contention_factor: int | None = None,
        range_opts: RangeOpts | None = None, string_opts: StringOpts | None = None
    ) -> Binary: ...
    def encrypt_expression(
        self, expression: Mapping[str, object], algorithm: str, key_id: Binary | UUID | None = None,
        key_alt_name: str | None = None, query_type: str | None = None, contention_factor: int | None = None,
        range_opts: RangeOpts | None = None
    ) -> RawBSONDocument: ...
    def decrypt(self, value: Binary) -> Any: ...
    def get_key(self, id: Binary) -> RawBSONDocument | None: ...
    def get_keys(self) -> Cursor[RawBSONDocument]: ...
    def get_key_by_alt_name(self, key_alt_name: str) -> RawBSONDocument | None: ...
    def delete_key(self, id: Binary) -> DeleteResult: ...
    def add_key_alt_name(self, id: Binary, key_alt_name: str) -> RawBSONDocument | None: ...
    def remove_key_alt_name(self, id: Binary, key_alt_name: str) -> RawBSONDocument | None: ...
    def rewrap_many_data_key(
        self, filter: Mapping[str, object], provider: str | None = None,
        master_key: Mapping[str, object] | None = None
    ) -> RewrapManyDataKeyResult: ...
    def create_encrypted_collection(
        self, database: Database[Any], name: str, encrypted_fields: Mapping[str, object],
        kms_provider: str | None = None, master_key: Mapping[str, object] | None = None, **kwargs: object
    ) -> tuple[Collection[Any], Mapping[str, Any]]: ...
    def close(self) -> None: ...

class AsyncClientEncryption:
    def __init__(
        self, kms_providers: Mapping[str, object], key_vault_namespace: str,
        key_vault_client: AsyncMongoClient[Any], codec_options: CodecOptions[Any],
        kms_tls_options: Mapping[str, object] | None = None, key_expiration_ms: int | None = None,
        kms_connect_callback: Callable[[KMSConnectContext], object] | None = None
    ) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    async def create_data_key(
        self, kms_provider: str, master_key: Mapping[str, object] | None = None,
        key_alt_names: Sequence[str] | None = None, key_material: bytes | None = None
    ) -> Binary: ...
    async def encrypt(
        self, value: object, algorithm: str, key_id: Binary | UUID | None = None,
        key_alt_name: str | None = None, query_type: str | None = None, contention_factor: int | None = None,
        range_opts: RangeOpts | None = None, string_opts: StringOpts | None = None
    ) -> Binary: ...
    async def encrypt_expression(
        self, expression: Mapping[str, object], algorithm: str, key_id: Binary | UUID | None = None,
        key_alt_name: str | None = None, query_type: str | None = None, contention_factor: int | None = None,
        range_opts: RangeOpts | None = None
    ) -> RawBSONDocument: ...
    async def decrypt(self, value: Binary) -> Any: ...
    async def get_key(self, id: Binary) -> RawBSONDocument | None: ...
    def get_keys(self) -> AsyncCursor[RawBSONDocument]: ...
    async def get_key_by_alt_name(self, key_alt_name: str) -> RawBSONDocument | None: ...
    async def delete_key(self, id: Binary) -> DeleteResult: ...
    async def add_key_alt_name(self, id: Binary, key_alt_name: str) -> RawBSONDocument | None: ...
    async def remove_key_alt_name(self, id: Binary, key_alt_name: str) -> RawBSONDocument | None: ...
    async def rewrap_many_data_key(
        self, filter: Mapping[str, object], provider: str | None = None,
        master_key: Mapping[str, object] | None = None
    ) -> RewrapManyDataKeyResult: ...
    async def create_encrypted_collection(
        self, database: AsyncDatabase[Any], name: str, encrypted_fields: Mapping[str, object],
        kms_provider: str | None = None, master_key: Mapping[str, object] | None = None, **kwargs: object
    ) -> tuple[AsyncCollection[Any], Mapping[str, Any]]: ...
    async def close(self) -> None: ...
