# Written by tools/stubs.py from the definitions; change those, then run `make stubs`.

from collections.abc import Awaitable, Container, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Generic, Self, overload
from typing_extensions import TypeVar
from mangonel.bson.codec_options import CodecOptions, TypeRegistry
from mangonel.client_options import ClientOptions
from mangonel.read_concern import ReadConcern
from mangonel.read_preferences import _ServerMode
from mangonel.results import DeleteResult, InsertManyResult, InsertOneResult, UpdateResult
from mangonel.typings import _CollationIn, _IndexKeyHint, _IndexList, _Pipeline
from mangonel.write_concern import WriteConcern

_DocumentType = TypeVar("_DocumentType", bound=Mapping[str, Any], default=dict[str, Any])
_OtherDocumentType = TypeVar("_OtherDocumentType", bound=Mapping[str, Any])

class Cursor(Generic[_DocumentType]):
    def __init__(
        self,
        collection: Collection[_DocumentType],
        filter: Mapping[str, Any] | None = None,
        projection: Mapping[str, Any] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | str | None = None,
        allow_partial_results: bool = False,
        oplog_replay: bool = False,
        batch_size: int = 0,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        max_scan: int | None = None,
        max_time_ms: int | None = None,
        max: _IndexList | None = None,
        min: _IndexList | None = None,
        return_key: bool | None = None,
        show_record_id: bool | None = None,
        snapshot: bool | None = None,
        comment: Any = None,
        session: Any = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, Any] | None = None,
        prefetch: bool = False,
    ) -> None: ...
    def next(self) -> _DocumentType: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...
    @property
    def collection(self) -> Collection[_DocumentType]: ...
    def sort(self, key_or_list: _IndexKeyHint, direction: int | str | None = None) -> Self: ...
    def limit(self, limit: int) -> Self: ...
    def skip(self, skip: int) -> Self: ...
    def batch_size(self, batch_size: int) -> Self: ...
    def hint(self, index: _IndexKeyHint | None) -> Self: ...
    def comment(self, comment: Any) -> Self: ...
    def collation(self, collation: _CollationIn | None) -> Self: ...
    def max(self, spec: _IndexList) -> Self: ...
    def min(self, spec: _IndexList) -> Self: ...
    def max_time_ms(self, max_time_ms: int | None) -> Self: ...
    def max_await_time_ms(self, max_await_time_ms: int | None) -> Self: ...
    def max_scan(self, max_scan: int | None) -> Self: ...
    def allow_disk_use(self, allow_disk_use: bool) -> Self: ...
    def where(self, code: Any) -> Self: ...
    def prefetch(self, prefetch: bool = True) -> Self: ...
    def add_option(self, mask: int) -> Self: ...
    def remove_option(self, mask: int) -> Self: ...
    def rewind(self) -> Self: ...
    def clone(self) -> Self: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...
    def distinct(self, key: str) -> list[Any]: ...
    def explain(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    @property
    def alive(self) -> bool: ...
    @property
    def cursor_id(self) -> int | None: ...
    @property
    def address(self) -> tuple[str, int | None] | None: ...
    @property
    def session(self) -> None: ...
    @property
    def retrieved(self) -> int: ...
    def to_list(self, length: int | None = None) -> list[_DocumentType]: ...
    def to_json(self, mode: str = "relaxed") -> bytes: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> _DocumentType: ...

class AsyncCursor(Generic[_DocumentType]):
    def __init__(
        self,
        collection: AsyncCollection[_DocumentType],
        filter: Mapping[str, Any] | None = None,
        projection: Mapping[str, Any] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | str | None = None,
        allow_partial_results: bool = False,
        oplog_replay: bool = False,
        batch_size: int = 0,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        max_scan: int | None = None,
        max_time_ms: int | None = None,
        max: _IndexList | None = None,
        min: _IndexList | None = None,
        return_key: bool | None = None,
        show_record_id: bool | None = None,
        snapshot: bool | None = None,
        comment: Any = None,
        session: Any = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, Any] | None = None,
        prefetch: bool = False,
    ) -> None: ...
    async def next(self) -> _DocumentType: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    @property
    def collection(self) -> AsyncCollection[_DocumentType]: ...
    def sort(self, key_or_list: _IndexKeyHint, direction: int | str | None = None) -> Self: ...
    def limit(self, limit: int) -> Self: ...
    def skip(self, skip: int) -> Self: ...
    def batch_size(self, batch_size: int) -> Self: ...
    def hint(self, index: _IndexKeyHint | None) -> Self: ...
    def comment(self, comment: Any) -> Self: ...
    def collation(self, collation: _CollationIn | None) -> Self: ...
    def max(self, spec: _IndexList) -> Self: ...
    def min(self, spec: _IndexList) -> Self: ...
    def max_time_ms(self, max_time_ms: int | None) -> Self: ...
    def max_await_time_ms(self, max_await_time_ms: int | None) -> Self: ...
    def max_scan(self, max_scan: int | None) -> Self: ...
    def allow_disk_use(self, allow_disk_use: bool) -> Self: ...
    def where(self, code: Any) -> Self: ...
    def prefetch(self, prefetch: bool = True) -> Self: ...
    def add_option(self, mask: int) -> Self: ...
    def remove_option(self, mask: int) -> Self: ...
    def rewind(self) -> Self: ...
    def clone(self) -> Self: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: Any) -> Self: ...
    def distinct(self, key: str) -> Coroutine[Any, Any, list[Any]]: ...
    def explain(self) -> Coroutine[Any, Any, dict[str, Any]]: ...
    def close(self) -> Coroutine[Any, Any, None]: ...
    @property
    def alive(self) -> bool: ...
    @property
    def cursor_id(self) -> int | None: ...
    @property
    def address(self) -> tuple[str, int | None] | None: ...
    @property
    def session(self) -> None: ...
    @property
    def retrieved(self) -> int: ...
    def to_list(self, length: int | None = None) -> Coroutine[Any, Any, list[_DocumentType]]: ...
    def to_json(self, mode: str = "relaxed") -> Coroutine[Any, Any, bytes]: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Awaitable[_DocumentType]: ...

