"""Queries: immutable, lazy, read on either face. Spec: crud, find-getmore-killcursors-commands.

`for`, `async for` and `await` read a query as well as its methods do; each method that waits exists as `x()` and
`ax()`, which run the same flow. What is wanted is said in `_query_builder`, reading is `_query_reads`, changing and
aggregating are here.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from mangonel import _core
from mangonel.odm.connections.context import session_options
from mangonel.odm.expressions.changes import Change, update_of
from mangonel.odm.expressions.paths import key_of
from mangonel.odm.model.hooks import run_query_flow
from mangonel.odm.model.shapes import keys_of, reader
from mangonel.odm.query.reads import QueryReads, raw_collection
from mangonel.odm.query.rules import apply_rules_flow, has_rules

__all__ = ["Query"]

T = TypeVar("T")
S = TypeVar("S")


class Query(QueryReads[T]):
    """The documents of a model that fulfil conditions. Methods return new queries; nothing is sent before it is read.

    Example:
        >>> young = User.find(User.age < 30)
        >>> young.sort("-age").limit(10).all()
        []
        >>> await young.acount()
        0
    """

    __slots__ = ()

    def as_(self, shape: type[S]) -> Query[S]:
        """Return instances of another shape, with only its fields: an `Embedded`, a dataclass, a `msgspec.Struct`, a
        `TypedDict` or a pydantic model."""
        made: Any = self._copy()
        made._shape = shape
        keys = keys_of(shape)
        made._options = {**self._options}
        if keys is not None:
            projection: dict[str, Any] = dict.fromkeys(keys, 1)
            if "_id" not in keys:
                projection["_id"] = 0
            made._options["projection"] = projection
        shaped: Query[S] = made
        return shaped

    # Changing.

    def update(self, *changes: Change, array_filters: Any = None, upsert: bool = False) -> int:
        """Change all documents that match; return how many were changed.

        Args:
            changes: such as `inc(User.age)`, or update documents.
            array_filters: which elements `$[name]` in paths means.
            upsert: insert one when nothing matches.

        Raises:
            OperationFailure: the server refused.

        Example:
            >>> User.find(User.age > 30).update(inc(User.age))
            1
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
            changes: such as `inc(User.age)`, or update documents.
            new: return it as it is afterwards; False: as it was.
            upsert: insert one when nothing matches.
            array_filters: which elements `$[name]` in paths means.

        Raises:
            OperationFailure: the server refused.

        Example:
            >>> User.find(User.name == "Ada").find_and_update(inc(User.age)).age
            37
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
        if self._is_none:
            return None
        query, port = self.query, collection._port
        is_pipeline = len(changes) == 1 and isinstance(changes[0], list)
        update: Any = changes[0] if is_pipeline else changes_of(self._model, changes)
        await run_query_flow(self._model, "before_query_update", port, query, update)
        options = self._write_options(array_filters=array_filters, sort=_pairs(self._options.get("sort")))
        found = await port.call(
            _find_one_and_update, raw_collection(collection), query, update, upsert, new, options
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
            _find_one_and_delete, raw_collection(collection), self.query, options
        )
        made = self._made(found)
        if made is not None:
            _core.odm_mark_deleted(made)
        return made

    def upsert(self, *changes: Change, on_insert: Any = None) -> T:
        """Change the first document that matches, or insert one; return it.

        Args:
            changes: such as `inc(User.age)`, or update documents.
            on_insert: a new document whose values are stored when nothing matches, beside the changes.

        Example:
            >>> newcomer = User(name="Max", email="max@example.org")
            >>> User.find(User.email == newcomer.email).upsert(inc(User.age), on_insert=newcomer).name
            'Max'
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
            known = {key for group in update_of(given).values() for key in group} if given else set()
            # What the query itself demands is set by the server.
            known |= {key for key, value in self.query.items() if not isinstance(value, Mapping)}
            values = on_insert.to_bson()
            given.append({"$setOnInsert": {key: value for key, value in values.items() if key not in known}})
        return await self._find_and_update_flow(collection, given, True, True, None)

    def get_or_create(self, on_insert: T) -> tuple[T, bool]:
        """Return the first document that matches, or `on_insert`, stored; and whether it was stored now. Atomic.

        Args:
            on_insert: a new document.

        Example:
            >>> found, is_new = User.find(User.name == "Ada").get_or_create(User(name="Ada"))
            >>> is_new
            False
        """
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
        """Run a pipeline on the documents that match; return dicts, or instances of `into`.

        Args:
            pipeline: the stages that follow.
            into: a model, a dataclass, a TypedDict or another shape.
            options: as for the driver's `aggregate`.

        Example:
            >>> User.find(User.age > 30).aggregate([{"$count": "n"}])
            [{'n': 1}]
        """
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
        """Return the sum of a field; 0 for no documents.

        Args:
            field: a number of the model.

        Example:
            >>> User.find().sum(User.age)
            60
        """
        found: S = self._accumulate(False, "$sum", field)
        return found

    def asum(self, field: S) -> Coroutine[Any, Any, S]:
        """As `sum`, on asyncio."""
        found: Coroutine[Any, Any, S] = self._accumulate(True, "$sum", field)
        return found

    def avg(self, field: Any) -> float | None:
        """Return the mean of a field, or None.

        Args:
            field: a number of the model.

        Example:
            >>> User.find().avg(User.age)
            30.0
        """
        found: float | None = self._accumulate(False, "$avg", field)
        return found

    def aavg(self, field: Any) -> Coroutine[Any, Any, float | None]:
        """As `avg`, on asyncio."""
        found: Coroutine[Any, Any, float | None] = self._accumulate(True, "$avg", field)
        return found

    def min(self, field: S) -> S | None:
        """Return the smallest value of a field, or None.

        Args:
            field: an attribute of the model.

        Example:
            >>> User.find().min(User.age)
            24
        """
        found: S | None = self._accumulate(False, "$min", field)
        return found

    def amin(self, field: S) -> Coroutine[Any, Any, S | None]:
        """As `min`, on asyncio."""
        found: Coroutine[Any, Any, S | None] = self._accumulate(True, "$min", field)
        return found

    def max(self, field: S) -> S | None:
        """Return the largest value of a field, or None.

        Args:
            field: an attribute of the model.

        Example:
            >>> User.find().max(User.age)
            36
        """
        found: S | None = self._accumulate(False, "$max", field)
        return found

    def amax(self, field: S) -> Coroutine[Any, Any, S | None]:
        """As `max`, on asyncio."""
        found: Coroutine[Any, Any, S | None] = self._accumulate(True, "$max", field)
        return found


def changes_of(cls: Any, changes: Iterable[Change]) -> dict[str, Any]:
    """Return the update document of a query's changes: a versioned model's counts them too."""
    update = update_of(changes)
    for field in cls.__plan__.fields.values():
        if field.is_version and not any(field.key in group for group in update.values()):
            update.setdefault("$inc", {})[field.key] = 1
    for key, now in cls.__stamps__().items():
        if key[1] and not any(key[0] in group for group in update.values()):
            update.setdefault("$set", {})[key[0]] = now()
    return update


def _pairs(sort: Any) -> Any:
    return list(sort.items()) if sort else None


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
