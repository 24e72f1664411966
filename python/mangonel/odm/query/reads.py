"""Reads queries: documents, dicts, bytes, JSON, values, counts and pages, on either face.

Spec: crud, find-getmore-killcursors-commands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

from mangonel import _core
from mangonel._arguments import expect
from mangonel.bson.codec_options import DatetimeConversion
from mangonel.bson.errors import InvalidBSON
from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import QueryReadsTwins
from mangonel.odm.connections.identity import current_map
from mangonel.odm.errors import DocumentNotFound, MultipleDocuments, UnsupportedOption, ValidationError
from mangonel.odm.expressions.expr import Expr
from mangonel.odm.expressions.keys import key_of
from mangonel.odm.expressions.paths import path_of
from mangonel.odm.model.annotations import classes_in
from mangonel.odm.model.codec import codec_options
from mangonel.odm.model.convert import to_json_bytes
from mangonel.odm.model.hooks import family
from mangonel.odm.model.invalid import located, undecodable
from mangonel.odm.model.refs import Ref, Refs
from mangonel.odm.model.shapes import decode
from mangonel.odm.model.texts import Secret
from mangonel.odm.query.builder import QueryBuilder, limited_flow
from mangonel.odm.query.include import include_flow
from mangonel.odm.query.joins import matching_stages, stages_of, window_flow
from mangonel.odm.query.lookup import Lookup
from mangonel.odm.query.pages import Page, Pages, page_flow
from mangonel.odm.query.references import attributes
from mangonel.odm.query.request import (
    Request,
    dicts_flow,
    filters_flow,
    is_windowed,
    split,
    undecodable_flow,
    unsupported,
)
from mangonel.odm.query.short_lookup import single_joined
from mangonel.odm.query.single import LONG_WAY, single
from mangonel.odm.query.typed import load_all

if TYPE_CHECKING:
    from mangonel._shared.face_result import FaceResult

__all__ = ["QueryReads"]

T = TypeVar("T")
S = TypeVar("S")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
# Types with elements; `distinct` returns each element.
_Many: TypeAlias = list[S] | set[S] | frozenset[S] | tuple[S, ...]

# How many documents to decode at once while iterating: at most about a millisecond of an event loop's time.
SLICE = 256


class QueryReads(QueryBuilder[T], QueryReadsTwins[T]):
    """The reading methods of a query."""

    __slots__ = ()

    async def _all_flow(self, request: Request) -> list[Any]:
        documents: list[Any] = []
        if self._is_none:
            return documents
        if self._lookups or self._joins:
            return await Lookup(self, request).all_flow()
        collection = request.collection
        # The same as `find()`, inlined to save a frame.
        cursor = collection._cursor_class(collection, request.filter, **request.keywords)
        while cursor._id != 0 and await cursor._fetch_flow():
            request.read(cursor._batch, documents)
            if request.left == 0:
                await cursor._close_flow()
                break
        if self._includes or current_map() is not None:
            return await self._finished_flow(request, documents)
        return documents

    async def _finished_flow(self, request: Request, documents: list[Any]) -> list[Any]:
        """Apply the identity map and references to documents before the program gets them."""
        if documents and self._shape is None:
            known = current_map()
            if known is not None:
                documents = list(map(known.take, documents))
            if self._includes:
                await include_flow(self._model, documents, self._includes, request)
        return documents

    async def _decoded_flow(self, request: Request, found: list[bytes]) -> list[Any]:
        """Return the query's results for raw documents."""
        return await self._finished_flow(request, self._decoded(request, found))

    def _decoded(self, request: Request, found: list[bytes]) -> list[Any]:
        """Return the query's results for raw documents, without the documents of its references."""
        lazy, only = request.is_lazy, self._only()
        documents: list[Any] = []
        if self._on_invalid == "raise" and found and self._shape is None:
            # Together, so that they are siblings; a document that does not fit is found below.
            found = [b"".join(found)]
        for data in found:
            try:
                if self._shape is not None:
                    documents.append(decode(self._shape, data, self._model.__tz_aware__, request.connection))
                    continue
                documents += _core.odm_decode_all(
                    self._model.__model__, data, lazy, only, False, request.connection
                )
            except ValidationError as error:
                error = located(error, self._model, request.collection.name)
                if self._on_invalid == "raise":
                    raise error from None
                if callable(self._on_invalid):
                    self._on_invalid(error)
        return documents

    async def _single_flow(self, request: Request) -> Any:
        return self._single_of(request, await self._all_flow(request))

    def _single_of(self, request: Request, found: list[Any], has_more: bool = False) -> Any:
        """Return the single result of a terminal operation from the documents found."""
        if request.terminal.most == 1:
            return found[0] if found else None
        if not found:
            raise DocumentNotFound(f"no {self._model.__name__} matches {self.query!r}")
        if has_more or len(found) > 1:
            raise MultipleDocuments(
                f"expected one {self._model.__name__} that matches {self.query!r}, got more"
            )
        return found[0]

    def _single(self, is_async: bool, terminal: str) -> FaceResult[T]:
        """Run a terminal operation for a single document, in one exchange if nothing else is requested."""
        if self._is_plain:
            found: FaceResult[T] = single(self._model, self._where, is_async, terminal)
            if found is not LONG_WAY:
                return found
        return self._single_request(is_async, terminal)

    def _single_request(self, is_async: bool, terminal: str) -> FaceResult[T]:
        where = self._where
        if self._lookups and len(where) == 1:
            condition: Any = where[0]
            kind = type(condition)
            if kind is dict or kind is Expr:
                query = condition if kind is dict else condition.query
                found: Any = single_joined(self, query, is_async, terminal)
                if found is not LONG_WAY:
                    return found
        request = Request(self, terminal, is_async)
        # The options always include a limit.
        if (
            len(request.keywords) == 1
            and request.left is None
            and (self._is_plain or not (self._includes or self._is_none or self._seconds is not None))
        ):
            collection = request.collection
            if self._lookups or self._joins:
                lookup = Lookup(self, request)
                if lookup.is_direct:
                    return collection._first_batch(
                        {"aggregate": collection._name, "pipeline": lookup.stages, "cursor": {}},
                        lookup.answer,
                    )
            # Other modifiers of a query are turned into a command by the cursor.
            elif "$query" not in request.filter:
                return collection._first_batch(
                    {
                        "find": collection._name,
                        "filter": request.filter,
                        "limit": request.keywords["limit"],
                    },
                    request.answer,
                )
        return self._run_request(request, self._single_flow)

    # Reading.

    def __iter__(self) -> Iterator[T]:
        for documents in self._slices():
            yield from documents

    def _slices(self) -> Iterator[list[T]]:
        request = Request(self, "iterate", False)
        if self._is_none:
            return
        if self._lookups or self._joins:
            yield request.port.flow(self._all_flow(request))
            return
        cursor = request.collection.find(request.filter, **request.keywords)
        try:
            while request.port.flow(self._fetch_flow(cursor)) or (cursor._is_tailable and cursor.alive):
                while cursor._batch is not None and not cursor._batch.is_empty:
                    if request.left == 0:
                        return
                    yield request.port.flow(self._slice_flow(cursor, request))
        finally:
            cursor.close()

    async def _fetch_flow(self, cursor: Any) -> bool:
        if self._seconds is None:
            return bool(await cursor._fetch_flow())
        return bool(await limited_flow(self._seconds, cursor._fetch_flow))

    async def _slice_flow(self, cursor: Any, request: Request) -> list[T]:
        documents: list[T] = []
        # References are fetched for a whole batch, so then a batch is one slice.
        request.read(cursor._batch, documents, None if self._includes else SLICE)
        return await self._finished_flow(request, documents)

    def __aiter__(self) -> AsyncIterator[T]:
        return _AsyncDocuments(self)

    def __await__(self) -> Generator[Any, None, list[T]]:
        return self.aall().__await__()

    @terminal
    def all(self) -> list[T]:
        """Return all documents."""
        return self._run_request(Request(self, "all", IS_ASYNC), self._all_flow)

    @terminal
    def first(self) -> T | None:
        """Return the first document, or None."""
        # As `_single`, without its frame.
        if self._is_plain:
            found: T | None = single(self._model, self._where, IS_ASYNC, "first")
            if found is not LONG_WAY:
                return found
        return self._single_request(IS_ASYNC, "first")

    @terminal
    def one(self) -> T:
        """Return the only document.

        Raises:
            DocumentNotFound: there is none.
            MultipleDocuments: there is more than one.
        """
        if self._is_plain:
            found: T = single(self._model, self._where, IS_ASYNC, "one")
            if found is not LONG_WAY:
                return found
        return self._single_request(IS_ASYNC, "one")

    @terminal
    def count(self) -> int:
        """Count the documents, within skip and limit.

        With `where_js` or a search by distance this sends the command `count`, which does not run in transactions
        and may count orphaned documents on a sharded cluster.
        """
        return self._run(IS_ASYNC, "count", self._count_flow)

    async def _count_flow(self, request: Request) -> int:
        if self._is_none:
            return 0
        if self._joins:
            return await self._joined_count_flow(request)
        return int(await request.port.call(_count, request.collection, request.filter, request.keywords))

    async def _joined_count_flow(self, request: Request) -> int:
        """Count the documents that match by documents of references, within skip and limit."""
        stages = matching_stages(request) + stages_of(request.keywords, "skip", "limit")
        cursor = await window_flow(request, [*stages, {"$count": "n"}])
        found: list[dict[str, int]] = await cursor._to_list_flow(None)
        return found[0]["n"] if found else 0

    @terminal
    def last(self) -> T | None:
        """Return the last document in the query's order, or in the order of `_id`; None if there is none."""
        query: Any = self
        if not is_windowed(self):
            sort = self._options.get("sort") or {"_id": 1}
            if any(direction not in (1, -1) for direction in sort.values()):
                raise unsupported("last", "sort")
            query = self._with(sort={key: -direction for key, direction in sort.items()}, limit=1)
        return query._run(IS_ASYNC, "last", query._last_flow)

    async def _last_flow(self, request: Request) -> Any:
        found = await self._all_flow(request)
        return found[-1] if found else None

    @terminal
    def nth(self, index: int) -> T | None:
        """Return the document at an index of the results, or None.

        Args:
            index: its position; 0 for the first document.

        Example:
            >>> User.find().sort("age").nth(1).name
            'Ada'
        """
        query = self[expect("index", index, int, "an int") : index + 1]
        if self._on_invalid == "raise":
            return query._run(IS_ASYNC, "nth", query._single_flow)
        return self._run(IS_ASYNC, "nth", self._nth_flow, index)

    async def _nth_flow(self, request: Request, index: int) -> Any:
        # A skip would count the documents that do not fit too.
        part = self[: index + 1]
        found = await part._all_flow(request.of(part, "all"))
        return found[index] if index < len(found) else None

    @terminal
    def is_empty(self) -> bool:
        """Return whether no document matches."""
        return self._run(IS_ASYNC, "is_empty", self._is_empty_flow)

    async def _is_empty_flow(self, request: Request) -> bool:
        return not await self._exists_flow(request)

    @terminal
    def exists(self) -> bool:
        """Return whether any document matches."""
        return self._run(IS_ASYNC, "exists", self._exists_flow)

    async def _exists_flow(self, request: Request) -> bool:
        if self._is_none:
            return False
        if self._joins:
            first = self._bare(projection=None).limit(1)
            return bool(await first._joined_count_flow(request.of(first, "count")))
        # Existence depends on no order, and a score needs its own projection.
        keywords = {**request.keywords, "limit": 1, "projection": {"_id": 1}}
        keywords.pop("sort", None)
        return bool(await request.collection.find(request.filter, **keywords)._fetch_flow())

    @overload
    def distinct(self, field: Refs[S]) -> list[Ref[S]]: ...
    @overload
    def distinct(self, field: _Many[S] | None) -> list[S]: ...
    @overload
    def distinct(self, field: S | None) -> list[S]: ...
    @terminal
    def distinct(self, field: Any) -> Any:
        """Return the distinct values of a field; for a list, those of its elements.

        Args:
            field: an attribute of the model.

        Example:
            >>> sorted(User.find().distinct(User.name))
            ['Ada', 'Eve']
        """
        return self._run(IS_ASYNC, "distinct", self._distinct_flow, field)

    async def _distinct_flow(self, request: Request, field: Any) -> list[Any]:
        if self._is_none:
            return []
        key = key_of(field, self._model)
        values: list[Any] = []
        keywords = dict(request.keywords)
        # The server's command accepts no hint before MongoDB 7.1.
        hint = keywords.pop("hint", None)
        for query in await filters_flow(request, by_id=hint is not None):
            try:
                found = await request.port.call(request.collection.distinct, key, query, **keywords)
            except InvalidBSON as error:
                raise undecodable(error, self._model, request.collection.name) from None
            values += [value for value in found if value not in values] if values else found
        return load_all(field, self._model, values, request.connection)

    @terminal
    def dicts(self) -> list[dict[str, Any]]:
        """Return the documents as dicts, like the driver."""
        return self._run(IS_ASYNC, "dicts", self._dicts_flow)

    async def _dicts_flow(self, request: Request) -> list[dict[str, Any]]:
        return [] if self._is_none else await dicts_flow(request)

    @terminal
    def raw(self) -> list[bytes]:
        """Return the documents as BSON."""
        return self._run(IS_ASYNC, "raw", self._raw_flow)

    async def _raw_flow(self, request: Request) -> list[bytes]:
        documents: list[bytes] = []
        if self._is_none:
            return documents
        cursor = request.collection.find(request.filter, **request.keywords)
        while await cursor._fetch_flow():
            documents += split(cursor._batch.raw())
            cursor._batch = None
        return documents

    @terminal
    def json(self, *, exclude: Iterable[Any] = ()) -> bytes:
        """Return the documents as a JSON array, converted from BSON without making Python objects.

        The result is that of a response model: values are named by their attributes, also in embedded documents,
        missing keys get their defaults, and unknown keys are left out. Ids, dates and decimals become strings, binary
        data becomes base64.

        Args:
            exclude: fields to leave out.

        Example:
            >>> User.find(User.age > 30).only(User.name).json()
            b'[{"id":"...","name":"Ada"}]'
        """
        return self._run(
            IS_ASYNC, "json", self._json_flow, tuple(expect("exclude", exclude, Iterable, "fields"))
        )

    async def _json_flow(self, request: Request, exclude: tuple[Any, ...]) -> bytes:
        if self._is_none:
            return b"[]"
        if self._includes or self._lookups or self._joins:
            return await self._made_json_flow(request, exclude)
        self._refuse_secrets(exclude)
        self._refuse_tags(exclude)
        keywords = {**request.keywords, **self._without(exclude)}
        cursor = request.collection.find(request.filter, **keywords)
        pieces: list[bytes] = []
        only = self._only()
        if exclude:
            fields = self._model.__plan__.fields.values()
            left_out = {key_of(field, self._model) for field in exclude}
            only = [
                index
                for index, field in enumerate(fields)
                if field.key not in left_out and (only is None or index in only)
            ]
        try:
            while await cursor._fetch_flow():
                pieces.append(_core.odm_json(cursor._batch, self._model.__model__, only))
        except InvalidBSON as error:
            # Dates of any range are written.
            options = codec_options(True).with_options(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
            raise await undecodable_flow(request, error, options, **self._without(exclude)) from None
        return b"[" + b",".join(pieces) + b"]"

    async def _made_json_flow(self, request: Request, exclude: tuple[Any, ...]) -> bytes:
        """Return the documents as JSON with the included ones, which the core does not join."""
        paths = [field if isinstance(field, str) else path_of(field) for field in exclude]
        names = [one if isinstance(one, str) else ".".join(attributes(one._model, one._key)) for one in paths]
        whole = self.eager() if "lazy" not in self._wish else self
        documents = await whole._all_flow(request.of(whole, "json"))
        return b"[" + b",".join(to_json_bytes(document, names) for document in documents) + b"]"

    def _refuse_secrets(self, exclude: tuple[Any, ...]) -> None:
        """Refuse secret fields, which the core would write in plain: it sees the stored text, not a Secret."""
        left_out, only = {key_of(field, self._model) for field in exclude}, self._wish.get("only")
        read = {self._model, *self._model.__tagged__()}
        for model in dict.fromkeys(one for kind in read for one in family(kind)):
            for field in model.__plan__.fields.values():
                is_left_out = model in read and (
                    field.key in left_out or (only is not None and field.key not in only)
                )
                if not is_left_out and Secret in classes_in(field.type, field.info.owner):
                    raise UnsupportedOption(
                        f"json() cannot honour the Secret {model.__name__}.{field.name}: it would be shown; "
                        "exclude it, or use to_json() of documents"
                    )

    def _refuse_tags(self, exclude: tuple[Any, ...]) -> None:
        """Refuse to leave out tags: the core tells the classes of documents apart by them."""
        read = (self._model, *self._model.__tagged__())
        families = dict.fromkeys(one for kind in read for one in family(kind) if one.__tagged__())
        tags = {one.__tag__ for one in families}
        for key in (key_of(field, self._model) for field in exclude):
            if key.rpartition(".")[2] in tags:
                raise UnsupportedOption(
                    f"json() cannot honour exclude of {key!r}, by which classes are told apart; use to_dict(exclude=…) "
                    "of documents"
                )

    def _without(self, exclude: tuple[Any, ...]) -> dict[str, Any]:
        """Return the options of a find that also leaves out these fields, even if the query selects them."""
        if not exclude:
            return {}
        projection = dict(self._options.get("projection") or {})
        is_list = 1 in projection.values()
        for key in (key_of(field, self._model) for field in exclude):
            if is_list and key != "_id":
                projection.pop(key, None)
            else:
                projection[key] = 0
        if is_list and 1 not in projection.values():
            raise ValueError("expected a field of only() to be left, got all of them excluded")
        return {"projection": projection}

    @overload
    def values(self, field: S, /) -> list[S]: ...
    @overload
    def values(self, a: A, b: B, /) -> list[tuple[A, B]]: ...
    @overload
    def values(self, a: A, b: B, c: C, /) -> list[tuple[A, B, C]]: ...
    @overload
    def values(self, a: A, b: B, c: C, d: D, /) -> list[tuple[A, B, C, D]]: ...
    @overload
    def values(self, *fields: Any) -> list[tuple[Any, ...]]: ...
    @terminal
    def values(self, *fields: Any) -> Any:
        """Return the values of one field as a list, or of several fields as tuples, without making documents.

        References are `Ref`s, also for a `BelongsTo` field; fetching the document of one fetches the documents of all.

        Args:
            fields: attributes of the model.

        Example:
            >>> User.find().sort("age").values(User.name, User.age)
            [('Eve', 24), ('Ada', 36)]
        """
        return self._run(IS_ASYNC, "values", self._values_flow, fields)

    async def _values_flow(self, request: Request, fields: tuple[Any, ...]) -> list[Any]:
        keys = [key_of(field, self._model) for field in fields]
        names = [key.split(".") for key in keys]
        narrow = self._with(projection=dict.fromkeys(keys, 1)) if keys else self
        found = await narrow._dicts_flow(request.of(narrow, "values"))
        columns = [
            load_all(field, self._model, [_dig(row, name) for row in found], request.connection)
            for field, name in zip(fields, names, strict=True)
        ]
        if not columns:
            return [()] * len(found)
        return columns[0] if len(columns) == 1 else [*zip(*columns, strict=True)]

    @terminal
    def explain(self) -> dict[str, Any]:
        """Return the server's plan for the query."""
        return self._run(IS_ASYNC, "explain", self._explain_flow)

    async def _explain_flow(self, request: Request) -> dict[str, Any]:
        cursor = request.collection.find(request.filter, **request.keywords)
        return await request.port.call(cursor.explain)

    # Pages.

    @terminal
    def page(self, size: int = 20, after: str | None = None, *, before: str | None = None) -> Page[T]:
        """Return one page of results. The next page starts after this one's last document, so nothing is skipped.

        Args:
            size: documents per page.
            after: `next` of the preceding page; None for the first page.
            before: `previous` of the following page, to go back. If documents were deleted meanwhile, the first page
                may have fewer than `size`.

        Raises:
            ValueError: the token belongs to another query, or there are two.

        Example:
            >>> page = User.find().sort("age").page(size=1)
            >>> second = User.find().sort("age").page(size=1, after=page.next)
            >>> [found.name for found in second]
            ['Ada']
            >>> [found.name for found in User.find().sort("age").page(size=1, before=second.previous)]
            ['Eve']
        """
        return self._run(IS_ASYNC, "page", partial(page_flow, self), size, after, before)

    @terminal
    def paginate(self, number: int = 1, size: int = 20) -> Pages[T]:
        """Return a page of results by its number, which starts at 1, with the total.

        With `on_invalid`, pages are made of the documents that fit the model; the total counts the others too.

        Args:
            number: number of the page.
            size: documents per page.

        Example:
            >>> User.find().paginate(1, 20).total
            2
        """
        return self._run(IS_ASYNC, "paginate", self._paginate_flow, number, size)

    async def _paginate_flow(self, request: Request, number: int, size: int) -> Any:
        if expect("number", number, int, "an int") < 1 or expect("size", size, int, "an int") < 1:
            raise ValueError(f"expected a page and a size from 1 on, got {number} and {size}")
        bare = self._bare(projection=None)
        total = await bare._count_flow(request.of(bare, "count"))
        if self._on_invalid == "raise":
            part = self[(number - 1) * size : number * size]
            return Pages(await part._all_flow(request.of(part, "paginate")), number, size, total)
        # A limit counts the documents that fit, so the earlier pages are read too.
        part = self[: number * size]
        found = await part._all_flow(request.of(part, "all"))
        return Pages(found[(number - 1) * size :], number, size, total)

    # Python's protocols.

    def __repr__(self) -> str:
        return f"Query({self._model.__name__}, {self._conditions()!r})"

    def __bool__(self) -> bool:
        raise TypeError("a query has no truth value; use exists()")


class _AsyncDocuments(Generic[T]):
    """`async for` over a query: the documents of a slice are returned without waiting."""

    __slots__ = ("_at", "_cursor", "_documents", "_is_whole", "_query", "_request")

    def __init__(self, query: QueryReads[T]) -> None:
        self._query = query
        self._request = request = Request(query, "iterate", True)
        self._is_whole = bool(query._lookups or query._joins)
        self._cursor = (
            None
            if query._is_none or self._is_whole
            else request.collection.find(request.filter, **request.keywords)
        )
        self._documents: list[T] = []
        self._at = 0

    def __aiter__(self) -> _AsyncDocuments[T]:
        return self

    def __anext__(self) -> Any:
        at = self._at
        if at < len(self._documents):
            self._at = at + 1
            return _core.odm_finished(self._documents[at])
        return self._request.port.flow(self._more_flow())

    async def _more_flow(self) -> T:
        cursor = self._cursor
        if self._is_whole:
            # One aggregation returns them all.
            self._is_whole = False
            self._documents = await self._query._all_flow(self._request)
            self._at = 1
            if self._documents:
                return self._documents[0]
        while cursor is not None:
            if self._request.left == 0:
                await cursor._close_flow()
                break
            if cursor._batch is not None and not cursor._batch.is_empty:
                self._documents = await self._query._slice_flow(cursor, self._request)
                self._at = 1
                if not self._documents:
                    # None of the documents fits the model.
                    continue
                return self._documents[0]
            if not await self._query._fetch_flow(cursor) and not (cursor._is_tailable and cursor.alive):
                break
        raise StopAsyncIteration


def _dig(row: Any, names: list[str]) -> Any:
    for name in names:
        if isinstance(row, list):
            row = [_dig(item, [name]) for item in row]
        else:
            row = row.get(name) if isinstance(row, Mapping) else None
    return row


def _count(collection: Any, query: Any, options: dict[str, Any]) -> Any:
    if _is_refused_by_match(query):
        return collection._count_by_command(query, **options)
    return collection.count_documents(query, **options)


# Conditions that the aggregation's `$match` refuses and the command `count` accepts.
_REFUSED_BY_MATCH = frozenset(["$where", "$near", "$nearSphere"])


def _is_refused_by_match(query: Mapping[str, Any]) -> bool:
    for key, value in query.items():
        if key in _REFUSED_BY_MATCH:
            return True
        parts = value if isinstance(value, list) and key in ("$and", "$or", "$nor") else (value,)
        if any(isinstance(part, dict) and _is_refused_by_match(part) for part in parts):
            return True
    return False
