# Written by tools/stubs.py from the definitions; change those, then run `make stubs`.

from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Generic, NoReturn, Self, Unpack, overload
from typing_extensions import TypeVar
from mangonel import _core
from mangonel._faces.port import Address
from mangonel._shared.collection.aggregation import AggregatingSource
from mangonel._shared.collection.partitions import ArrowDataset, PolarsLazyFrame
from mangonel._shared.cursors.change_stream import WatchOptions
from mangonel._shared.cursors.table_options import TableOptions
from mangonel._shared.cursors.tables import ArrowTables, NumpyArrays, PandasFrame, PolarsFrame
from mangonel._shared.sessions.contexts import AsyncTransaction, BlockingTransaction
from mangonel._shared.sessions.options import SessionOptions, TransactionOptions
from mangonel.arrow.inferred import InferredSchema
from mangonel.bson.codec_options import CodecOptions, TypeRegistry
from mangonel.bson.dbref import DBRef
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.bson.son import SON
from mangonel.bson.timestamp import Timestamp
from mangonel.client_options import ClientOptions
from mangonel.driver_info import DriverInfo
from mangonel.metrics import ClientMetrics
from mangonel.operations import IndexModel, SearchIndexModel
from mangonel.read_concern import ReadConcern
from mangonel.read_preferences import _ServerMode
from mangonel.results import (
    BulkWriteResult,
    ClientBulkWriteResult,
    DeleteResult,
    InsertManyResult,
    InsertOneResult,
    UpdateResult,
)
from mangonel.topology_description import TopologyDescription
from mangonel.typings import _CollationIn, _IndexKeyHint, _IndexList, _Pipeline
from mangonel.write_concern import WriteConcern

_DocumentType = TypeVar("_DocumentType", bound=Mapping[str, Any], default=dict[str, Any])
_OtherDocumentType = TypeVar("_OtherDocumentType", bound=Mapping[str, Any])
_Result = TypeVar("_Result")

