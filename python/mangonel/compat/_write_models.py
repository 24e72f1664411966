"""Adds `_add_to_bulk` to the write models; mongomock passes them to its own bulk write with it."""

from __future__ import annotations

from typing import Any

from mangonel.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne


def _add_insert(self: InsertOne[Any], bulkobj: Any) -> None:
    bulkobj.add_insert(self._doc)


def _add_delete(self: DeleteOne | DeleteMany, bulkobj: Any) -> None:
    bulkobj.add_delete(self._filter, self._LIMIT, collation=self._collation, hint=self._hint)


def _add_replace(self: ReplaceOne[Any], bulkobj: Any) -> None:
    options = {"collation": self._collation, "hint": self._hint, "sort": self._sort}
    bulkobj.add_replace(self._filter, self._doc, self._upsert, **options)


def _add_update(self: UpdateOne | UpdateMany, bulkobj: Any) -> None:
    options = {"collation": self._collation, "array_filters": self._array_filters, "hint": self._hint}
    if not self._MULTI:
        options["sort"] = self._sort
    bulkobj.add_update(self._filter, self._doc, self._MULTI, bool(self._upsert), **options)


_ADDING: dict[type[Any], Any] = {
    InsertOne: _add_insert,
    DeleteOne: _add_delete,
    DeleteMany: _add_delete,
    ReplaceOne: _add_replace,
    UpdateOne: _add_update,
    UpdateMany: _add_update,
}
for _model, _add in _ADDING.items():
    _model._add_to_bulk = _add