class Collection(Generic[_DocumentType]):
    def __init__(
        self,
        database: Database[_DocumentType],
        name: str,
        create: bool | None = False,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        session: Any = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def full_name(self) -> str: ...
    @property
    def database(self) -> Database[_DocumentType]: ...
    @overload
    def with_options(
        self,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> Collection[_DocumentType]: ...
    @overload
    def with_options(
        self,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> Collection[_OtherDocumentType]: ...
    def __getitem__(self, name: str) -> Collection[_DocumentType]: ...
    def __getattr__(self, name: str) -> Collection[_DocumentType]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __repr__(self) -> str: ...
    def find_one(
        self,
        filter: Any = None,
        projection: Mapping[str, Any] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | str | None = None,
        allow_partial_results: bool = False,
        oplog_replay: bool = False,
        batch_size: int = 0,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        max_scan: int | None = None,
        max_time_ms: int | None = None,
        max: _IndexList | None = None,
        min: _IndexList | None = None,
        return_key: bool | None = None,
        show_record_id: bool | None = None,
        snapshot: bool | None = None,
        comment: Any = None,
        session: Any = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, Any] | None = None,
        prefetch: bool = False,
    ) -> _DocumentType | None: ...
    def find(
        self,
        filter: Mapping[str, Any] | None = None,
        projection: Mapping[str, Any] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | str | None = None,
        allow_partial_results: bool = False,
        oplog_replay: bool = False,
        batch_size: int = 0,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        max_scan: int | None = None,
        max_time_ms: int | None = None,
        max: _IndexList | None = None,
        min: _IndexList | None = None,
        return_key: bool | None = None,
        show_record_id: bool | None = None,
        snapshot: bool | None = None,
        comment: Any = None,
        session: Any = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, Any] | None = None,
        prefetch: bool = False,
    ) -> Cursor[_DocumentType]: ...
    def insert_one(
        self,
        document: _DocumentType,
        bypass_document_validation: bool | None = None,
        session: Any = None,
        comment: Any = None,
    ) -> InsertOneResult: ...
    def insert_many(
        self,
        documents: Iterable[_DocumentType],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: Any = None,
        comment: Any = None,
    ) -> InsertManyResult: ...
    def update_one(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any] | _Pipeline,
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        hint: _IndexKeyHint | None = None,
        session: Any = None,
        let: Mapping[str, Any] | None = None,
        sort: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> UpdateResult: ...
    def update_many(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any] | _Pipeline,
        upsert: bool = False,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: Any = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> UpdateResult: ...
    def replace_one(
        self,
        filter: Mapping[str, Any],
        replacement: Mapping[str, Any],
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: Any = None,
        let: Mapping[str, Any] | None = None,
        sort: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> UpdateResult: ...
    def delete_one(
        self,
        filter: Mapping[str, Any],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: Any = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> DeleteResult: ...
    def delete_many(
        self,
        filter: Mapping[str, Any],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: Any = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> DeleteResult: ...
    @property
    def codec_options(self) -> CodecOptions[Any]: ...
    @property
    def read_preference(self) -> _ServerMode: ...
    @property
    def write_concern(self) -> WriteConcern: ...
    @property
    def read_concern(self) -> ReadConcern: ...

class AsyncCollection(Generic[_DocumentType]):
    def __init__(
        self,
        database: AsyncDatabase[_DocumentType],
        name: str,
        create: bool | None = False,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        session: Any = None,
        **kwargs: Any,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def full_name(self) -> str: ...
    @property
    def database(self) -> AsyncDatabase[_DocumentType]: ...
    @overload
    def with_options(
        self,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> AsyncCollection[_DocumentType]: ...
    @overload
    def with_options(
        self,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> AsyncCollection[_OtherDocumentType]: ...
    def __getitem__(self, name: str) -> AsyncCollection[_DocumentType]: ...
    def __getattr__(self, name: str) -> AsyncCollection[_DocumentType]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __repr__(self) -> str: ...
    def find_one(
        self,
        filter: Any = None,
        projection: Mapping[str, Any] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | str | None = None,
        allow_partial_results: bool = False,
        oplog_replay: bool = False,
        batch_size: int = 0,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        max_scan: int | None = None,
        max_time_ms: int | None = None,
        max: _IndexList | None = None,
        min: _IndexList | None = None,
        return_key: bool | None = None,
        show_record_id: bool | None = None,
        snapshot: bool | None = None,
        comment: Any = None,
        session: Any = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, Any] | None = None,
        prefetch: bool = False,
    ) -> Coroutine[Any, Any, _DocumentType | None]: ...
    def find(
        self,
        filter: Mapping[str, Any] | None = None,
        projection: Mapping[str, Any] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | str | None = None,
        allow_partial_results: bool = False,
        oplog_replay: bool = False,
        batch_size: int = 0,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        max_scan: int | None = None,
        max_time_ms: int | None = None,
        max: _IndexList | None = None,
        min: _IndexList | None = None,
        return_key: bool | None = None,
        show_record_id: bool | None = None,
        snapshot: bool | None = None,
        comment: Any = None,
        session: Any = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, Any] | None = None,
        prefetch: bool = False,
    ) -> AsyncCursor[_DocumentType]: ...
    def insert_one(
        self,
        document: _DocumentType,
        bypass_document_validation: bool | None = None,
        session: Any = None,
        comment: Any = None,
    ) -> Coroutine[Any, Any, InsertOneResult]: ...
    def insert_many(
        self,
        documents: Iterable[_DocumentType],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: Any = None,
        comment: Any = None,
    ) -> Coroutine[Any, Any, InsertManyResult]: ...
    def update_one(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any] | _Pipeline,
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        hint: _IndexKeyHint | None = None,
        session: Any = None,
        let: Mapping[str, Any] | None = None,
        sort: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> Coroutine[Any, Any, UpdateResult]: ...
    def update_many(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any] | _Pipeline,
        upsert: bool = False,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: Any = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> Coroutine[Any, Any, UpdateResult]: ...
    def replace_one(
        self,
        filter: Mapping[str, Any],
        replacement: Mapping[str, Any],
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: Any = None,
        let: Mapping[str, Any] | None = None,
        sort: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> Coroutine[Any, Any, UpdateResult]: ...
    def delete_one(
        self,
        filter: Mapping[str, Any],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: Any = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> Coroutine[Any, Any, DeleteResult]: ...
    def delete_many(
        self,
        filter: Mapping[str, Any],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: Any = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> Coroutine[Any, Any, DeleteResult]: ...
    @property
    def codec_options(self) -> CodecOptions[Any]: ...
    @property
    def read_preference(self) -> _ServerMode: ...
    @property
    def write_concern(self) -> WriteConcern: ...
    @property
    def read_concern(self) -> ReadConcern: ...

class Database(Generic[_DocumentType]):
    def __init__(
        self,
        client: MongoClient[_DocumentType],
        name: str,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> None: ...
    @property
    def client(self) -> MongoClient[_DocumentType]: ...
    @property
    def name(self) -> str: ...
    @overload
    def with_options(
        self,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> Database[_DocumentType]: ...
    @overload
    def with_options(
        self,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> Database[_OtherDocumentType]: ...
    @overload
    def get_collection(
        self,
        name: str,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> Collection[_DocumentType]: ...
    @overload
    def get_collection(
        self,
        name: str,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> Collection[_OtherDocumentType]: ...
    def __getitem__(self, name: str) -> Collection[_DocumentType]: ...
    def __getattr__(self, name: str) -> Collection[_DocumentType]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __repr__(self) -> str: ...
    @overload
    def command(
        self,
        command: str | Mapping[str, Any],
        value: Any = 1,
        check: bool = True,
        allowable_errors: Container[str | int] | None = None,
        read_preference: _ServerMode | None = None,
        codec_options: None = None,
        session: Any = None,
        comment: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]: ...
    @overload
    def command(
        self,
        command: str | Mapping[str, Any],
        value: Any = 1,
        check: bool = True,
        allowable_errors: Container[str | int] | None = None,
        read_preference: _ServerMode | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        session: Any = None,
        comment: Any = None,
        **kwargs: Any,
    ) -> _OtherDocumentType: ...
    @property
    def codec_options(self) -> CodecOptions[Any]: ...
    @property
    def read_preference(self) -> _ServerMode: ...
    @property
    def write_concern(self) -> WriteConcern: ...
    @property
    def read_concern(self) -> ReadConcern: ...

class AsyncDatabase(Generic[_DocumentType]):
    def __init__(
        self,
        client: AsyncMongoClient[_DocumentType],
        name: str,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> None: ...
    @property
    def client(self) -> AsyncMongoClient[_DocumentType]: ...
    @property
    def name(self) -> str: ...
    @overload
    def with_options(
        self,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> AsyncDatabase[_DocumentType]: ...
    @overload
    def with_options(
        self,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> AsyncDatabase[_OtherDocumentType]: ...
    @overload
    def get_collection(
        self,
        name: str,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> AsyncCollection[_DocumentType]: ...
    @overload
    def get_collection(
        self,
        name: str,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> AsyncCollection[_OtherDocumentType]: ...
    def __getitem__(self, name: str) -> AsyncCollection[_DocumentType]: ...
    def __getattr__(self, name: str) -> AsyncCollection[_DocumentType]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __repr__(self) -> str: ...
    @overload
    def command(
        self,
        command: str | Mapping[str, Any],
        value: Any = 1,
        check: bool = True,
        allowable_errors: Container[str | int] | None = None,
        read_preference: _ServerMode | None = None,
        codec_options: None = None,
        session: Any = None,
        comment: Any = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, dict[str, Any]]: ...
    @overload
    def command(
        self,
        command: str | Mapping[str, Any],
        value: Any = 1,
        check: bool = True,
        allowable_errors: Container[str | int] | None = None,
        read_preference: _ServerMode | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        session: Any = None,
        comment: Any = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, _OtherDocumentType]: ...
    @property
    def codec_options(self) -> CodecOptions[Any]: ...
    @property
    def read_preference(self) -> _ServerMode: ...
    @property
    def write_concern(self) -> WriteConcern: ...
    @property
    def read_concern(self) -> ReadConcern: ...

class MongoClient(Generic[_DocumentType]):
    def __init__(
        self,
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        document_class: type[_DocumentType] | None = None,
        tz_aware: bool | None = None,
        connect: bool | None = None,
        type_registry: TypeRegistry | None = None,
        **kwargs: Any,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...
    HOST: str
    PORT: int
    @property
    def options(self) -> ClientOptions: ...
    @overload
    def get_database(
        self,
        name: str | None = None,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> Database[_DocumentType]: ...
    @overload
    def get_database(
        self,
        name: str | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> Database[_OtherDocumentType]: ...
    @overload
    def get_default_database(
        self,
        default: str | None = None,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> Database[_DocumentType]: ...
    @overload
    def get_default_database(
        self,
        default: str | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> Database[_OtherDocumentType]: ...
    def __getitem__(self, name: str) -> Database[_DocumentType]: ...
    def __getattr__(self, name: str) -> Database[_DocumentType]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...
    def close(self) -> None: ...
    @property
    def codec_options(self) -> CodecOptions[Any]: ...
    @property
    def read_preference(self) -> _ServerMode: ...
    @property
    def write_concern(self) -> WriteConcern: ...
    @property
    def read_concern(self) -> ReadConcern: ...

class AsyncMongoClient(Generic[_DocumentType]):
    def __init__(
        self,
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        document_class: type[_DocumentType] | None = None,
        tz_aware: bool | None = None,
        connect: bool | None = None,
        type_registry: TypeRegistry | None = None,
        **kwargs: Any,
    ) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    HOST: str
    PORT: int
    @property
    def options(self) -> ClientOptions: ...
    @overload
    def get_database(
        self,
        name: str | None = None,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> AsyncDatabase[_DocumentType]: ...
    @overload
    def get_database(
        self,
        name: str | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> AsyncDatabase[_OtherDocumentType]: ...
    @overload
    def get_default_database(
        self,
        default: str | None = None,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> AsyncDatabase[_DocumentType]: ...
    @overload
    def get_default_database(
        self,
        default: str | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
    ) -> AsyncDatabase[_OtherDocumentType]: ...
    def __getitem__(self, name: str) -> AsyncDatabase[_DocumentType]: ...
    def __getattr__(self, name: str) -> AsyncDatabase[_DocumentType]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...
    def close(self) -> Coroutine[Any, Any, None]: ...
    @property
    def codec_options(self) -> CodecOptions[Any]: ...
    @property
    def read_preference(self) -> _ServerMode: ...
    @property
    def write_concern(self) -> WriteConcern: ...
    @property
    def read_concern(self) -> ReadConcern: ...