class MongoClient(Generic[_DocumentType]):
    def __init__(
        self,
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        document_class: type[_DocumentType] | None = None,
        tz_aware: bool | None = None,
        connect: bool | None = None,
        type_registry: TypeRegistry | None = None,
        **kwargs: object,
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
        *,
        timeout_ms: float | None = None,
    ) -> Database[_DocumentType]: ...
    @overload
    def get_database(
        self,
        name: str | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Database[_OtherDocumentType]: ...
    @overload
    def get_default_database(
        self,
        default: str | None = None,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Database[_DocumentType]: ...
    @overload
    def get_default_database(
        self,
        default: str | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Database[_OtherDocumentType]: ...
    def start_session(
        self,
        causal_consistency: bool | None = None,
        default_transaction_options: TransactionOptions | None = None,
        snapshot: bool | None = False,
        *,
        default_timeout_ms: float | None = None,
    ) -> ClientSession: ...
    def __getitem__(self, name: str) -> Database[_DocumentType]: ...
    def __getattr__(self, name: str) -> Database[_DocumentType]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...
    def metrics(self) -> ClientMetrics: ...
    def close(self) -> None: ...
    def list_databases(
        self,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> CommandCursor[dict[str, Any]]: ...
    def list_database_names(
        self,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> list[str]: ...
    def drop_database(
        self,
        name_or_database: str | Database[Any],
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> None: ...
    def server_info(
        self,
        session: ClientSession | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, Any]: ...
    def append_metadata(self, driver_info: DriverInfo) -> None: ...
    @property
    def address(self) -> Address: ...
    @property
    def primary(self) -> Address | None: ...
    @property
    def secondaries(self) -> set[Address]: ...
    @property
    def arbiters(self) -> set[Address]: ...
    @property
    def is_primary(self) -> bool: ...
    @property
    def is_mongos(self) -> bool: ...
    @property
    def nodes(self) -> frozenset[Address]: ...
    @property
    def topology_description(self) -> TopologyDescription: ...
    def bulk_write(
        self,
        models: Sequence[object],
        session: ClientSession | None = None,
        ordered: bool = True,
        verbose_results: bool = False,
        bypass_document_validation: bool | None = None,
        comment: object = None,
        let: Mapping[str, object] | None = None,
        write_concern: WriteConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> ClientBulkWriteResult: ...
    def watch(
        self,
        pipeline: _Pipeline | None = None,
        full_document: str | None = None,
        resume_after: Mapping[str, object] | None = None,
        max_await_time_ms: int | None = None,
        batch_size: int | None = None,
        collation: _CollationIn | None = None,
        start_at_operation_time: Timestamp | None = None,
        session: ClientSession | None = None,
        start_after: Mapping[str, object] | None = None,
        comment: object = None,
        full_document_before_change: str | None = None,
        show_expanded_events: bool | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> ClusterChangeStream[_DocumentType]: ...
    def __next__(self) -> NoReturn: ...
    def next(self) -> NoReturn: ...
    @property
    def codec_options(self) -> CodecOptions[Any]: ...
    @property
    def read_preference(self) -> _ServerMode: ...
    @property
    def write_concern(self) -> WriteConcern: ...
    @property
    def read_concern(self) -> ReadConcern: ...

class Cursor(Generic[_DocumentType]):
    def __init__(
        self,
        collection: Collection[_DocumentType],
        filter: Mapping[str, object] | None = None,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | None = None,
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
        comment: object = None,
        session: ClientSession | None = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, object] | None = None,
        prefetch: bool = False,
        into: object = None,
    ) -> None: ...
    def next(self) -> _DocumentType: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...
    def rewind(self) -> Self: ...
    def clone(self) -> Self: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object) -> Self: ...
    @overload
    def __getitem__(self, index: int) -> _DocumentType: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def distinct(self, key: str) -> list[Any]: ...
    def explain(self) -> dict[str, Any]: ...
    def sort(self, key_or_list: _IndexKeyHint, direction: int | str | None = None) -> Self: ...
    def limit(self, limit: int) -> Self: ...
    def skip(self, skip: int) -> Self: ...
    def batch_size(self, batch_size: int) -> Self: ...
    def hint(self, index: _IndexKeyHint | None) -> Self: ...
    def comment(self, comment: object) -> Self: ...
    def collation(self, collation: _CollationIn | None) -> Self: ...
    def max(self, spec: _IndexList) -> Self: ...
    def min(self, spec: _IndexList) -> Self: ...
    def max_time_ms(self, max_time_ms: int | None) -> Self: ...
    def max_await_time_ms(self, max_await_time_ms: int | None) -> Self: ...
    def max_scan(self, max_scan: int | None) -> Self: ...
    def allow_disk_use(self, allow_disk_use: bool) -> Self: ...
    def where(self, code: object) -> Self: ...
    def prefetch(self, prefetch: bool = True) -> Self: ...
    def add_option(self, mask: int) -> Self: ...
    def remove_option(self, mask: int) -> Self: ...
    def close(self, *, timeout_ms: float | None = None) -> None: ...
    @property
    def collection(self) -> Collection[_DocumentType]: ...
    @property
    def alive(self) -> bool: ...
    @property
    def cursor_id(self) -> int | None: ...
    @property
    def address(self) -> tuple[str, int | None] | None: ...
    @property
    def session(self) -> ClientSession | None: ...
    @property
    def retrieved(self) -> int: ...
    def to_list(self, length: int | None = None) -> list[_DocumentType]: ...
    def to_json(self, mode: str = "relaxed") -> bytes: ...
    def to_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> _core.ArrowTable: ...
    def iter_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> ArrowTables: ...
    def to_polars(self, schema: object = None, **options: Unpack[TableOptions]) -> PolarsFrame: ...
    def to_pandas(self, schema: object = None, **options: Unpack[TableOptions]) -> PandasFrame: ...
    def to_numpy(self, schema: object = None, **options: Unpack[TableOptions]) -> NumpyArrays: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> _DocumentType: ...

class RawBatchCursor(Generic[_DocumentType]):
    def __init__(
        self,
        collection: Collection[_DocumentType],
        filter: Mapping[str, object] | None = None,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | None = None,
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
        comment: object = None,
        session: ClientSession | None = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, object] | None = None,
        prefetch: bool = False,
        into: object = None,
    ) -> None: ...
    def next(self) -> bytes: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...
    def rewind(self) -> Self: ...
    def clone(self) -> Self: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object) -> Self: ...
    def distinct(self, key: str) -> list[Any]: ...
    def explain(self) -> dict[str, Any]: ...
    def sort(self, key_or_list: _IndexKeyHint, direction: int | str | None = None) -> Self: ...
    def limit(self, limit: int) -> Self: ...
    def skip(self, skip: int) -> Self: ...
    def batch_size(self, batch_size: int) -> Self: ...
    def hint(self, index: _IndexKeyHint | None) -> Self: ...
    def comment(self, comment: object) -> Self: ...
    def collation(self, collation: _CollationIn | None) -> Self: ...
    def max(self, spec: _IndexList) -> Self: ...
    def min(self, spec: _IndexList) -> Self: ...
    def max_time_ms(self, max_time_ms: int | None) -> Self: ...
    def max_await_time_ms(self, max_await_time_ms: int | None) -> Self: ...
    def max_scan(self, max_scan: int | None) -> Self: ...
    def allow_disk_use(self, allow_disk_use: bool) -> Self: ...
    def where(self, code: object) -> Self: ...
    def prefetch(self, prefetch: bool = True) -> Self: ...
    def add_option(self, mask: int) -> Self: ...
    def remove_option(self, mask: int) -> Self: ...
    def close(self, *, timeout_ms: float | None = None) -> None: ...
    @property
    def collection(self) -> Collection[_DocumentType]: ...
    @property
    def alive(self) -> bool: ...
    @property
    def cursor_id(self) -> int | None: ...
    @property
    def address(self) -> tuple[str, int | None] | None: ...
    @property
    def session(self) -> ClientSession | None: ...
    @property
    def retrieved(self) -> int: ...
    def to_list(self, length: int | None = None) -> list[bytes]: ...
    def to_json(self, mode: str = "relaxed") -> bytes: ...
    def to_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> _core.ArrowTable: ...
    def iter_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> ArrowTables: ...
    def to_polars(self, schema: object = None, **options: Unpack[TableOptions]) -> PolarsFrame: ...
    def to_pandas(self, schema: object = None, **options: Unpack[TableOptions]) -> PandasFrame: ...
    def to_numpy(self, schema: object = None, **options: Unpack[TableOptions]) -> NumpyArrays: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> bytes: ...

class CommandCursor(Generic[_DocumentType]):
    def __init__(
        self,
        collection: Collection[_DocumentType],
        batch: _core.Batch | None,
        codec: _core.Codec | None = None,
        batch_size: int = 0,
        max_await_time_ms: int | None = None,
        comment: object = None,
        session: ClientSession | None = None,
    ) -> None: ...
    def next(self) -> _DocumentType: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...
    def batch_size(self, batch_size: int) -> Self: ...
    def try_next(self) -> _DocumentType | None: ...
    def close(self, *, timeout_ms: float | None = None) -> None: ...
    @property
    def collection(self) -> Collection[_DocumentType]: ...
    @property
    def alive(self) -> bool: ...
    @property
    def cursor_id(self) -> int | None: ...
    @property
    def address(self) -> tuple[str, int | None] | None: ...
    @property
    def session(self) -> ClientSession | None: ...
    @property
    def retrieved(self) -> int: ...
    def to_list(self, length: int | None = None) -> list[_DocumentType]: ...
    def to_json(self, mode: str = "relaxed") -> bytes: ...
    def to_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> _core.ArrowTable: ...
    def iter_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> ArrowTables: ...
    def to_polars(self, schema: object = None, **options: Unpack[TableOptions]) -> PolarsFrame: ...
    def to_pandas(self, schema: object = None, **options: Unpack[TableOptions]) -> PandasFrame: ...
    def to_numpy(self, schema: object = None, **options: Unpack[TableOptions]) -> NumpyArrays: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> _DocumentType: ...

class RawBatchCommandCursor(Generic[_DocumentType]):
    def __init__(
        self,
        collection: Collection[_DocumentType],
        batch: _core.Batch | None,
        codec: _core.Codec | None = None,
        batch_size: int = 0,
        max_await_time_ms: int | None = None,
        comment: object = None,
        session: ClientSession | None = None,
    ) -> None: ...
    def next(self) -> bytes: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...
    def batch_size(self, batch_size: int) -> Self: ...
    def try_next(self) -> bytes | None: ...
    def close(self, *, timeout_ms: float | None = None) -> None: ...
    @property
    def collection(self) -> Collection[_DocumentType]: ...
    @property
    def alive(self) -> bool: ...
    @property
    def cursor_id(self) -> int | None: ...
    @property
    def address(self) -> tuple[str, int | None] | None: ...
    @property
    def session(self) -> ClientSession | None: ...
    @property
    def retrieved(self) -> int: ...
    def to_list(self, length: int | None = None) -> list[bytes]: ...
    def to_json(self, mode: str = "relaxed") -> bytes: ...
    def to_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> _core.ArrowTable: ...
    def iter_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> ArrowTables: ...
    def to_polars(self, schema: object = None, **options: Unpack[TableOptions]) -> PolarsFrame: ...
    def to_pandas(self, schema: object = None, **options: Unpack[TableOptions]) -> PandasFrame: ...
    def to_numpy(self, schema: object = None, **options: Unpack[TableOptions]) -> NumpyArrays: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> bytes: ...

class ChangeStream(Generic[_DocumentType]):
    def __init__(
        self,
        source: AggregatingSource,
        target: str | int,
        collection: Collection[Any],
        **options: Unpack[WatchOptions],
    ) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> _DocumentType: ...
    def next(self) -> _DocumentType: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...
    @property
    def resume_token(self) -> Mapping[str, Any] | None: ...
    @property
    def alive(self) -> bool: ...
    def try_next(self) -> _DocumentType | None: ...
    def close(self, *, timeout_ms: float | None = None) -> None: ...

class CollectionChangeStream(ChangeStream[_DocumentType]):
    ...

class DatabaseChangeStream(ChangeStream[_DocumentType]):
    ...

class ClusterChangeStream(DatabaseChangeStream[_DocumentType]):
    ...

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
        session: ClientSession | None = None,
        **kwargs: object,
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
        *,
        timeout_ms: float | None = None,
    ) -> Collection[_DocumentType]: ...
    @overload
    def with_options(
        self,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Collection[_OtherDocumentType]: ...
    def __getitem__(self, name: str) -> Collection[_DocumentType]: ...
    def __getattr__(self, name: str) -> Collection[_DocumentType]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __repr__(self) -> str: ...
    def find_one(
        self,
        filter: object = None,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | None = None,
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
        comment: object = None,
        session: ClientSession | None = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, object] | None = None,
        prefetch: bool = False,
        into: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> _DocumentType | None: ...
    def find(
        self,
        filter: Mapping[str, object] | None = None,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | None = None,
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
        comment: object = None,
        session: ClientSession | None = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, object] | None = None,
        prefetch: bool = False,
        into: object = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
    ) -> Cursor[_DocumentType]: ...
    def find_raw_batches(
        self,
        filter: Mapping[str, object] | None = None,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | None = None,
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
        comment: object = None,
        session: ClientSession | None = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, object] | None = None,
        prefetch: bool = False,
        into: object = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
    ) -> RawBatchCursor[_DocumentType]: ...
    def insert_one(
        self,
        document: _DocumentType | RawBSONDocument,
        bypass_document_validation: bool | None = None,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> InsertOneResult: ...
    def insert_many(
        self,
        documents: Iterable[_DocumentType | RawBSONDocument],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> InsertManyResult: ...
    def update_one(
        self,
        filter: Mapping[str, object],
        update: Mapping[str, object] | _Pipeline,
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        array_filters: Sequence[Mapping[str, object]] | None = None,
        hint: _IndexKeyHint | None = None,
        session: ClientSession | None = None,
        let: Mapping[str, object] | None = None,
        sort: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> UpdateResult: ...
    def update_many(
        self,
        filter: Mapping[str, object],
        update: Mapping[str, object] | _Pipeline,
        upsert: bool = False,
        array_filters: Sequence[Mapping[str, object]] | None = None,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: ClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> UpdateResult: ...
    def replace_one(
        self,
        filter: Mapping[str, object],
        replacement: Mapping[str, object],
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: ClientSession | None = None,
        let: Mapping[str, object] | None = None,
        sort: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> UpdateResult: ...
    def delete_one(
        self,
        filter: Mapping[str, object],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: ClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> DeleteResult: ...
    def delete_many(
        self,
        filter: Mapping[str, object],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: ClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> DeleteResult: ...
    def find_one_and_delete(
        self,
        filter: Mapping[str, object],
        projection: Mapping[str, object] | Iterable[str] | None = None,
        sort: _IndexList | None = None,
        hint: _IndexKeyHint | None = None,
        session: ClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> _DocumentType | None: ...
    def find_one_and_replace(
        self,
        filter: Mapping[str, object],
        replacement: Mapping[str, object],
        projection: Mapping[str, object] | Iterable[str] | None = None,
        sort: _IndexList | None = None,
        upsert: bool = False,
        return_document: bool = False,
        hint: _IndexKeyHint | None = None,
        session: ClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> _DocumentType | None: ...
    def find_one_and_update(
        self,
        filter: Mapping[str, object],
        update: Mapping[str, object] | _Pipeline,
        projection: Mapping[str, object] | Iterable[str] | None = None,
        sort: _IndexList | None = None,
        upsert: bool = False,
        return_document: bool = False,
        array_filters: Sequence[Mapping[str, object]] | None = None,
        hint: _IndexKeyHint | None = None,
        session: ClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> _DocumentType | None: ...
    def bulk_write(
        self,
        requests: Sequence[object],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: ClientSession | None = None,
        comment: object = None,
        let: Mapping[str, object] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> BulkWriteResult: ...
    def insert_arrow(
        self,
        table: object,
        ordered: bool = True,
        *,
        exclude_none: bool = False,
        key: str | Sequence[str] | None = None,
        once: str | None = None,
        bypass_document_validation: bool | None = None,
        session: ClientSession | None = None,
        comment: object = None,
        timeout_ms: float | None = None,
    ) -> BulkWriteResult: ...
    def aggregate(
        self,
        pipeline: _Pipeline,
        session: ClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
        **kwargs: object,
    ) -> CommandCursor[_DocumentType]: ...
    def aggregate_raw_batches(
        self,
        pipeline: _Pipeline,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
        **kwargs: object,
    ) -> RawBatchCommandCursor[_DocumentType]: ...
    def count_documents(
        self,
        filter: Mapping[str, object],
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> int: ...
    def estimated_document_count(
        self,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> int: ...
    def distinct(
        self,
        key: str,
        filter: Mapping[str, object] | None = None,
        session: ClientSession | None = None,
        comment: object = None,
        hint: _IndexKeyHint | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> list[Any]: ...
    def infer_schema(
        self,
        filter: Mapping[str, object] | None = None,
        *,
        sample: int | None = None,
        timeout_ms: float | None = None,
    ) -> InferredSchema: ...
    def create_index(
        self,
        keys: _IndexKeyHint,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> str: ...
    def create_indexes(
        self,
        indexes: Sequence[IndexModel],
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> list[str]: ...
    def drop_index(
        self,
        index_or_name: _IndexKeyHint,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> None: ...
    def drop_indexes(
        self,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> None: ...
    def list_indexes(
        self,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
    ) -> CommandCursor[SON[str, Any]]: ...
    def index_information(
        self,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, Any]: ...
    def list_search_indexes(
        self,
        name: str | None = None,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> CommandCursor[dict[str, Any]]: ...
    def create_search_index(
        self,
        model: Mapping[str, object] | SearchIndexModel,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> str: ...
    def create_search_indexes(
        self,
        models: list[SearchIndexModel],
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> list[str]: ...
    def drop_search_index(
        self,
        name: str,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> None: ...
    def update_search_index(
        self,
        name: str,
        definition: Mapping[str, object],
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> None: ...
    def drop(
        self,
        session: ClientSession | None = None,
        comment: object = None,
        encrypted_fields: Mapping[str, object] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> None: ...
    def rename(
        self,
        new_name: str,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> dict[str, Any]: ...
    def options(
        self,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, Any]: ...
    def partitions(
        self,
        count: int,
        filter: Mapping[str, object] | None = None,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        *,
        snapshot: bool = False,
        ordered: bool = False,
        by: str = "auto",
        connect: Callable[[], object] | str | None = None,
        batch_size: int = 0,
        comment: object = None,
        max_time_ms: int | None = None,
        no_cursor_timeout: bool = False,
        allow_partial_results: bool = False,
        let: Mapping[str, object] | None = None,
    ) -> list[Partition[_DocumentType]]: ...
    def scan_polars(
        self,
        schema: object,
        filter: Mapping[str, object] | None = None,
        *,
        on_invalid: str = "raise",
        parallel: int = 1,
        connect: Callable[[], object] | str | None = None,
    ) -> PolarsLazyFrame: ...
    def dataset(
        self,
        schema: object,
        filter: Mapping[str, object] | None = None,
        *,
        on_invalid: str = "raise",
        parallel: int = 1,
        connect: Callable[[], object] | str | None = None,
    ) -> ArrowDataset: ...
    def watch(
        self,
        pipeline: _Pipeline | None = None,
        full_document: str | None = None,
        resume_after: Mapping[str, object] | None = None,
        max_await_time_ms: int | None = None,
        batch_size: int | None = None,
        collation: _CollationIn | None = None,
        start_at_operation_time: Timestamp | None = None,
        session: ClientSession | None = None,
        start_after: Mapping[str, object] | None = None,
        comment: object = None,
        full_document_before_change: str | None = None,
        show_expanded_events: bool | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> CollectionChangeStream[_DocumentType]: ...
    def __next__(self) -> NoReturn: ...
    def next(self) -> NoReturn: ...
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
        *,
        timeout_ms: float | None = None,
    ) -> Database[_DocumentType]: ...
    @overload
    def with_options(
        self,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Database[_OtherDocumentType]: ...
    @overload
    def get_collection(
        self,
        name: str,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Collection[_DocumentType]: ...
    @overload
    def get_collection(
        self,
        name: str,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
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
        command: str | Mapping[str, object],
        value: object = 1,
        check: bool = True,
        allowable_errors: Container[str | int] | None = None,
        read_preference: _ServerMode | None = None,
        codec_options: None = None,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> dict[str, Any]: ...
    @overload
    def command(
        self,
        command: str | Mapping[str, object],
        value: object = 1,
        check: bool = True,
        allowable_errors: Container[str | int] | None = None,
        read_preference: _ServerMode | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> _OtherDocumentType: ...
    @overload
    def create_collection(
        self,
        name: str,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        session: ClientSession | None = None,
        check_exists: bool | None = True,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> Collection[_DocumentType]: ...
    @overload
    def create_collection(
        self,
        name: str,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        session: ClientSession | None = None,
        check_exists: bool | None = True,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> Collection[_OtherDocumentType]: ...
    def drop_collection(
        self,
        name_or_collection: str | Collection[Any],
        session: ClientSession | None = None,
        comment: object = None,
        encrypted_fields: Mapping[str, object] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, Any]: ...
    def list_collections(
        self,
        session: ClientSession | None = None,
        filter: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
        **kwargs: object,
    ) -> CommandCursor[dict[str, Any]]: ...
    def list_collection_names(
        self,
        session: ClientSession | None = None,
        filter: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> list[str]: ...
    def aggregate(
        self,
        pipeline: _Pipeline,
        session: ClientSession | None = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
        **kwargs: object,
    ) -> CommandCursor[dict[str, Any]]: ...
    @overload
    def cursor_command(
        self,
        command: str | Mapping[str, object],
        value: object = 1,
        read_preference: _ServerMode | None = None,
        codec_options: None = None,
        session: ClientSession | None = None,
        comment: object = None,
        max_await_time_ms: int | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> CommandCursor[dict[str, Any]]: ...
    @overload
    def cursor_command(
        self,
        command: str | Mapping[str, object],
        value: object = 1,
        read_preference: _ServerMode | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        session: ClientSession | None = None,
        comment: object = None,
        max_await_time_ms: int | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> CommandCursor[_OtherDocumentType]: ...
    def validate_collection(
        self,
        name_or_collection: str | Collection[Any],
        scandata: bool = False,
        full: bool = False,
        session: ClientSession | None = None,
        background: bool | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, Any]: ...
    def dereference(
        self,
        dbref: DBRef,
        session: ClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> _DocumentType | None: ...
    def watch(
        self,
        pipeline: _Pipeline | None = None,
        full_document: str | None = None,
        resume_after: Mapping[str, object] | None = None,
        max_await_time_ms: int | None = None,
        batch_size: int | None = None,
        collation: _CollationIn | None = None,
        start_at_operation_time: Timestamp | None = None,
        session: ClientSession | None = None,
        start_after: Mapping[str, object] | None = None,
        comment: object = None,
        full_document_before_change: str | None = None,
        show_expanded_events: bool | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> DatabaseChangeStream[_DocumentType]: ...
    def __next__(self) -> NoReturn: ...
    def next(self) -> NoReturn: ...
    @property
    def codec_options(self) -> CodecOptions[Any]: ...
    @property
    def read_preference(self) -> _ServerMode: ...
    @property
    def write_concern(self) -> WriteConcern: ...
    @property
    def read_concern(self) -> ReadConcern: ...

class ClientSession:
    def __init__(self, client: MongoClient[Any], options: SessionOptions) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...
    def __copy__(self) -> NoReturn: ...
    def __deepcopy__(self, memo: object) -> NoReturn: ...
    @property
    def client(self) -> MongoClient[Any]: ...
    @property
    def options(self) -> SessionOptions: ...
    @property
    def session_id(self) -> Mapping[str, Any]: ...
    @property
    def cluster_time(self) -> Mapping[str, Any] | None: ...
    @property
    def operation_time(self) -> Timestamp | None: ...
    @property
    def has_ended(self) -> bool: ...
    @property
    def in_transaction(self) -> bool: ...
    def advance_cluster_time(self, cluster_time: Mapping[str, object]) -> None: ...
    def advance_operation_time(self, operation_time: Timestamp) -> None: ...
    def bind(self, end_session: bool = True) -> AbstractContextManager[Self]: ...
    def start_transaction(
        self,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        read_preference: _ServerMode | None = None,
        max_commit_time_ms: int | None = None,
    ) -> BlockingTransaction: ...
    def commit_transaction(self, *, timeout_ms: float | None = None) -> None: ...
    def abort_transaction(self, *, timeout_ms: float | None = None) -> None: ...
    def with_transaction(
        self,
        callback: Callable[[ClientSession], _Result],
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        read_preference: _ServerMode | None = None,
        max_commit_time_ms: int | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> _Result: ...
    def end_session(self) -> None: ...

class AsyncCursor(Generic[_DocumentType]):
    def __init__(
        self,
        collection: AsyncCollection[_DocumentType],
        filter: Mapping[str, object] | None = None,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | None = None,
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
        comment: object = None,
        session: AsyncClientSession | None = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, object] | None = None,
        prefetch: bool = False,
        into: object = None,
    ) -> None: ...
    async def next(self) -> _DocumentType: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    async def rewind(self) -> Self: ...
    def clone(self) -> Self: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object) -> Self: ...
    async def distinct(self, key: str) -> list[Any]: ...
    async def explain(self) -> dict[str, Any]: ...
    def sort(self, key_or_list: _IndexKeyHint, direction: int | str | None = None) -> Self: ...
    def limit(self, limit: int) -> Self: ...
    def skip(self, skip: int) -> Self: ...
    def batch_size(self, batch_size: int) -> Self: ...
    def hint(self, index: _IndexKeyHint | None) -> Self: ...
    def comment(self, comment: object) -> Self: ...
    def collation(self, collation: _CollationIn | None) -> Self: ...
    def max(self, spec: _IndexList) -> Self: ...
    def min(self, spec: _IndexList) -> Self: ...
    def max_time_ms(self, max_time_ms: int | None) -> Self: ...
    def max_await_time_ms(self, max_await_time_ms: int | None) -> Self: ...
    def max_scan(self, max_scan: int | None) -> Self: ...
    def allow_disk_use(self, allow_disk_use: bool) -> Self: ...
    def where(self, code: object) -> Self: ...
    def prefetch(self, prefetch: bool = True) -> Self: ...
    async def add_option(self, mask: int) -> Self: ...
    def remove_option(self, mask: int) -> Self: ...
    async def close(self, *, timeout_ms: float | None = None) -> None: ...
    @property
    def collection(self) -> AsyncCollection[_DocumentType]: ...
    @property
    def alive(self) -> bool: ...
    @property
    def cursor_id(self) -> int | None: ...
    @property
    def address(self) -> tuple[str, int | None] | None: ...
    @property
    def session(self) -> AsyncClientSession | None: ...
    @property
    def retrieved(self) -> int: ...
    async def to_list(self, length: int | None = None) -> list[_DocumentType]: ...
    async def to_json(self, mode: str = "relaxed") -> bytes: ...
    async def to_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> _core.ArrowTable: ...
    def iter_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> ArrowTables: ...
    async def to_polars(self, schema: object = None, **options: Unpack[TableOptions]) -> PolarsFrame: ...
    async def to_pandas(self, schema: object = None, **options: Unpack[TableOptions]) -> PandasFrame: ...
    async def to_numpy(self, schema: object = None, **options: Unpack[TableOptions]) -> NumpyArrays: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Awaitable[_DocumentType]: ...

class AsyncRawBatchCursor(Generic[_DocumentType]):
    def __init__(
        self,
        collection: AsyncCollection[_DocumentType],
        filter: Mapping[str, object] | None = None,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | None = None,
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
        comment: object = None,
        session: AsyncClientSession | None = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, object] | None = None,
        prefetch: bool = False,
        into: object = None,
    ) -> None: ...
    async def next(self) -> bytes: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    async def rewind(self) -> Self: ...
    def clone(self) -> Self: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: object) -> Self: ...
    async def distinct(self, key: str) -> list[Any]: ...
    async def explain(self) -> dict[str, Any]: ...
    def sort(self, key_or_list: _IndexKeyHint, direction: int | str | None = None) -> Self: ...
    def limit(self, limit: int) -> Self: ...
    def skip(self, skip: int) -> Self: ...
    def batch_size(self, batch_size: int) -> Self: ...
    def hint(self, index: _IndexKeyHint | None) -> Self: ...
    def comment(self, comment: object) -> Self: ...
    def collation(self, collation: _CollationIn | None) -> Self: ...
    def max(self, spec: _IndexList) -> Self: ...
    def min(self, spec: _IndexList) -> Self: ...
    def max_time_ms(self, max_time_ms: int | None) -> Self: ...
    def max_await_time_ms(self, max_await_time_ms: int | None) -> Self: ...
    def max_scan(self, max_scan: int | None) -> Self: ...
    def allow_disk_use(self, allow_disk_use: bool) -> Self: ...
    def where(self, code: object) -> Self: ...
    def prefetch(self, prefetch: bool = True) -> Self: ...
    async def add_option(self, mask: int) -> Self: ...
    def remove_option(self, mask: int) -> Self: ...
    async def close(self, *, timeout_ms: float | None = None) -> None: ...
    @property
    def collection(self) -> AsyncCollection[_DocumentType]: ...
    @property
    def alive(self) -> bool: ...
    @property
    def cursor_id(self) -> int | None: ...
    @property
    def address(self) -> tuple[str, int | None] | None: ...
    @property
    def session(self) -> AsyncClientSession | None: ...
    @property
    def retrieved(self) -> int: ...
    async def to_list(self, length: int | None = None) -> list[bytes]: ...
    async def to_json(self, mode: str = "relaxed") -> bytes: ...
    async def to_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> _core.ArrowTable: ...
    def iter_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> ArrowTables: ...
    async def to_polars(self, schema: object = None, **options: Unpack[TableOptions]) -> PolarsFrame: ...
    async def to_pandas(self, schema: object = None, **options: Unpack[TableOptions]) -> PandasFrame: ...
    async def to_numpy(self, schema: object = None, **options: Unpack[TableOptions]) -> NumpyArrays: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Awaitable[bytes]: ...

class AsyncCommandCursor(Generic[_DocumentType]):
    def __init__(
        self,
        collection: AsyncCollection[_DocumentType],
        batch: _core.Batch | None,
        codec: _core.Codec | None = None,
        batch_size: int = 0,
        max_await_time_ms: int | None = None,
        comment: object = None,
        session: AsyncClientSession | None = None,
    ) -> None: ...
    async def next(self) -> _DocumentType: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    def batch_size(self, batch_size: int) -> Self: ...
    async def try_next(self) -> _DocumentType | None: ...
    async def close(self, *, timeout_ms: float | None = None) -> None: ...
    @property
    def collection(self) -> AsyncCollection[_DocumentType]: ...
    @property
    def alive(self) -> bool: ...
    @property
    def cursor_id(self) -> int | None: ...
    @property
    def address(self) -> tuple[str, int | None] | None: ...
    @property
    def session(self) -> AsyncClientSession | None: ...
    @property
    def retrieved(self) -> int: ...
    async def to_list(self, length: int | None = None) -> list[_DocumentType]: ...
    async def to_json(self, mode: str = "relaxed") -> bytes: ...
    async def to_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> _core.ArrowTable: ...
    def iter_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> ArrowTables: ...
    async def to_polars(self, schema: object = None, **options: Unpack[TableOptions]) -> PolarsFrame: ...
    async def to_pandas(self, schema: object = None, **options: Unpack[TableOptions]) -> PandasFrame: ...
    async def to_numpy(self, schema: object = None, **options: Unpack[TableOptions]) -> NumpyArrays: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Awaitable[_DocumentType]: ...

class AsyncRawBatchCommandCursor(Generic[_DocumentType]):
    def __init__(
        self,
        collection: AsyncCollection[_DocumentType],
        batch: _core.Batch | None,
        codec: _core.Codec | None = None,
        batch_size: int = 0,
        max_await_time_ms: int | None = None,
        comment: object = None,
        session: AsyncClientSession | None = None,
    ) -> None: ...
    async def next(self) -> bytes: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    def batch_size(self, batch_size: int) -> Self: ...
    async def try_next(self) -> bytes | None: ...
    async def close(self, *, timeout_ms: float | None = None) -> None: ...
    @property
    def collection(self) -> AsyncCollection[_DocumentType]: ...
    @property
    def alive(self) -> bool: ...
    @property
    def cursor_id(self) -> int | None: ...
    @property
    def address(self) -> tuple[str, int | None] | None: ...
    @property
    def session(self) -> AsyncClientSession | None: ...
    @property
    def retrieved(self) -> int: ...
    async def to_list(self, length: int | None = None) -> list[bytes]: ...
    async def to_json(self, mode: str = "relaxed") -> bytes: ...
    async def to_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> _core.ArrowTable: ...
    def iter_arrow(
        self,
        schema: object = None,
        *,
        rows: int = ...,
        **options: Unpack[TableOptions],
    ) -> ArrowTables: ...
    async def to_polars(self, schema: object = None, **options: Unpack[TableOptions]) -> PolarsFrame: ...
    async def to_pandas(self, schema: object = None, **options: Unpack[TableOptions]) -> PandasFrame: ...
    async def to_numpy(self, schema: object = None, **options: Unpack[TableOptions]) -> NumpyArrays: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Awaitable[bytes]: ...

class AsyncChangeStream(Generic[_DocumentType]):
    def __init__(
        self,
        source: AggregatingSource,
        target: str | int,
        collection: AsyncCollection[Any],
        **options: Unpack[WatchOptions],
    ) -> None: ...
    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> _DocumentType: ...
    async def next(self) -> _DocumentType: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    @property
    def resume_token(self) -> Mapping[str, Any] | None: ...
    @property
    def alive(self) -> bool: ...
    async def try_next(self) -> _DocumentType | None: ...
    async def close(self, *, timeout_ms: float | None = None) -> None: ...

class AsyncCollectionChangeStream(AsyncChangeStream[_DocumentType]):
    ...

class AsyncDatabaseChangeStream(AsyncChangeStream[_DocumentType]):
    ...

class AsyncClusterChangeStream(AsyncDatabaseChangeStream[_DocumentType]):
    ...

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
        session: AsyncClientSession | None = None,
        **kwargs: object,
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
        *,
        timeout_ms: float | None = None,
    ) -> AsyncCollection[_DocumentType]: ...
    @overload
    def with_options(
        self,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> AsyncCollection[_OtherDocumentType]: ...
    def __getitem__(self, name: str) -> AsyncCollection[_DocumentType]: ...
    def __getattr__(self, name: str) -> AsyncCollection[_DocumentType]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __repr__(self) -> str: ...
    async def find_one(
        self,
        filter: object = None,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | None = None,
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
        comment: object = None,
        session: AsyncClientSession | None = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, object] | None = None,
        prefetch: bool = False,
        into: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> _DocumentType | None: ...
    def find(
        self,
        filter: Mapping[str, object] | None = None,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | None = None,
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
        comment: object = None,
        session: AsyncClientSession | None = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, object] | None = None,
        prefetch: bool = False,
        into: object = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
    ) -> AsyncCursor[_DocumentType]: ...
    def find_raw_batches(
        self,
        filter: Mapping[str, object] | None = None,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        cursor_type: int = ...,
        sort: _IndexList | None = None,
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
        comment: object = None,
        session: AsyncClientSession | None = None,
        allow_disk_use: bool | None = None,
        let: Mapping[str, object] | None = None,
        prefetch: bool = False,
        into: object = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
    ) -> AsyncRawBatchCursor[_DocumentType]: ...
    async def insert_one(
        self,
        document: _DocumentType | RawBSONDocument,
        bypass_document_validation: bool | None = None,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> InsertOneResult: ...
    async def insert_many(
        self,
        documents: Iterable[_DocumentType | RawBSONDocument],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> InsertManyResult: ...
    async def update_one(
        self,
        filter: Mapping[str, object],
        update: Mapping[str, object] | _Pipeline,
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        array_filters: Sequence[Mapping[str, object]] | None = None,
        hint: _IndexKeyHint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, object] | None = None,
        sort: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> UpdateResult: ...
    async def update_many(
        self,
        filter: Mapping[str, object],
        update: Mapping[str, object] | _Pipeline,
        upsert: bool = False,
        array_filters: Sequence[Mapping[str, object]] | None = None,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> UpdateResult: ...
    async def replace_one(
        self,
        filter: Mapping[str, object],
        replacement: Mapping[str, object],
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, object] | None = None,
        sort: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> UpdateResult: ...
    async def delete_one(
        self,
        filter: Mapping[str, object],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> DeleteResult: ...
    async def delete_many(
        self,
        filter: Mapping[str, object],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> DeleteResult: ...
    async def find_one_and_delete(
        self,
        filter: Mapping[str, object],
        projection: Mapping[str, object] | Iterable[str] | None = None,
        sort: _IndexList | None = None,
        hint: _IndexKeyHint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> _DocumentType | None: ...
    async def find_one_and_replace(
        self,
        filter: Mapping[str, object],
        replacement: Mapping[str, object],
        projection: Mapping[str, object] | Iterable[str] | None = None,
        sort: _IndexList | None = None,
        upsert: bool = False,
        return_document: bool = False,
        hint: _IndexKeyHint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> _DocumentType | None: ...
    async def find_one_and_update(
        self,
        filter: Mapping[str, object],
        update: Mapping[str, object] | _Pipeline,
        projection: Mapping[str, object] | Iterable[str] | None = None,
        sort: _IndexList | None = None,
        upsert: bool = False,
        return_document: bool = False,
        array_filters: Sequence[Mapping[str, object]] | None = None,
        hint: _IndexKeyHint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> _DocumentType | None: ...
    async def bulk_write(
        self,
        requests: Sequence[object],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: AsyncClientSession | None = None,
        comment: object = None,
        let: Mapping[str, object] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> BulkWriteResult: ...
    async def insert_arrow(
        self,
        table: object,
        ordered: bool = True,
        *,
        exclude_none: bool = False,
        key: str | Sequence[str] | None = None,
        once: str | None = None,
        bypass_document_validation: bool | None = None,
        session: AsyncClientSession | None = None,
        comment: object = None,
        timeout_ms: float | None = None,
    ) -> BulkWriteResult: ...
    async def aggregate(
        self,
        pipeline: _Pipeline,
        session: AsyncClientSession | None = None,
        let: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
        **kwargs: object,
    ) -> AsyncCommandCursor[_DocumentType]: ...
    async def aggregate_raw_batches(
        self,
        pipeline: _Pipeline,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
        **kwargs: object,
    ) -> AsyncRawBatchCommandCursor[_DocumentType]: ...
    async def count_documents(
        self,
        filter: Mapping[str, object],
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> int: ...
    async def estimated_document_count(
        self,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> int: ...
    async def distinct(
        self,
        key: str,
        filter: Mapping[str, object] | None = None,
        session: AsyncClientSession | None = None,
        comment: object = None,
        hint: _IndexKeyHint | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> list[Any]: ...
    async def infer_schema(
        self,
        filter: Mapping[str, object] | None = None,
        *,
        sample: int | None = None,
        timeout_ms: float | None = None,
    ) -> InferredSchema: ...
    async def create_index(
        self,
        keys: _IndexKeyHint,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> str: ...
    async def create_indexes(
        self,
        indexes: Sequence[IndexModel],
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> list[str]: ...
    async def drop_index(
        self,
        index_or_name: _IndexKeyHint,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> None: ...
    async def drop_indexes(
        self,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> None: ...
    async def list_indexes(
        self,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
    ) -> AsyncCommandCursor[SON[str, Any]]: ...
    async def index_information(
        self,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, Any]: ...
    async def list_search_indexes(
        self,
        name: str | None = None,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> AsyncCommandCursor[dict[str, Any]]: ...
    async def create_search_index(
        self,
        model: Mapping[str, object] | SearchIndexModel,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> str: ...
    async def create_search_indexes(
        self,
        models: list[SearchIndexModel],
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> list[str]: ...
    async def drop_search_index(
        self,
        name: str,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> None: ...
    async def update_search_index(
        self,
        name: str,
        definition: Mapping[str, object],
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> None: ...
    async def drop(
        self,
        session: AsyncClientSession | None = None,
        comment: object = None,
        encrypted_fields: Mapping[str, object] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> None: ...
    async def rename(
        self,
        new_name: str,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> dict[str, Any]: ...
    async def options(
        self,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, Any]: ...
    async def partitions(
        self,
        count: int,
        filter: Mapping[str, object] | None = None,
        projection: Mapping[str, object] | Sequence[str] | None = None,
        *,
        snapshot: bool = False,
        ordered: bool = False,
        by: str = "auto",
        connect: Callable[[], object] | str | None = None,
        batch_size: int = 0,
        comment: object = None,
        max_time_ms: int | None = None,
        no_cursor_timeout: bool = False,
        allow_partial_results: bool = False,
        let: Mapping[str, object] | None = None,
    ) -> list[AsyncPartition[_DocumentType]]: ...
    def scan_polars(
        self,
        schema: object,
        filter: Mapping[str, object] | None = None,
        *,
        on_invalid: str = "raise",
        parallel: int = 1,
        connect: Callable[[], object] | str | None = None,
    ) -> PolarsLazyFrame: ...
    def dataset(
        self,
        schema: object,
        filter: Mapping[str, object] | None = None,
        *,
        on_invalid: str = "raise",
        parallel: int = 1,
        connect: Callable[[], object] | str | None = None,
    ) -> ArrowDataset: ...
    async def watch(
        self,
        pipeline: _Pipeline | None = None,
        full_document: str | None = None,
        resume_after: Mapping[str, object] | None = None,
        max_await_time_ms: int | None = None,
        batch_size: int | None = None,
        collation: _CollationIn | None = None,
        start_at_operation_time: Timestamp | None = None,
        session: AsyncClientSession | None = None,
        start_after: Mapping[str, object] | None = None,
        comment: object = None,
        full_document_before_change: str | None = None,
        show_expanded_events: bool | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> AsyncCollectionChangeStream[_DocumentType]: ...
    def __next__(self) -> NoReturn: ...
    def next(self) -> NoReturn: ...
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
        *,
        timeout_ms: float | None = None,
    ) -> AsyncDatabase[_DocumentType]: ...
    @overload
    def with_options(
        self,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> AsyncDatabase[_OtherDocumentType]: ...
    @overload
    def get_collection(
        self,
        name: str,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> AsyncCollection[_DocumentType]: ...
    @overload
    def get_collection(
        self,
        name: str,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> AsyncCollection[_OtherDocumentType]: ...
    def __getitem__(self, name: str) -> AsyncCollection[_DocumentType]: ...
    def __getattr__(self, name: str) -> AsyncCollection[_DocumentType]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __repr__(self) -> str: ...
    @overload
    async def command(
        self,
        command: str | Mapping[str, object],
        value: object = 1,
        check: bool = True,
        allowable_errors: Container[str | int] | None = None,
        read_preference: _ServerMode | None = None,
        codec_options: None = None,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> dict[str, Any]: ...
    @overload
    async def command(
        self,
        command: str | Mapping[str, object],
        value: object = 1,
        check: bool = True,
        allowable_errors: Container[str | int] | None = None,
        read_preference: _ServerMode | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> _OtherDocumentType: ...
    @overload
    async def create_collection(
        self,
        name: str,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        session: AsyncClientSession | None = None,
        check_exists: bool | None = True,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> AsyncCollection[_DocumentType]: ...
    @overload
    async def create_collection(
        self,
        name: str,
        codec_options: CodecOptions[_OtherDocumentType],
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        session: AsyncClientSession | None = None,
        check_exists: bool | None = True,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> AsyncCollection[_OtherDocumentType]: ...
    async def drop_collection(
        self,
        name_or_collection: str | AsyncCollection[Any],
        session: AsyncClientSession | None = None,
        comment: object = None,
        encrypted_fields: Mapping[str, object] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, Any]: ...
    async def list_collections(
        self,
        session: AsyncClientSession | None = None,
        filter: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
        **kwargs: object,
    ) -> AsyncCommandCursor[dict[str, Any]]: ...
    async def list_collection_names(
        self,
        session: AsyncClientSession | None = None,
        filter: Mapping[str, object] | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> list[str]: ...
    async def aggregate(
        self,
        pipeline: _Pipeline,
        session: AsyncClientSession | None = None,
        *,
        timeout_ms: float | None = None,
        timeout_mode: str | None = None,
        **kwargs: object,
    ) -> AsyncCommandCursor[dict[str, Any]]: ...
    @overload
    async def cursor_command(
        self,
        command: str | Mapping[str, object],
        value: object = 1,
        read_preference: _ServerMode | None = None,
        codec_options: None = None,
        session: AsyncClientSession | None = None,
        comment: object = None,
        max_await_time_ms: int | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> AsyncCommandCursor[dict[str, Any]]: ...
    @overload
    async def cursor_command(
        self,
        command: str | Mapping[str, object],
        value: object = 1,
        read_preference: _ServerMode | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        session: AsyncClientSession | None = None,
        comment: object = None,
        max_await_time_ms: int | None = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> AsyncCommandCursor[_OtherDocumentType]: ...
    async def validate_collection(
        self,
        name_or_collection: str | AsyncCollection[Any],
        scandata: bool = False,
        full: bool = False,
        session: AsyncClientSession | None = None,
        background: bool | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, Any]: ...
    async def dereference(
        self,
        dbref: DBRef,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> _DocumentType | None: ...
    async def watch(
        self,
        pipeline: _Pipeline | None = None,
        full_document: str | None = None,
        resume_after: Mapping[str, object] | None = None,
        max_await_time_ms: int | None = None,
        batch_size: int | None = None,
        collation: _CollationIn | None = None,
        start_at_operation_time: Timestamp | None = None,
        session: AsyncClientSession | None = None,
        start_after: Mapping[str, object] | None = None,
        comment: object = None,
        full_document_before_change: str | None = None,
        show_expanded_events: bool | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> AsyncDatabaseChangeStream[_DocumentType]: ...
    def __next__(self) -> NoReturn: ...
    def next(self) -> NoReturn: ...
    @property
    def codec_options(self) -> CodecOptions[Any]: ...
    @property
    def read_preference(self) -> _ServerMode: ...
    @property
    def write_concern(self) -> WriteConcern: ...
    @property
    def read_concern(self) -> ReadConcern: ...

class AsyncClientSession:
    def __init__(self, client: AsyncMongoClient[Any], options: SessionOptions) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    def __copy__(self) -> NoReturn: ...
    def __deepcopy__(self, memo: object) -> NoReturn: ...
    @property
    def client(self) -> AsyncMongoClient[Any]: ...
    @property
    def options(self) -> SessionOptions: ...
    @property
    def session_id(self) -> Mapping[str, Any]: ...
    @property
    def cluster_time(self) -> Mapping[str, Any] | None: ...
    @property
    def operation_time(self) -> Timestamp | None: ...
    @property
    def has_ended(self) -> bool: ...
    @property
    def in_transaction(self) -> bool: ...
    def advance_cluster_time(self, cluster_time: Mapping[str, object]) -> None: ...
    def advance_operation_time(self, operation_time: Timestamp) -> None: ...
    def bind(self, end_session: bool = True) -> AbstractAsyncContextManager[Self]: ...
    def start_transaction(
        self,
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        read_preference: _ServerMode | None = None,
        max_commit_time_ms: int | None = None,
    ) -> AsyncTransaction: ...
    async def commit_transaction(self, *, timeout_ms: float | None = None) -> None: ...
    async def abort_transaction(self, *, timeout_ms: float | None = None) -> None: ...
    async def with_transaction(
        self,
        callback: Callable[[AsyncClientSession], Coroutine[Any, Any, _Result]],
        read_concern: ReadConcern | None = None,
        write_concern: WriteConcern | None = None,
        read_preference: _ServerMode | None = None,
        max_commit_time_ms: int | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> _Result: ...
    async def end_session(self) -> None: ...

class AsyncMongoClient(Generic[_DocumentType]):
    def __init__(
        self,
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        document_class: type[_DocumentType] | None = None,
        tz_aware: bool | None = None,
        connect: bool | None = None,
        type_registry: TypeRegistry | None = None,
        **kwargs: object,
    ) -> None: ...
    async def aconnect(self) -> None: ...
    async def aclose(self) -> None: ...
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
        *,
        timeout_ms: float | None = None,
    ) -> AsyncDatabase[_DocumentType]: ...
    @overload
    def get_database(
        self,
        name: str | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> AsyncDatabase[_OtherDocumentType]: ...
    @overload
    def get_default_database(
        self,
        default: str | None = None,
        codec_options: None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> AsyncDatabase[_DocumentType]: ...
    @overload
    def get_default_database(
        self,
        default: str | None = None,
        codec_options: CodecOptions[_OtherDocumentType] = ...,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> AsyncDatabase[_OtherDocumentType]: ...
    def start_session(
        self,
        causal_consistency: bool | None = None,
        default_transaction_options: TransactionOptions | None = None,
        snapshot: bool | None = False,
        *,
        default_timeout_ms: float | None = None,
    ) -> AsyncClientSession: ...
    def __getitem__(self, name: str) -> AsyncDatabase[_DocumentType]: ...
    def __getattr__(self, name: str) -> AsyncDatabase[_DocumentType]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...
    def metrics(self) -> ClientMetrics: ...
    async def close(self) -> None: ...
    async def list_databases(
        self,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
        **kwargs: object,
    ) -> AsyncCommandCursor[dict[str, Any]]: ...
    async def list_database_names(
        self,
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> list[str]: ...
    async def drop_database(
        self,
        name_or_database: str | AsyncDatabase[Any],
        session: AsyncClientSession | None = None,
        comment: object = None,
        *,
        timeout_ms: float | None = None,
    ) -> None: ...
    async def server_info(
        self,
        session: AsyncClientSession | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, Any]: ...
    def append_metadata(self, driver_info: DriverInfo) -> None: ...
    @property
    def address(self) -> Coroutine[object, None, Address]: ...
    @property
    def primary(self) -> Coroutine[object, None, Address | None]: ...
    @property
    def secondaries(self) -> Coroutine[object, None, set[Address]]: ...
    @property
    def arbiters(self) -> Coroutine[object, None, set[Address]]: ...
    @property
    def is_primary(self) -> Coroutine[object, None, bool]: ...
    @property
    def is_mongos(self) -> Coroutine[object, None, bool]: ...
    @property
    def nodes(self) -> frozenset[Address]: ...
    @property
    def topology_description(self) -> TopologyDescription: ...
    async def bulk_write(
        self,
        models: Sequence[object],
        session: AsyncClientSession | None = None,
        ordered: bool = True,
        verbose_results: bool = False,
        bypass_document_validation: bool | None = None,
        comment: object = None,
        let: Mapping[str, object] | None = None,
        write_concern: WriteConcern | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> ClientBulkWriteResult: ...
    async def watch(
        self,
        pipeline: _Pipeline | None = None,
        full_document: str | None = None,
        resume_after: Mapping[str, object] | None = None,
        max_await_time_ms: int | None = None,
        batch_size: int | None = None,
        collation: _CollationIn | None = None,
        start_at_operation_time: Timestamp | None = None,
        session: AsyncClientSession | None = None,
        start_after: Mapping[str, object] | None = None,
        comment: object = None,
        full_document_before_change: str | None = None,
        show_expanded_events: bool | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> AsyncClusterChangeStream[_DocumentType]: ...
    def __next__(self) -> NoReturn: ...
    def next(self) -> NoReturn: ...
    @property
    def codec_options(self) -> CodecOptions[Any]: ...
    @property
    def read_preference(self) -> _ServerMode: ...
    @property
    def write_concern(self) -> WriteConcern: ...
    @property
    def read_concern(self) -> ReadConcern: ...

class Partition(Generic[_DocumentType]):
    def __init__(self) -> None: ...
    def __reduce__(self) -> tuple[object, ...]: ...
    def __repr__(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def namespace(self) -> str: ...
    @property
    def low(self) -> RawBSONDocument | None: ...
    @property
    def high(self) -> RawBSONDocument | None: ...
    @property
    def shard(self) -> str | None: ...
    @property
    def snapshot_time(self) -> Timestamp | None: ...
    @overload
    def on(self, client: MongoClient[Any]) -> Partition[_DocumentType]: ...
    @overload
    def on(self, client: AsyncMongoClient[Any]) -> AsyncPartition[_DocumentType]: ...
    def find(self) -> Cursor[_DocumentType]: ...
    def to_arrow(
        self,
        schema: object = None,
        *,
        rows: int | None = None,
        **options: Unpack[TableOptions],
    ) -> _core.ArrowTable: ...
    def iter_arrow(
        self,
        schema: object = None,
        *,
        rows: int | None = None,
        **options: Unpack[TableOptions],
    ) -> ArrowTables: ...
    def to_polars(self, schema: object = None, **options: Unpack[TableOptions]) -> PolarsFrame: ...

class AsyncPartition(Generic[_DocumentType]):
    def __init__(self) -> None: ...
    def __reduce__(self) -> tuple[object, ...]: ...
    def __repr__(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def namespace(self) -> str: ...
    @property
    def low(self) -> RawBSONDocument | None: ...
    @property
    def high(self) -> RawBSONDocument | None: ...
    @property
    def shard(self) -> str | None: ...
    @property
    def snapshot_time(self) -> Timestamp | None: ...
    @overload
    def on(self, client: MongoClient[Any]) -> Partition[_DocumentType]: ...
    @overload
    def on(self, client: AsyncMongoClient[Any]) -> AsyncPartition[_DocumentType]: ...
    def find(self) -> AsyncCursor[_DocumentType]: ...
    async def to_arrow(
        self,
        schema: object = None,
        *,
        rows: int | None = None,
        **options: Unpack[TableOptions],
    ) -> _core.ArrowTable: ...
    def iter_arrow(
        self,
        schema: object = None,
        *,
        rows: int | None = None,
        **options: Unpack[TableOptions],
    ) -> ArrowTables: ...
    async def to_polars(self, schema: object = None, **options: Unpack[TableOptions]) -> PolarsFrame: ...
