"""Queries: immutable, lazy, read on either face. Spec: crud, find-getmore-killcursors-commands.

`for`, `async for` and `await` read a query as well as its methods do; each method that waits exists as `x()` and
`ax()`, which run the same flow.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from mangonel import _core
from mangonel.odm._changes import Change
from mangonel.odm._connection import Connection, connection, session_options
from mangonel.odm._expressions import Where, key_of, order_of, query_of
from mangonel.odm.errors import DocumentNotFound, MultipleDocuments

if TYPE_CHECKING:
    from mangonel.odm._pages import Page, Pages

T = TypeVar("T")
S = TypeVar("S")

# Documents decoded in one go while iterating: the loop of a face is not held up longer than about a millisecond.
SLICE = 256


class Query(Generic[T]):
    """The documents of a model that fulfil conditions. Methods return new queries; nothing is sent before it is read.

    Example:
        >>> young = User.find(User.age < 30)
        >>> young.sort("-age").limit(10).all()
        []
        >>> await young.acount()
        0
    """

    __slots__ = ("_connection", "_includes", "_is_none", "_model", "_options", "_shape", "_where", "_wish")

    def __init__(self, model: Any) -> None:
        self._model = model
        self._where: tuple[Where, ...] = ()
        # Arguments of the driver's find().
        self._options: dict[str, Any] = {}
        # How results are made: lazy, only, ignores.
        self._wish: dict[str, Any] = {}
        self._shape: Any = None
        self._includes: tuple[Any, ...] = ()
        self._connection: Connection | None = None
        self._is_none = False

    def _copy(self) -> Query[T]:
        made: Query[T] = Query(self._model)
        for name in Query.__slots__:
            setattr(made, name, getattr(self, name))
        return made

    def _with(self, **options: Any) -> Query[T]:
        made = self._copy()
        made._options = {**self._options, **options}
        return made

    def _wishing(self, **wish: Any) -> Query[T]:
        made = self._copy()
        made._wish = {**self._wish, **wish}
        return made

    def _by_id(self, id: Any) -> Query[T]:
        from mangonel.odm._compile import resolve
        from mangonel.odm._expressions import dump

        field = next(field for field in resolve(self._model).values() if field.key == "_id")
        return self._scoped().find({"_id": dump(self._model, field, id)}).eager()

    def _scoped(self) -> Query[T]:
        scope = self._model.__default_scope__
        return scope(self) if scope is not None else self

    # Saying what is wanted.

    def find(self, *where: Where) -> Query[T]:
        """Add conditions; all must hold."""
        query_of(*where)
        made = self._copy()
        made._where = (*self._where, *where)
        return made

    def sort(self, *orders: Any) -> Query[T]:
        """Sort by fields: `"-age"`, `User.age`, `desc(User.age)`; replaces a former order."""
        return self._with(sort=order_of(orders, self._model) or None)

    def limit(self, limit: int) -> Query[T]:
        """Return at most so many; 0 for all."""
        return self._with(limit=limit)

    def skip(self, skip: int) -> Query[T]:
        """Leave out the first ones."""
        return self._with(skip=skip)

    def __getitem__(self, part: slice) -> Query[T]:
        """`query[10:20]` is `skip(10).limit(10)`."""
        if not isinstance(part, slice) or part.step is not None or (part.start or 0) < 0:
            raise TypeError("expected a slice without step and from 0 on; use first(), skip() and limit()")
        start = part.start or 0
        made = self.skip(start)
        if part.stop is None:
            return made
        if part.stop <= start:
            return made.none()
        return made.limit(part.stop - start)

    def none(self) -> Query[T]:
        """Match nothing, and send nothing."""
        made = self._copy()
        made._is_none = True
        return made

    def only(self, *fields: Any) -> Query[T]:
        """Load these fields and the id; reading another raises NotLoaded, and saving stays safe."""
        keys = [key_of(field, self._model) for field in fields]
        made = self._with(projection=dict.fromkeys(keys, 1))
        return made._wishing(only=[*self._wish.get("only", ()), *keys])

    def exclude(self, *fields: Any) -> Query[T]:
        """Load all fields but these."""
        from mangonel.odm._compile import resolve

        keys = [key_of(field, self._model) for field in fields]
        others = [field.key for field in resolve(self._model).values() if field.key not in keys]
        return self._with(projection=dict.fromkeys(keys, 0))._wishing(only=others)

    def as_(self, shape: type[S]) -> Query[S]:
        """Return instances of another shape, with only its fields: an `Embedded`, a dataclass, a `msgspec.Struct`, a
        `TypedDict` or a pydantic model."""
        made: Any = self._copy()
        made._shape = shape
        from mangonel.odm._shapes import keys_of

        keys = keys_of(shape)
        made._options = {**self._options}
        if keys is not None:
            projection: dict[str, Any] = dict.fromkeys(keys, 1)
            if "_id" not in keys:
                projection["_id"] = 0
            made._options["projection"] = projection
        shaped: Query[S] = made
        return shaped

    def lazy(self) -> Query[T]:
        """Leave containers and embedded documents raw until they are read."""
        return self._wishing(lazy=True)

    def eager(self) -> Query[T]:
        """Decode everything at once; values of the wrong type are found at once too."""
        return self._wishing(lazy=False)

    def include(self, *fields: Any) -> Query[T]:
        """Fetch the documents that references lead to, by one more query for each field and level.

        Args:
            fields: references such as `Post.author`; a tuple of them goes on from document to document:
                `include((Comment.post, Post.author))`.
        """
        made = self._copy()
        made._includes = (*self._includes, *fields)
        return made

    def using(self, other: Connection | str) -> Query[T]:
        """Ask another connection, or another database of the same deployment."""
        made = self._copy()
        made._connection = (
            connection(self._model.__connection__).sibling(other) if isinstance(other, str) else other
        )
        return made

    def hint(self, index: Any) -> Query[T]:
        """Use this index, by name or keys."""
        return self._with(hint=index)

    def comment(self, comment: Any) -> Query[T]:
        """Show a comment in the server's logs and profile."""
        return self._with(comment=comment)

    def collation(self, collation: Any) -> Query[T]:
        """Compare strings by these rules."""
        return self._with(collation=collation)

    def max_time_ms(self, max_time_ms: int) -> Query[T]:
        """Let the server spend at most so many milliseconds."""
        return self._with(max_time_ms=max_time_ms)

    def batch_size(self, batch_size: int) -> Query[T]:
        """Ask for so many documents per reply."""
        return self._with(batch_size=batch_size)

    def allow_disk_use(self, allow: bool = True) -> Query[T]:
        """Let a large sort use the disk."""
        return self._with(allow_disk_use=allow)

    def options(self, **options: Any) -> Query[T]:
        """Give any other option of the driver's `find`; or `read_preference`, `read_concern`, `write_concern`."""
        return self._with(**options)

    def text_score(self, name: str = "score") -> Query[T]:
        """Sort by how well a text search matches."""
        return self._with(sort={name: {"$meta": "textScore"}})

    # Everything below needs the database.

    @property
    def query(self) -> dict[str, Any]:
        """The query document that is sent."""
        query = query_of(*self._where)
        tag = self._model.__tag_value__
        if tag is not None and not self._model.__is_root_of_family__():
            tags = [model.__tag_value__ for model in self._model.__tagged__()]
            query = query_of({self._model.__tag__: {"$in": tags} if len(tags) > 1 else tags[0]}, query)
        return query

    def _bind(self, is_async: bool) -> Any:
        chosen = self._connection or connection(self._model.__connection__)
        collection = chosen.collection(self._model, is_async)
        settings = {
            name: self._options[name]
            for name in ("read_preference", "read_concern", "write_concern")
            if name in self._options
        }
        return collection.with_options(**settings) if settings else collection

    def _run(self, is_async: bool, flow: Callable[..., Any], *arguments: Any) -> Any:
        collection = self._bind(is_async)
        return collection._port.flow(flow(collection, *arguments))

    def _find_options(self, **more: Any) -> dict[str, Any]:
        options = {
            name: value
            for name, value in {**self._options, **more}.items()
            if value is not None and name not in ("read_preference", "read_concern", "write_concern")
        }
        options.update(session_options(self._model.__connection__))
        return options

    def _cursor(self, collection: Any, **more: Any) -> Any:
        return collection.find(self.query, **self._find_options(**more))

    def _reader(self, is_single: bool = False) -> Callable[[Any, list[Any], int | None], int]:
        """Return the function that takes documents out of a batch, as what this query makes of them."""
        if self._shape is not None:
            from mangonel.odm._shapes import reader

            return reader(self._shape)
        model = self._model.__model__
        only = self._only()
        lazy = self._wish.get("lazy", not is_single)
        drain = _core.odm_drain

        def read(batch: Any, documents: list[Any], limit: int | None) -> int:
            return drain(batch, model, documents, limit, lazy, only)

        return read

    def _only(self) -> list[int] | None:
        keys = self._wish.get("only")
        if keys is None:
            return None
        from mangonel.odm._compile import resolve

        first = {key.partition(".")[0] for key in keys}
        return [index for index, field in enumerate(resolve(self._model).values()) if field.key in first]

    async def _all_flow(self, collection: Any) -> list[Any]:
        documents: list[Any] = []
        if self._is_none:
            return documents
        cursor = self._cursor(collection)
        read = self._reader(self._options.get("limit") == 1)
        while await cursor._fetch_flow():
            read(cursor._batch, documents, None)
        if documents and self._shape is None:
            documents = self._identified(documents)
            await self._include_flow(documents, collection._port.is_async)
        return documents

    def _identified(self, documents: list[Any]) -> list[Any]:
        from mangonel.odm._identity import current_map

        known = current_map()
        return documents if known is None else [known.take(document) for document in documents]

    async def _include_flow(self, documents: list[Any], is_async: bool) -> None:
        if self._includes:
            from mangonel.odm._include import include_flow

            await include_flow(self._model, documents, self._includes, is_async)

    async def _first_flow(self, collection: Any) -> Any:
        found = await self.limit(1)._all_flow(collection)
        return found[0] if found else None

    async def _one_flow(self, collection: Any) -> Any:
        found = await self.limit(2)._wishing(lazy=self._wish.get("lazy", False))._all_flow(collection)
        if not found:
            raise DocumentNotFound(f"no {self._model.__name__} matches {self.query!r}")
        if len(found) > 1:
            raise MultipleDocuments(
                f"expected one {self._model.__name__} that matches {self.query!r}, found more"
            )
        return found[0]

    # Reading.

    def __iter__(self) -> Iterator[T]:
        collection = self._bind(False)
        while_open = self._slices(collection)
        for documents in while_open:
            yield from documents

    def _slices(self, collection: Any) -> Iterator[list[T]]:
        if self._is_none:
            return
        cursor = self._cursor(collection)
        read = self._reader()
        try:
            while collection._port.flow(cursor._fetch_flow()):
                while not cursor._batch.is_empty:
                    yield collection._port.flow(self._slice_flow(cursor, read, collection))
        finally:
            cursor.close()

    async def _slice_flow(self, cursor: Any, read: Any, collection: Any) -> list[T]:
        documents: list[T] = []
        # References are fetched for a whole batch, so with them a batch is one slice.
        read(cursor._batch, documents, None if self._includes else SLICE)
        if documents and self._shape is None:
            documents = self._identified(documents)
            await self._include_flow(documents, collection._port.is_async)
        return documents

    def __aiter__(self) -> AsyncIterator[T]:
        return _AsyncDocuments(self)

    def __await__(self) -> Generator[Any, None, list[T]]:
        found: Generator[Any, None, list[T]] = self.aall().__await__()
        return found

    def all(self) -> list[T]:
        """Return all documents."""
        found: list[T] = self._run(False, self._all_flow)
        return found

    def aall(self) -> Coroutine[Any, Any, list[T]]:
        """As `all`, on asyncio; `await query` is the same."""
        found: Coroutine[Any, Any, list[T]] = self._run(True, self._all_flow)
        return found

    def first(self) -> T | None:
        """Return the first document, or None."""
        found: T | None = self._run(False, self._first_flow)
        return found

    def afirst(self) -> Coroutine[Any, Any, T | None]:
        """As `first`, on asyncio."""
        found: Coroutine[Any, Any, T | None] = self._run(True, self._first_flow)
        return found

    def one(self) -> T:
        """Return the only document.

        Raises:
            DocumentNotFound: there is none.
            MultipleDocuments: there is more than one.
        """
        found: T = self._run(False, self._one_flow)
        return found

    def aone(self) -> Coroutine[Any, Any, T]:
        """As `one`, on asyncio."""
        found: Coroutine[Any, Any, T] = self._run(True, self._one_flow)
        return found

    def count(self) -> int:
        """Return how many there are; skip and limit count."""
        found: int = self._run(False, self._count_flow)
        return found

    def acount(self) -> Coroutine[Any, Any, int]:
        """As `count`, on asyncio."""
        found: Coroutine[Any, Any, int] = self._run(True, self._count_flow)
        return found

    async def _count_flow(self, collection: Any) -> int:
        if self._is_none:
            return 0
        options = {
            name: self._options[name]
            for name in ("skip", "limit", "hint", "collation")
            if self._options.get(name)
        }
        options.update(session_options(self._model.__connection__))
        return int(await collection._port.call(_count, collection, self.query, options))

    def exists(self) -> bool:
        """Return whether there is any."""
        found: bool = self._run(False, self._exists_flow)
        return found

    def aexists(self) -> Coroutine[Any, Any, bool]:
        """As `exists`, on asyncio."""
        found: Coroutine[Any, Any, bool] = self._run(True, self._exists_flow)
        return found

    async def _exists_flow(self, collection: Any) -> bool:
        if self._is_none:
            return False
        cursor = self._cursor(collection, limit=1, projection={"_id": 1})
        return bool(await cursor._fetch_flow())

    def distinct(self, field: S) -> list[S]:
        """Return the distinct values of a field, or of a list's elements."""
        found: list[S] = self._run(False, self._distinct_flow, field)
        return found

    def adistinct(self, field: S) -> Coroutine[Any, Any, list[S]]:
        """As `distinct`, on asyncio."""
        found: Coroutine[Any, Any, list[S]] = self._run(True, self._distinct_flow, field)
        return found

    async def _distinct_flow(self, collection: Any, field: Any) -> list[Any]:
        if self._is_none:
            return []
        options = session_options(self._model.__connection__)
        key = key_of(field, self._model)
        found: list[Any] = await collection._port.call(_distinct, collection, key, self.query, options)
        return found

    def dicts(self) -> list[dict[str, Any]]:
        """Return the documents as the driver's dicts."""
        found: list[dict[str, Any]] = self._run(False, self._dicts_flow)
        return found

    def adicts(self) -> Coroutine[Any, Any, list[dict[str, Any]]]:
        """As `dicts`, on asyncio."""
        found: Coroutine[Any, Any, list[dict[str, Any]]] = self._run(True, self._dicts_flow)
        return found

    async def _dicts_flow(self, collection: Any) -> list[dict[str, Any]]:
        if self._is_none:
            return []
        found: list[dict[str, Any]] = await self._cursor(collection)._to_list_flow(None)
        return found

    def raw(self) -> list[bytes]:
        """Return the documents as BSON."""
        found: list[bytes] = self._run(False, self._raw_flow)
        return found

    def araw(self) -> Coroutine[Any, Any, list[bytes]]:
        """As `raw`, on asyncio."""
        found: Coroutine[Any, Any, list[bytes]] = self._run(True, self._raw_flow)
        return found

    async def _raw_flow(self, collection: Any) -> list[bytes]:
        documents: list[bytes] = []
        if self._is_none:
            return documents
        cursor = self._cursor(collection)
        while await cursor._fetch_flow():
            data = cursor._batch.raw()
            cursor._batch = None
            at = 0
            while at < len(data):
                length = int.from_bytes(data[at : at + 4], "little")
                documents.append(data[at : at + length])
                at += length
        return documents

    def json(self, *, exclude: Iterable[Any] = ()) -> bytes:
        """Return the documents as a JSON array, made in the core straight from BSON: no Python object for any of them.

        Attributes name the values. Ids, dates and decimals become strings, binary data base64.

        Args:
            exclude: fields to leave out.
        """
        found: bytes = self._run(False, self._json_flow, tuple(exclude))
        return found

    def ajson(self, *, exclude: Iterable[Any] = ()) -> Coroutine[Any, Any, bytes]:
        """As `json`, on asyncio."""
        found: Coroutine[Any, Any, bytes] = self._run(True, self._json_flow, tuple(exclude))
        return found

    async def _json_flow(self, collection: Any, exclude: tuple[Any, ...]) -> bytes:
        if self._is_none:
            return b"[]"
        more: dict[str, Any] = {}
        if exclude:
            more["projection"] = {key_of(field, self._model): 0 for field in exclude}
        cursor = self._cursor(collection, **more)
        pieces: list[bytes] = []
        while await cursor._fetch_flow():
            pieces.append(_core.odm_json(cursor._batch, self._model.__model__))
        return b"[" + b",".join(pieces) + b"]"

    @overload
    def values(self, field: S, /) -> list[S]: ...
    @overload
    def values(self, *fields: Any) -> list[tuple[Any, ...]]: ...
    def values(self, *fields: Any) -> Any:
        """Return the values of fields without making documents: a list for one field, tuples for several."""
        return self._run(False, self._values_flow, fields)

    def avalues(self, *fields: Any) -> Coroutine[Any, Any, list[Any]]:
        """As `values`, on asyncio."""
        found: Coroutine[Any, Any, list[Any]] = self._run(True, self._values_flow, fields)
        return found

    async def _values_flow(self, collection: Any, fields: tuple[Any, ...]) -> list[Any]:
        keys = [key_of(field, self._model) for field in fields]
        names = [key.split(".") for key in keys]
        narrow = self.only(*[_Key(key) for key in keys]).eager() if keys else self
        found = await narrow._wishing(only=keys)._dicts_flow(collection)
        rows = [tuple(_dig(row, name) for name in names) for row in found]
        return [row[0] for row in rows] if len(fields) == 1 else rows

    def explain(self) -> dict[str, Any]:
        """Return how the server would run the query."""
        found: dict[str, Any] = self._run(False, self._explain_flow)
        return found

    def aexplain(self) -> Coroutine[Any, Any, dict[str, Any]]:
        """As `explain`, on asyncio."""
        found: Coroutine[Any, Any, dict[str, Any]] = self._run(True, self._explain_flow)
        return found

    async def _explain_flow(self, collection: Any) -> dict[str, Any]:
        found: dict[str, Any] = await collection._port.call(self._cursor(collection).explain)
        return found

    # Pages.

    def page(self, size: int = 20, after: str | None = None) -> Page[T]:
        """Return one page by keys: the next one begins after the last document's values, without `skip`.

        Args:
            size: documents of a page.
            after: the token of the former page's `next`; None for the first page.

        Raises:
            ValueError: the token is none of this query's.
        """
        found: Page[T] = self._run(False, self._page_flow, size, after)
        return found

    def apage(self, size: int = 20, after: str | None = None) -> Coroutine[Any, Any, Page[T]]:
        """As `page`, on asyncio."""
        found: Coroutine[Any, Any, Page[T]] = self._run(True, self._page_flow, size, after)
        return found

    async def _page_flow(self, collection: Any, size: int, after: str | None) -> Any:
        from mangonel.odm._pages import page_flow

        return await page_flow(self, collection, size, after)

    def paginate(self, number: int = 1, size: int = 20) -> Pages[T]:
        """Return a page by its number, counted from 1, with the total."""
        found: Pages[T] = self._run(False, self._paginate_flow, number, size)
        return found

    def apaginate(self, number: int = 1, size: int = 20) -> Coroutine[Any, Any, Pages[T]]:
        """As `paginate`, on asyncio."""
        found: Coroutine[Any, Any, Pages[T]] = self._run(True, self._paginate_flow, number, size)
        return found

    async def _paginate_flow(self, collection: Any, number: int, size: int) -> Any:
        from mangonel.odm._pages import Pages

        if number < 1 or size < 1:
            raise ValueError(f"expected a page and a size from 1 on, found {number} and {size}")
        total = await self._count_flow(collection)
        items = await self.skip((number - 1) * size).limit(size)._all_flow(collection)
        return Pages(items, number, size, total)

    # Changing.

    def update(self, *changes: Change, array_filters: Any = None, upsert: bool = False) -> int:
        """Change all documents that match; return how many were changed.

        Args:
            changes: such as `inc(User.age)`, or update documents.
            array_filters: which elements `$[name]` in paths means.
            upsert: insert one when nothing matches.
        """
        found: int = self._run(False, self._update_flow, changes, array_filters, upsert)
        return found

    def aupdate(
        self, *changes: Change, array_filters: Any = None, upsert: bool = False
    ) -> Coroutine[Any, Any, int]:
        """As `update`, on asyncio."""
        found: Coroutine[Any, Any, int] = self._run(True, self._update_flow, changes, array_filters, upsert)
        return found

    async def _update_flow(self, collection: Any, changes: Any, array_filters: Any, upsert: bool) -> int:
        from mangonel.odm._hooks import run_query_flow
        from mangonel.odm._writes import changes_of

        if self._is_none:
            return 0
        query = self.query
        is_pipeline = len(changes) == 1 and isinstance(changes[0], list)
        update: Any = changes[0] if is_pipeline else changes_of(self._model, changes)
        port = collection._port
        await run_query_flow(self._model, "before_query_update", port, query, update)
        options = self._write_options(upsert=upsert, array_filters=array_filters)
        result = await port.call(_update_many, collection, query, update, options)
        await run_query_flow(self._model, "after_query_update", port, query, update)
        return int(result.modified_count + (result.upserted_id is not None)) if result.acknowledged else 0

    def _write_options(self, **more: Any) -> dict[str, Any]:
        options: dict[str, Any] = {
            name: self._options[name] for name in ("hint", "collation", "comment") if name in self._options
        }
        options.update({name: value for name, value in more.items() if value is not None})
        options.update(session_options(self._model.__connection__))
        return options

    def delete(self) -> int:
        """Delete all documents that match, by the delete rules of references to them; return how many."""
        found: int = self._run(False, self._delete_flow)
        return found

    def adelete(self) -> Coroutine[Any, Any, int]:
        """As `delete`, on asyncio."""
        found: Coroutine[Any, Any, int] = self._run(True, self._delete_flow)
        return found

    async def _delete_flow(self, collection: Any) -> int:
        from mangonel.odm._hooks import run_query_flow
        from mangonel.odm._rules import apply_rules_flow, has_rules

        if self._is_none:
            return 0
        query, port = self.query, collection._port
        await run_query_flow(self._model, "before_query_delete", port, query)
        if has_rules(self._model):
            rows = await self._with(projection={"_id": 1})._dicts_flow(collection)
            await apply_rules_flow(self._model, [row["_id"] for row in rows], port.is_async)
        if self._model.__soft_delete__():
            update = self._model.__soft_delete_update__()
            result = await port.call(_update_many, collection, query, update, self._write_options())
            count = result.modified_count if result.acknowledged else 0
        else:
            result = await port.call(_delete_many, collection, query, self._write_options())
            count = result.deleted_count if result.acknowledged else 0
        await run_query_flow(self._model, "after_query_delete", port, query)
        return int(count)

    def find_and_update(
        self, *changes: Change, new: bool = True, upsert: bool = False, array_filters: Any = None
    ) -> T | None:
        """Change the first document that matches and return it, in one step.

        Args:
            new: return it as it is afterwards; False: as it was.
            upsert: insert one when nothing matches.
        """
        found: T | None = self._run(False, self._find_and_update_flow, changes, new, upsert, array_filters)
        return found

    def afind_and_update(
        self, *changes: Change, new: bool = True, upsert: bool = False, array_filters: Any = None
    ) -> Coroutine[Any, Any, T | None]:
        """As `find_and_update`, on asyncio."""
        found: Coroutine[Any, Any, T | None] = self._run(
            True, self._find_and_update_flow, changes, new, upsert, array_filters
        )
        return found

    async def _find_and_update_flow(
        self, collection: Any, changes: Any, new: bool, upsert: bool, array_filters: Any
    ) -> Any:
        from mangonel.odm._hooks import run_query_flow
        from mangonel.odm._writes import changes_of

        if self._is_none:
            return None
        query, port = self.query, collection._port
        is_pipeline = len(changes) == 1 and isinstance(changes[0], list)
        update: Any = changes[0] if is_pipeline else changes_of(self._model, changes)
        await run_query_flow(self._model, "before_query_update", port, query, update)
        options = self._write_options(array_filters=array_filters, sort=_pairs(self._options.get("sort")))
        found = await port.call(
            _find_one_and_update, _raw_collection(collection), query, update, upsert, new, options
        )
        await run_query_flow(self._model, "after_query_update", port, query, update)
        return self._made(found)

    def _made(self, found: Any) -> Any:
        """The instance of a raw document, or None."""
        if found is None:
            return None
        made = _core.odm_decode_all(self._model.__model__, bytes(found.raw), False, self._only())
        return self._identified(made)[0]

    def find_and_delete(self) -> T | None:
        """Delete the first document that matches and return it, or None; delete rules do not apply."""
        found: T | None = self._run(False, self._find_and_delete_flow)
        return found

    def afind_and_delete(self) -> Coroutine[Any, Any, T | None]:
        """As `find_and_delete`, on asyncio."""
        found: Coroutine[Any, Any, T | None] = self._run(True, self._find_and_delete_flow)
        return found

    async def _find_and_delete_flow(self, collection: Any) -> Any:
        if self._is_none:
            return None
        options = self._write_options(sort=_pairs(self._options.get("sort")))
        found = await collection._port.call(
            _find_one_and_delete, _raw_collection(collection), self.query, options
        )
        made = self._made(found)
        if made is not None:
            _core.odm_mark_deleted(made)
        return made

    def upsert(self, *changes: Change, on_insert: Any = None) -> T:
        """Change the first document that matches, or insert one; return it.

        Args:
            on_insert: a new document whose values are stored when nothing matches, beside the changes.
        """
        found: T = self._run(False, self._upsert_flow, changes, on_insert)
        return found

    def aupsert(self, *changes: Change, on_insert: Any = None) -> Coroutine[Any, Any, T]:
        """As `upsert`, on asyncio."""
        found: Coroutine[Any, Any, T] = self._run(True, self._upsert_flow, changes, on_insert)
        return found

    async def _upsert_flow(self, collection: Any, changes: Any, on_insert: Any) -> Any:
        given = list(changes)
        if on_insert is not None:
            from mangonel.odm._changes import update_of

            known = {key for group in update_of(given).values() for key in group} if given else set()
            # What the query itself demands is set by the server.
            known |= {key for key, value in self.query.items() if not isinstance(value, Mapping)}
            values = on_insert.to_bson()
            given.append({"$setOnInsert": {key: value for key, value in values.items() if key not in known}})
        return await self._find_and_update_flow(collection, given, True, True, None)

    def get_or_create(self, on_insert: T) -> tuple[T, bool]:
        """Return the first document that matches, or `on_insert`, stored; and whether it was stored now. Atomic."""
        found: tuple[T, bool] = self._run(False, self._get_or_create_flow, on_insert)
        return found

    def aget_or_create(self, on_insert: T) -> Coroutine[Any, Any, tuple[T, bool]]:
        """As `get_or_create`, on asyncio."""
        found: Coroutine[Any, Any, tuple[T, bool]] = self._run(True, self._get_or_create_flow, on_insert)
        return found

    async def _get_or_create_flow(self, collection: Any, on_insert: Any) -> Any:
        found = await self._first_flow(collection)
        if found is not None:
            return found, False
        made = await self._upsert_flow(collection, (), on_insert)
        return made, made.id == on_insert.id

    # Aggregation.

    def aggregate(self, pipeline: Iterable[Any], into: Any = None, **options: Any) -> list[Any]:
        """Run a pipeline on the documents that match; return dicts, or instances of `into`."""
        found: list[Any] = self._run(False, self._aggregate_flow, list(pipeline), into, options)
        return found

    def aaggregate(
        self, pipeline: Iterable[Any], into: Any = None, **options: Any
    ) -> Coroutine[Any, Any, list[Any]]:
        """As `aggregate`, on asyncio."""
        found: Coroutine[Any, Any, list[Any]] = self._run(
            True, self._aggregate_flow, list(pipeline), into, options
        )
        return found

    async def _aggregate_flow(
        self, collection: Any, pipeline: list[Any], into: Any, options: Any
    ) -> list[Any]:
        if self._is_none:
            return []
        stages: list[Any] = []
        query = self.query
        # These stages must be the first.
        if pipeline and next(iter(pipeline[0])) in ("$geoNear", "$search", "$vectorSearch", "$collStats"):
            stages.append(pipeline.pop(0))
        if query:
            stages.append({"$match": query})
        for name, stage in (("sort", "$sort"), ("skip", "$skip"), ("limit", "$limit")):
            if self._options.get(name):
                stages.append({stage: self._options[name]})
        options = {**options, **session_options(self._model.__connection__)}
        cursor = await collection._port.call(_aggregate, collection, stages + pipeline, options)
        if into is None:
            found: list[Any] = await cursor._to_list_flow(None)
            return found
        from mangonel.odm._shapes import reader

        documents: list[Any] = []
        read = reader(into)
        batch = cursor._batch
        while True:
            if batch is not None and not batch.is_empty:
                read(batch, documents, None)
            if not await cursor._fetch_flow():
                return documents
            batch = cursor._batch

    def _accumulate(self, is_async: bool, operator: str, field: Any) -> Any:
        return self._run(is_async, self._accumulate_flow, operator, field)

    async def _accumulate_flow(self, collection: Any, operator: str, field: Any) -> Any:
        key = key_of(field, self._model)
        group = {"$group": {"_id": None, "value": {operator: f"${key}"}}}
        found = await self._aggregate_flow(collection, [group], None, {})
        return found[0]["value"] if found else (0 if operator == "$sum" else None)

    def sum(self, field: S) -> S:
        """Return the sum of a field; 0 for no documents."""
        found: S = self._accumulate(False, "$sum", field)
        return found

    def asum(self, field: S) -> Coroutine[Any, Any, S]:
        """As `sum`, on asyncio."""
        found: Coroutine[Any, Any, S] = self._accumulate(True, "$sum", field)
        return found

    def avg(self, field: Any) -> float | None:
        """Return the mean of a field, or None."""
        found: float | None = self._accumulate(False, "$avg", field)
        return found

    def aavg(self, field: Any) -> Coroutine[Any, Any, float | None]:
        """As `avg`, on asyncio."""
        found: Coroutine[Any, Any, float | None] = self._accumulate(True, "$avg", field)
        return found

    def min(self, field: S) -> S | None:
        """Return the smallest value of a field, or None."""
        found: S | None = self._accumulate(False, "$min", field)
        return found

    def amin(self, field: S) -> Coroutine[Any, Any, S | None]:
        """As `min`, on asyncio."""
        found: Coroutine[Any, Any, S | None] = self._accumulate(True, "$min", field)
        return found

    def max(self, field: S) -> S | None:
        """Return the largest value of a field, or None."""
        found: S | None = self._accumulate(False, "$max", field)
        return found

    def amax(self, field: S) -> Coroutine[Any, Any, S | None]:
        """As `max`, on asyncio."""
        found: Coroutine[Any, Any, S | None] = self._accumulate(True, "$max", field)
        return found

    def __repr__(self) -> str:
        return f"Query({self._model.__name__}, {self.query!r})"

    def __bool__(self) -> bool:
        raise TypeError("a query has no truth value; use exists()")


