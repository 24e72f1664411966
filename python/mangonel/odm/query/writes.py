"""Changes a query's documents: updates, deletions and upserts, on either face. Spec: crud (write)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from mangonel import _core
from mangonel._arguments import expect
from mangonel.common import validate_ok_for_replace, validate_ok_for_update
from mangonel.errors import DuplicateKeyError
from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import QueryWritesTwins
from mangonel.odm.encryption.saving import update_all_flow
from mangonel.odm.errors import UnsupportedOption, ValidationError
from mangonel.odm.expressions.changes import Change, update_of
from mangonel.odm.expressions.computed import is_computing
from mangonel.odm.expressions.expr import query_of
from mangonel.odm.model.codec import raw_collection
from mangonel.odm.model.hooks import run_query_flow
from mangonel.odm.model.invalid import located
from mangonel.odm.model.shapes import decode
from mangonel.odm.query.events import after_flow, before_insert_flow
from mangonel.odm.query.inserting import (
    change_beside_flow,
    change_one_flow,
    in_transaction,
    of_none,
    update_beside_flow,
)
from mangonel.odm.query.reads import QueryReads
from mangonel.odm.query.request import Request, filters_flow, ids_flow, in_parts, is_windowed, unsupported
from mangonel.odm.query.rules import carry_out_flow, erase_flow, follow_flow, needs_plan, plan_rules_flow
from mangonel.odm.query.stamped import update_for
from mangonel.odm.query.targets import Rows, check_acknowledged, denying, touches
from mangonel.odm.query.tenants import check_upsert

__all__ = ["QueryWrites"]

T = TypeVar("T")


class QueryWrites(QueryReads[T], QueryWritesTwins[T]):
    """The methods of a query that change documents."""

    __slots__ = ()

    @terminal
    def update(self, *changes: Change, array_filters: Any = None, upsert: bool = False) -> int:
        """Update all matching documents; return how many were changed.

        Args:
            changes: changes such as `inc(User.age)`, or update documents.
            array_filters: conditions for the elements that `$[name]` selects.
            upsert: insert a document if nothing matches.

        Raises:
            OperationFailure: the server refused.
            DuplicateKeyError: a document collides with another one. With `upsert` and a change of an indexed field that
                the query does not name, it may be one that another program has just inserted: send the update again.
            DanglingReference: the target of a reference with `on_delete="deny"` is gone. The references were put back.

        Example:
            >>> User.find(User.age > 30).update(inc(User.age))
            1
        """
        return self._run(IS_ASYNC, "update", self._update_flow, changes, array_filters, upsert)

    async def _update_flow(self, request: Request, changes: Any, array_filters: Any, upsert: bool) -> int:
        if self._is_none:
            return 0
        if upsert and self._joins:
            raise unsupported("update", "joins")
        if upsert and is_windowed(self):
            raise unsupported("update(upsert=True)", "limit" if self._options.get("limit") else "skip")
        update, port = update_for(self._model, changes, upsert), request.port
        self._check_upsert(request, upsert, update)
        await run_query_flow(self._model, "before_query_update", port, request.filter, update)
        keywords = {**request.keywords, "upsert": upsert}
        if array_filters is not None:
            keywords["array_filters"] = array_filters
        if touches(self._model, update):
            count = await self._update_looked_after_flow(request, update, keywords)
        else:
            count = 0
            for query in await filters_flow(request):
                count += await update_beside_flow(request, query, update, keywords)
        await run_query_flow(self._model, "after_query_update", port, request.filter, update)
        return count

    async def _update_looked_after_flow(self, request: Request, update: Any, keywords: dict[str, Any]) -> int:
        """Update documents, then look for the targets of the stored references."""
        check_acknowledged(self._model, request.collection)
        rows = Rows(self._model, request)
        window = {name: self._options[name] for name in ("sort", "skip", "limit") if self._options.get(name)}
        asked = {name: keywords[name] for name in ("collation", "hint", "let") if name in keywords}
        if self._joins:
            rows.before = await rows.read_flow(await ids_flow(request))
        else:
            rows.before = await rows.read_flow(**window, **asked)
        ids, count = rows.ids, 0
        if not ids and keywords["upsert"]:
            try:
                result = await request.port.call(
                    request.collection.update_many, of_none(request.filter), update, **keywords
                )
            except DuplicateKeyError:
                rows.before = {} if in_transaction(request) else await rows.read_flow(**window, **asked)
                if not rows.before:
                    raise
                # Another program inserted documents that match.
                ids = rows.ids
            else:
                await rows.check_flow(result.upserted_id)
                return 1
        keywords = {**keywords, "upsert": False}
        try:
            for part in in_parts(ids):
                query = {"$and": [part, request.filter]}
                count += await update_all_flow(request.collection, query, update, keywords)
        finally:
            await rows.check_flow()
        return count

    @terminal
    def delete(self) -> int:
        """Delete all matching documents, following the delete rules of references; return their number.

        Raises:
            DeleteDenied: a rule forbids it. Nothing was deleted, or it was stored again.
        """
        return self._run(IS_ASYNC, "delete", self._delete_flow)

    async def _delete_flow(self, request: Request) -> int:
        if self._is_none:
            return 0
        port = request.port
        await run_query_flow(self._model, "before_query_delete", port, request.filter)
        filters, plan = await filters_flow(request), None
        if needs_plan(self._model):
            # Exactly the documents that the rules were checked for are deleted, even if others match by now.
            ids = await ids_flow(request)
            plan = await plan_rules_flow(self._model, ids, request)
            if plan.taken is None:
                await carry_out_flow(plan, request)
            filters = [query_of(part, request.filter) for part in in_parts(ids)]
        count, taken = 0, None if plan is None else plan.taken
        for query in filters:
            count += await erase_flow(self._model, request.collection, query, request.keywords, taken)
        if plan is not None:
            if taken is not None:
                await carry_out_flow(plan, request)
            await follow_flow(plan, request)
        await run_query_flow(self._model, "after_query_delete", port, request.filter)
        return count

    @terminal
    def find_and_update(
        self, *changes: Change, new: bool = True, upsert: bool = False, array_filters: Any = None
    ) -> T | None:
        """Update the first matching document and return it, atomically.

        Args:
            changes: changes such as `inc(User.age)`, or update documents.
            new: return the document as it is after the change; False: as it was before.
            upsert: insert a document if nothing matches.
            array_filters: conditions for the elements that `$[name]` selects.

        Raises:
            OperationFailure: the server refused.

        Example:
            >>> User.find(User.name == "Ada").find_and_update(inc(User.age)).age
            37
        """
        return self._run(
            IS_ASYNC, "find_and_update", self._find_and_update_flow, changes, new, upsert, array_filters
        )

    async def _find_and_update_flow(
        self, request: Request, changes: Any, new: bool, upsert: bool, array_filters: Any
    ) -> Any:
        return (await self._change_first_flow(request, changes, new, upsert, array_filters))[0]

    async def _change_first_flow(
        self, request: Request, changes: Any, new: bool, upsert: bool, array_filters: Any
    ) -> tuple[Any, bool]:
        """Return the result of `find_and_update`, and whether it inserted the document."""
        if self._is_none:
            return None, False
        update, port = update_for(self._model, changes, upsert), request.port
        validate_ok_for_update(update)
        self._check_upsert(request, upsert, update)
        await run_query_flow(self._model, "before_query_update", port, request.filter, update)
        keywords = {**_first_of(request), "upsert": upsert, "return_document": new}
        if array_filters is not None:
            keywords["array_filters"] = array_filters
        change_flow = self._change_looked_after_flow if touches(self._model, update) else change_beside_flow
        found, is_inserted = await change_flow(request, update, keywords)
        await run_query_flow(self._model, "after_query_update", port, request.filter, update)
        return await self._made_flow(request, found), is_inserted

    async def _change_looked_after_flow(
        self, request: Request, change: Any, keywords: dict[str, Any]
    ) -> tuple[Any, bool]:
        """Change one document as `change_beside_flow` does, then look for the targets of the stored references."""
        rows = Rows(self._model, request)
        asked = {name: keywords[name] for name in ("sort", "collation", "hint", "let") if name in keywords}
        while True:
            rows.before = await rows.read_flow(limit=1, **asked)
            if not rows.before:
                if not keywords["upsert"]:
                    return None, False
                made = {**keywords, "return_document": True}
                try:
                    found, _ = await change_one_flow(request, of_none(request.filter), change, made)
                except DuplicateKeyError:
                    if in_transaction(request) or not await rows.read_flow(limit=1, **asked):
                        raise
                    # Another program inserted a document that matches.
                    continue
                await rows.check_flow(found["_id"])
                return (found if keywords["return_document"] else None), True
            (row,) = rows.before.values()
            # Only if the stored references are the known ones, so that they can be put back.
            query = {"$and": [row, request.filter]}
            found, _ = await change_one_flow(request, query, change, {**keywords, "upsert": False})
            if found is not None:
                await rows.check_flow()
                return found, False

    def _check_upsert(self, request: Request, upsert: bool, update: Any) -> None:
        if upsert and self._model.__tenant__ is not None:
            groups = update if isinstance(update, list) else [update]
            stored = (group.get(name) or {} for group in groups for name in ("$set", "$setOnInsert"))
            check_upsert(self._model, request.filter, *stored)

    async def _made_flow(self, request: Request, found: Any) -> Any:
        """Return the instance for a raw document, or None."""
        if found is None:
            return None
        data = bytes(found.raw)
        lazy = self._wish.get("lazy", False)
        try:
            if self._shape is not None:
                return decode(self._shape, data, self._model.__tz_aware__, request.connection)
            made = _core.odm_decode_all(
                self._model.__model__, data, lazy, self._only(), False, request.connection
            )
        except ValidationError as error:
            error = located(error, self._model, request.collection.name)
            error.add_note(
                f"{request.terminal.name}() has done its work; this is about the document that it returns"
            )
            raise error from None
        return (await self._finished_flow(request, made))[0]

    @terminal
    def find_and_replace(self, document: T, *, new: bool = True, upsert: bool = False) -> T | None:
        """Replace the values of the first matching document, which keeps its id, and return it.

        Args:
            document: the document with the new values; its id is not used.
            new: return the document as it is after the change; False: as it was before.
            upsert: insert it if nothing matches.

        Raises:
            UnsupportedOption: the model counts versions; load the document and use `replace()`.
            ValidationError: a value does not fit its field. Nothing was sent.

        Example:
            >>> User.find(User.name == "Max").find_and_replace(User(name="Max", age=1)) is None
            True
        """
        expect("document", document, self._model, "a document of the model")
        return self._run(IS_ASYNC, "find_and_replace", self._find_and_replace_flow, document, new, upsert)

    async def _find_and_replace_flow(self, request: Request, document: Any, new: bool, upsert: bool) -> Any:
        if any(field.is_version for field in self._model.__plan__.fields.values()):
            raise UnsupportedOption(
                f"find_and_replace() cannot honour the versions of {self._model.__name__}: load it, and use replace()"
            )
        if self._is_none:
            return None
        await before_insert_flow(document, request.collection, True)
        values = {key: value for key, value in document.to_bson().items() if key != "_id"}
        keywords = {**_first_of(request), "upsert": upsert, "return_document": new}
        validate_ok_for_replace(values)
        change_flow = self._change_looked_after_flow if denying(self._model) else change_beside_flow
        found, _ = await change_flow(request, values, keywords)
        made = await self._made_flow(request, found)
        if made is not None and self._shape is None:
            await after_flow(made, request.port, "update")
        return made

    @terminal
    def find_and_delete(self) -> T | None:
        """Delete the first matching document and return it, or None. Delete rules do not apply.

        With soft deletion the document is marked as deleted instead, and returned in that state.
        """
        return self._run(IS_ASYNC, "find_and_delete", self._find_and_delete_flow)

    async def _find_and_delete_flow(self, request: Request) -> Any:
        if self._is_none:
            return None
        collection, keywords = raw_collection(request.collection), _first_of(request)
        if self._model.__soft_delete__():
            update = self._model.__soft_delete_update__()
            keywords["return_document"] = True
            found = await request.port.call(
                collection.find_one_and_update, request.filter, update, **keywords
            )
            return await self._made_flow(request, found)
        found = await request.port.call(collection.find_one_and_delete, request.filter, **keywords)
        made = await self._made_flow(request, found)
        if made is not None and self._shape is None:
            _core.odm_mark_deleted(made)
        return made

    @terminal
    def upsert(self, *changes: Change, on_insert: Any = None) -> T:
        """Update the first matching document, or insert one; return it.

        Args:
            changes: changes such as `inc(User.age)`, or update documents.
            on_insert: a new document whose values are stored if nothing matches, in addition to the changes.

        Example:
            >>> newcomer = User(name="Max", email="max@example.org")
            >>> User.find(User.email == newcomer.email).upsert(inc(User.age), on_insert=newcomer).name
            'Max'
        """
        if on_insert is not None:
            expect("on_insert", on_insert, self._model, "a document of the model")
        return self._run(IS_ASYNC, "upsert", self._upsert_flow, changes, on_insert)

    async def _upsert_flow(self, request: Request, changes: Any, on_insert: Any) -> Any:
        given = list(changes)
        if on_insert is None:
            return await self._find_and_update_flow(request, given, True, True, None)
        if is_computing(given):
            raise UnsupportedOption(
                "upsert(on_insert=…) cannot honour a computed value beside it: the inserted document has no fields to "
                "compute with yet; use get_or_create(), and then update()"
            )
        if given:
            found = await self._find_and_update_flow(request, given, True, False, None)
            if found is not None:
                return found
        return (await self._insert_unless_flow(request, given, on_insert))[0]

    async def _insert_unless_flow(
        self, request: Request, given: list[Any], on_insert: Any
    ) -> tuple[Any, bool]:
        """Insert a document with changes, or change the one that matches by now; return it, and whether inserted."""
        await before_insert_flow(on_insert, request.collection, True)
        taken = {key for group in update_of(given).values() for key in group} if given else set()
        # The server sets the values that the query demands; the update sets those that every update sets.
        taken |= {key for key, value in request.filter.items() if not isinstance(value, Mapping)}
        if given:
            taken |= {key for key, is_update in self._model.__stamps__() if is_update}
            taken |= {field.key for field in self._model.__plan__.fields.values() if field.is_version}
        values = {key: value for key, value in on_insert.to_bson().items() if key not in taken}
        if not values and not given:
            # The document has an id and nothing else, and an update is never empty.
            values = {"_id": request.filter["_id"]}
        if values:
            given.append({"$setOnInsert": values})
        made, is_inserted = await self._change_first_flow(request, given, True, True, None)
        if is_inserted and self._shape is None:
            await after_flow(made, request.port, "insert")
        return made, is_inserted

    @terminal
    def get_or_create(self, on_insert: T) -> tuple[T, bool]:
        """Return the first matching document, or insert `on_insert`; also return whether it was inserted.

        If several programs call this at once, only one inserts it, provided that a unique index, such as the id's,
        covers the query's fields. Without such an index, each may insert it.

        Args:
            on_insert: a new document.

        Raises:
            DuplicateKeyError: it collides with a document that does not match. Nothing was stored.

        Example:
            >>> found, is_new = User.find(User.name == "Ada").get_or_create(User(name="Ada"))
            >>> is_new
            False
        """
        return self._run(IS_ASYNC, "get_or_create", self._get_or_create_flow, on_insert)

    async def _get_or_create_flow(self, request: Request, on_insert: Any) -> Any:
        query = self._with(limit=1)
        found = await query._all_flow(request.of(query, "first"))
        return (found[0], False) if found else await self._insert_unless_flow(request, [], on_insert)


def _first_of(request: Request) -> dict[str, Any]:
    """Return the keywords of a command that finds one document and changes it.

    Raises:
        UnsupportedOption: with w=0 there is no reply, and so no document.
    """
    if not request.collection.write_concern.acknowledged:
        raise UnsupportedOption(
            f"{request.terminal.name}() cannot honour a write concern with w=0: its answer is the document"
        )
    keywords = dict(request.keywords)
    if "sort" in keywords:
        keywords["sort"] = list(keywords["sort"].items())
    return keywords
