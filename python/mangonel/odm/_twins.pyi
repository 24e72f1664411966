# Written by tools/stubs.py from the mapper's terminals; change those, then run `make stubs`.

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, Self, TypeVar, Unpack, overload
from mangonel._core import ArrowTable
from mangonel._shared.cursors.table_options import TableOptions
from mangonel.api import AsyncCollection, AsyncMongoClient
from mangonel.odm.expressions.changes import Change
from mangonel.odm.expressions.expr import Where
from mangonel.odm.model.refs import Ref, Refs
from mangonel.odm.query.options import AggregateOptions, TransactionOptions
from mangonel.odm.query.pages import Page, Pages
from mangonel.odm.query.reads import _Many
from mangonel.odm.query.watch import Event
from mangonel.odm.store.files import File
from mangonel.odm.store.history import Revision
from mangonel.odm.store.schema import IndexPlan

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
S = TypeVar("S")
T = TypeVar("T")

class ConnectionTwins:
    @property
    def aclient(self) -> AsyncMongoClient[Any]: """As `client`, on asyncio."""
    @overload
    def arun(
        self, function: Callable[[], Coroutine[Any, Any, T]], **options: Unpack[TransactionOptions]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def arun(
        self, function: Callable[[], T], **options: Unpack[TransactionOptions]
    ) -> Coroutine[Any, Any, T]: ...
    def aclose(self) -> Coroutine[Any, Any, None]: """As `close`, on asyncio."""

class AnyRefTwins:
    def aget(self) -> Coroutine[Any, Any, Any]: """As `get`, on asyncio."""

class ManyTwins(Generic[T]):
    def aall(self) -> Coroutine[Any, Any, list[T]]: """As `all`, on asyncio."""
    def acount(self) -> Coroutine[Any, Any, int]: """As `count`, on asyncio."""

class RefTwins(Generic[T]):
    def aget(self) -> Coroutine[Any, Any, T]: """As `get`, on asyncio."""

class RefsTwins(Generic[T]):
    def aall(self) -> Coroutine[Any, Any, list[T]]: """As `all`, on asyncio."""

class QueryAggregatesTwins(Generic[T]):
    @overload
    def aaggregate(
        self, pipeline: Iterable[Any], into: None = None, **options: Unpack[AggregateOptions]
    ) -> Coroutine[Any, Any, list[dict[str, Any]]]: """As `aggregate`, on asyncio."""
    @overload
    def aaggregate(
        self, pipeline: Iterable[Any], into: type[S], **options: Unpack[AggregateOptions]
    ) -> Coroutine[Any, Any, list[S]]: """As `aggregate`, on asyncio."""
    def asum(self, field: S | None) -> Coroutine[Any, Any, S]: """As `sum`, on asyncio."""
    @overload
    def aavg(self, field: float | None) -> Coroutine[Any, Any, float | None]: """As `avg`, on asyncio."""
    @overload
    def aavg(self, field: Decimal) -> Coroutine[Any, Any, Decimal | None]: """As `avg`, on asyncio."""
    def amin(self, field: S | None) -> Coroutine[Any, Any, S | None]: """As `min`, on asyncio."""
    def amax(self, field: S | None) -> Coroutine[Any, Any, S | None]: """As `max`, on asyncio."""

class QueryColumnsTwins(Generic[T]):
    def ato_arrow(
        self, schema: Any = None, **options: Unpack[TableOptions]
    ) -> Coroutine[Any, Any, ArrowTable]: """As `to_arrow`, on asyncio."""
    def ato_polars(
        self, schema: Any = None, **options: Unpack[TableOptions]
    ) -> Coroutine[Any, Any, Any]: """As `to_polars`, on asyncio."""
    def ato_pandas(
        self, schema: Any = None, **options: Unpack[TableOptions]
    ) -> Coroutine[Any, Any, Any]: """As `to_pandas`, on asyncio."""
    def ato_numpy(
        self, schema: Any = None, **options: Unpack[TableOptions]
    ) -> Coroutine[Any, Any, dict[str, Any]]: """As `to_numpy`, on asyncio."""
    def aiter_arrow(
        self, schema: Any = None, *, rows: int = ..., **options: Unpack[TableOptions]
    ) -> AsyncIterator[ArrowTable]: """As `iter_arrow`, on asyncio."""

class QueryReadsTwins(Generic[T]):
    def aall(self) -> Coroutine[Any, Any, list[T]]: """As `all`, on asyncio."""
    def afirst(self) -> Coroutine[Any, Any, T | None]: """As `first`, on asyncio."""
    def aone(self) -> Coroutine[Any, Any, T]: """As `one`, on asyncio."""
    def acount(self) -> Coroutine[Any, Any, int]: """As `count`, on asyncio."""
    def alast(self) -> Coroutine[Any, Any, T | None]: """As `last`, on asyncio."""
    def anth(self, index: int) -> Coroutine[Any, Any, T | None]: """As `nth`, on asyncio."""
    def ais_empty(self) -> Coroutine[Any, Any, bool]: """As `is_empty`, on asyncio."""
    def aexists(self) -> Coroutine[Any, Any, bool]: """As `exists`, on asyncio."""
    @overload
    def adistinct(self, field: Refs[S]) -> Coroutine[Any, Any, list[Ref[S]]]: """As `distinct`, on asyncio."""
    @overload
    def adistinct(
        self, field: _Many[S] | None
    ) -> Coroutine[Any, Any, list[S]]: """As `distinct`, on asyncio."""
    @overload
    def adistinct(self, field: S | None) -> Coroutine[Any, Any, list[S]]: """As `distinct`, on asyncio."""
    def adicts(self) -> Coroutine[Any, Any, list[dict[str, Any]]]: """As `dicts`, on asyncio."""
    def araw(self) -> Coroutine[Any, Any, list[bytes]]: """As `raw`, on asyncio."""
    def ajson(
        self, *, exclude: Iterable[Any] = ...
    ) -> Coroutine[Any, Any, bytes]: """As `json`, on asyncio."""
    @overload
    def avalues(self, field: S, /) -> Coroutine[Any, Any, list[S]]: """As `values`, on asyncio."""
    @overload
    def avalues(self, a: A, b: B, /) -> Coroutine[Any, Any, list[tuple[A, B]]]: """As `values`, on asyncio."""
    @overload
    def avalues(
        self, a: A, b: B, c: C, /
    ) -> Coroutine[Any, Any, list[tuple[A, B, C]]]: """As `values`, on asyncio."""
    @overload
    def avalues(
        self, a: A, b: B, c: C, d: D, /
    ) -> Coroutine[Any, Any, list[tuple[A, B, C, D]]]: """As `values`, on asyncio."""
    @overload
    def avalues(
        self, *fields: Any
    ) -> Coroutine[Any, Any, list[tuple[Any, ...]]]: """As `values`, on asyncio."""
    def aexplain(self) -> Coroutine[Any, Any, dict[str, Any]]: """As `explain`, on asyncio."""
    def apage(
        self, size: int = 20, after: str | None = None, *, before: str | None = None
    ) -> Coroutine[Any, Any, Page[T]]: """As `page`, on asyncio."""
    def apaginate(
        self, number: int = 1, size: int = 20
    ) -> Coroutine[Any, Any, Pages[T]]: """As `paginate`, on asyncio."""

class ChangesTwins(Generic[T]):
    def atry_next(self) -> Coroutine[Any, Any, Event[T] | None]: """As `try_next`, on asyncio."""
    def aclose(self) -> Coroutine[Any, Any, None]: """As `close`, on asyncio."""

class QueryWritesTwins(Generic[T]):
    def aupdate(
        self, *changes: Change, array_filters: Any = None, upsert: bool = False
    ) -> Coroutine[Any, Any, int]: """As `update`, on asyncio."""
    def adelete(self) -> Coroutine[Any, Any, int]: """As `delete`, on asyncio."""
    def afind_and_update(
        self, *changes: Change, new: bool = True, upsert: bool = False, array_filters: Any = None
    ) -> Coroutine[Any, Any, T | None]: """As `find_and_update`, on asyncio."""
    def afind_and_replace(
        self, document: T, *, new: bool = True, upsert: bool = False
    ) -> Coroutine[Any, Any, T | None]: """As `find_and_replace`, on asyncio."""
    def afind_and_delete(self) -> Coroutine[Any, Any, T | None]: """As `find_and_delete`, on asyncio."""
    def aupsert(
        self, *changes: Change, on_insert: Any = None
    ) -> Coroutine[Any, Any, T]: """As `upsert`, on asyncio."""
    def aget_or_create(
        self, on_insert: T
    ) -> Coroutine[Any, Any, tuple[T, bool]]: """As `get_or_create`, on asyncio."""

class DocumentTwins:
    @classmethod
    def acollection(cls) -> AsyncCollection[Any]: """As `collection`, on asyncio."""
    @classmethod
    def aget(cls, id: Any) -> Coroutine[Any, Any, Self]: """As `get`, on asyncio."""
    @classmethod
    def aget_or_none(cls, id: Any) -> Coroutine[Any, Any, Self | None]: """As `get_or_none`, on asyncio."""
    @classmethod
    def aget_many(
        cls, ids: Iterable[Any]
    ) -> Coroutine[Any, Any, list[Self]]: """As `get_many`, on asyncio."""
    @classmethod
    def aestimated_count(cls) -> Coroutine[Any, Any, int]: """As `estimated_count`, on asyncio."""
    def ainsert(
        self, *, validate: bool = True, session: Any = None, write_concern: Any = None
    ) -> Coroutine[Any, Any, Self]: """As `insert`, on asyncio."""
    def asave(
        self, *, validate: bool = True, cascade: bool = False, where: Where | None = None,
        session: Any = None, write_concern: Any = None
    ) -> Coroutine[Any, Any, Self]: """As `save`, on asyncio."""
    def areplace(
        self, *, upsert: bool = False, session: Any = None, write_concern: Any = None
    ) -> Coroutine[Any, Any, Self]: """As `replace`, on asyncio."""
    def aupdate(
        self, *changes: Change, session: Any = None, write_concern: Any = None
    ) -> Coroutine[Any, Any, Self]: """As `update`, on asyncio."""
    def adelete(
        self, *, where: Where | None = None, session: Any = None, write_concern: Any = None
    ) -> Coroutine[Any, Any, None]: """As `delete`, on asyncio."""
    def areload(
        self, *, keep_changes: bool = False, session: Any = None
    ) -> Coroutine[Any, Any, Self]: """As `reload`, on asyncio."""
    @classmethod
    def ainsert_many(
        cls, documents: Iterable[Self], *, ordered: bool = True, session: Any = None,
        write_concern: Any = None
    ) -> Coroutine[Any, Any, int]: """As `insert_many`, on asyncio."""
    @classmethod
    def asave_all(
        cls, documents: Iterable[Self], *, ordered: bool = True, session: Any = None,
        write_concern: Any = None
    ) -> Coroutine[Any, Any, int]: """As `save_all`, on asyncio."""
    @overload
    @classmethod
    def aaggregate(
        cls, pipeline: Iterable[Any], into: None = None, **options: Unpack[AggregateOptions]
    ) -> Coroutine[Any, Any, list[dict[str, Any]]]: """As `aggregate`, on asyncio."""
    @overload
    @classmethod
    def aaggregate(
        cls, pipeline: Iterable[Any], into: type[S], **options: Unpack[AggregateOptions]
    ) -> Coroutine[Any, Any, list[S]]: """As `aggregate`, on asyncio."""
    @classmethod
    def async_indexes(
        cls, *, plan: bool = False, drop: bool = False
    ) -> Coroutine[Any, Any, IndexPlan]: """As `sync_indexes`, on asyncio."""
    @classmethod
    def async_search_indexes(
        cls, *, plan: bool = False, drop: bool = False, wait_s: float | None = None
    ) -> Coroutine[Any, Any, IndexPlan]: """As `sync_search_indexes`, on asyncio."""
    @classmethod
    def ashard_collection(cls) -> Coroutine[Any, Any, None]: """As `shard_collection`, on asyncio."""
    @classmethod
    def acreate_collection(
        cls, *, validate: bool = False
    ) -> Coroutine[Any, Any, None]: """As `create_collection`, on asyncio."""

class FileTwins:
    @classmethod
    def aput(
        cls, data: Any, name: str = "", *, metadata: Any = None, bucket: str = "fs", alias: str = "default"
    ) -> Coroutine[Any, Any, File]: """As `put`, on asyncio."""
    def aread(self) -> Coroutine[Any, Any, bytes]: """As `read`, on asyncio."""
    def adelete(self) -> Coroutine[Any, Any, None]: """As `delete`, on asyncio."""

class AuditedTwins:
    def ahistory(
        self, *, session: Any = None
    ) -> Coroutine[Any, Any, list[Revision[Self]]]: """As `history`, on asyncio."""
    @classmethod
    def ahistory_of(
        cls, id: Any, *, session: Any = None
    ) -> Coroutine[Any, Any, list[Revision[Self]]]: """As `history_of`, on asyncio."""

class VersionedTwins:
    def aat(
        self, time: datetime, *, session: Any = None
    ) -> Coroutine[Any, Any, Self | None]: """As `at`, on asyncio."""
    @classmethod
    def aget_at(
        cls, id: Any, time: datetime, *, session: Any = None
    ) -> Coroutine[Any, Any, Self | None]: """As `get_at`, on asyncio."""