class _AsyncDocuments(Generic[T]):
    """`async for` over a query: documents of a slice are handed out without waiting."""

    __slots__ = ("_at", "_collection", "_cursor", "_documents", "_query", "_read")

    def __init__(self, query: Query[T]) -> None:
        self._query = query
        self._collection = query._bind(True)
        self._cursor = None if query._is_none else query._cursor(self._collection)
        self._read = query._reader()
        self._documents: list[T] = []
        self._at = 0

    def __aiter__(self) -> _AsyncDocuments[T]:
        return self

    def __anext__(self) -> Any:
        at = self._at
        if at < len(self._documents):
            self._at = at + 1
            return _core.odm_finished(self._documents[at])
        return self._collection._port.flow(self._more_flow())

    async def _more_flow(self) -> T:
        cursor = self._cursor
        while cursor is not None:
            if cursor._batch is not None and not cursor._batch.is_empty:
                self._documents = await self._query._slice_flow(cursor, self._read, self._collection)
                self._at = 1
                return self._documents[0]
            if not await cursor._fetch_flow():
                break
        raise StopAsyncIteration


class _Key(str):
    """A key of the database, that needs no translation."""

    __slots__ = ()


def _dig(row: Any, names: list[str]) -> Any:
    for name in names:
        if isinstance(row, list):
            row = [_dig(item, [name]) for item in row]
        else:
            row = row.get(name) if isinstance(row, Mapping) else None
    return row


