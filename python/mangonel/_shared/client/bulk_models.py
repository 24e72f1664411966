"""Converts write models to the form of the `bulkWrite` command. Sends nothing. Spec: bulk-write."""

from __future__ import annotations

from mangonel.operations import DeleteMany, DeleteOne, InsertOne, _WriteModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def as_write(model: Any) -> tuple[dict[str, Any], str]:
    """Return a model in the form of `bulkWrite`, and its namespace.

    The first key is the kind of the write; its value, the number of the namespace, is filled in later.

    Raises:
        TypeError, ValueError: `model` is not a model, or its document is wrong.
        InvalidOperation: `model` has no namespace.
    """
    if not isinstance(model, _WriteModel):
        raise TypeError(f"{model!r} is not a valid request: expected a write such as InsertOne")
    namespace = model._required_namespace()
    statement = model._statement()
    if isinstance(model, InsertOne):
        if getattr(statement, "_type_marker", None) is None and "_id" not in statement:
            from mangonel._core import ObjectId

            statement["_id"] = ObjectId()
        return {"insert": -1, "document": statement}, namespace
    if isinstance(model, (DeleteOne, DeleteMany)):
        write = {"delete": -1, "filter": statement.pop("q"), "multi": statement.pop("limit") == 0}
        return write | statement, namespace
    write = {"update": -1, "filter": statement.pop("q"), "updateMods": statement.pop("u")}
    write["multi"] = statement.pop("multi", False)
    statement.pop("upsert", None)
    if model._upsert is not None:  # type: ignore[attr-defined]
        write["upsert"] = model._upsert  # type: ignore[attr-defined]
    return write | statement, namespace