def _pairs(sort: Any) -> Any:
    return list(sort.items()) if sort else None


def _raw_collection(collection: Any) -> Any:
    """The same collection, whose documents stay bytes."""
    from mangonel.bson.raw_bson import RawBSONDocument

    return collection.with_options(
        codec_options=collection.codec_options.with_options(document_class=RawBSONDocument)
    )


def _count(collection: Any, query: Any, options: dict[str, Any]) -> Any:
    return collection.count_documents(query, **options)


def _distinct(collection: Any, key: str, query: Any, options: dict[str, Any]) -> Any:
    return collection.distinct(key, query, **options)


def _update_many(collection: Any, query: Any, update: Any, options: dict[str, Any]) -> Any:
    return collection.update_many(query, update, **options)


def _delete_many(collection: Any, query: Any, options: dict[str, Any]) -> Any:
    return collection.delete_many(query, **options)


def _find_one_and_update(
    collection: Any, query: Any, update: Any, upsert: bool, new: bool, options: dict[str, Any]
) -> Any:
    return collection.find_one_and_update(query, update, upsert=upsert, return_document=new, **options)


def _find_one_and_delete(collection: Any, query: Any, options: dict[str, Any]) -> Any:
    return collection.find_one_and_delete(query, **options)


def _aggregate(collection: Any, stages: list[Any], options: dict[str, Any]) -> Any:
    return collection.aggregate(stages, **options)
