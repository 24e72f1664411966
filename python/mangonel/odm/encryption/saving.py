"""The update of a document with encrypted values: it sets whole lists, and includes the names of keys."""

from __future__ import annotations

from typing import Any

from mangonel import _core
from mangonel._faces.encrypting import FieldPort
from mangonel.odm.encryption.elements import Group, put_together, take_apart
from mangonel.odm.expressions.values import dump
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.encrypted import Node
from mangonel.odm.model.encrypted_trees import encrypted_tree

# The options of an update that a query for ids accepts.
_OF_QUERIES = ("collation", "comment", "hint", "let", "session")

# Operators that find elements by value.
_BY_VALUE = ("$pullAll", "$addToSet")


def is_queryable(collection: Any) -> bool:
    """Whether the mapper encrypts fields of a collection with Queryable Encryption."""
    port = collection._port
    return isinstance(port, FieldPort) and bool(port.fields.is_queryable)


async def update_all_flow(collection: Any, query: Any, change: Any, options: dict[str, Any]) -> int:
    """Change all documents that match; return how many were changed or inserted.

    In a collection of Queryable Encryption the server changes one document at a time, so each is found first. Documents
    that no longer match by then are left alone.
    """
    port, filters, act = collection._port, [query], collection.update_many
    if is_queryable(collection):
        act = collection.update_one
        found = {name: options[name] for name in _OF_QUERIES if name in options}
        rows = await collection.find(query, projection={"_id": 1}, **found)._to_list_flow(None)
        if rows or not options.get("upsert"):
            filters = [{"$and": [{"_id": row["_id"]}, query]} for row in rows]
    count = 0
    for each in filters:
        result = await port.call(act, each, change, **options)
        if result.acknowledged:
            count += result.modified_count + (result.upserted_id is not None)
    return count


def key_filter(document: Any) -> dict[str, Any]:
    """Return the fields of a document that hold names of its keys, as far as they were loaded."""
    cls = document.__class__
    tree = encrypted_tree(cls)
    if tree is None:
        return {}
    fields, loaded = cls.__plan__.fields, set(_core.odm_loaded(document))
    found: dict[str, Any] = {}
    for _, node in tree.rules():
        name = node.rule.key_field if node.rule is not None else None
        if name is None:
            continue
        field = fields.get(name) or cls.__plan__.by_key[name]
        if field.name in loaded:
            found[field.key] = dump(cls, field, held(document, field.name))
    return found


def whole_lists(document: Any, update: bytes) -> bytes:
    """Return an update that sets a list whole, if it would otherwise search elements by an encrypted value."""
    tree = encrypted_tree(document.__class__)
    if tree is None:
        return update
    group = take_apart(update)
    moved: list[str] = []
    for operator in _BY_VALUE:
        part = group.group(operator)
        if part is None:
            continue
        for item in list(part.items):
            if _is_unfindable(_node_at(tree, item[0])):
                moved.append(item[0])
                part.items.remove(item)
    if not moved:
        return update
    group.items = [item for item in group.items if not (isinstance(item[1], Group) and not item[1].items)]
    stored = take_apart(bytes(_core.odm_encode(document)))
    chosen = group.group("$set")
    if chosen is None:
        chosen = Group([])
        group.items.insert(0, ["$set", chosen])
    chosen.items += [[path, _value_at(stored, path)] for path in moved]
    return put_together(group)[1]


def findable_guard(document: Any, guard: dict[str, Any]) -> dict[str, Any]:
    """Return the conditions of a guard that a server can check: for encrypted lists, their lengths."""
    cls = document.__class__
    tree = encrypted_tree(cls)
    if tree is None:
        return guard
    found: dict[str, Any] = {}
    for path, condition in guard.items():
        if _node_at(tree, path) is None:
            found[path] = condition
            continue
        name, _, place = path.partition(".")
        length: int | None = None
        if isinstance(condition.get("$eq"), list):
            name, length = path, len(condition["$eq"])
        elif "$size" in condition:
            name, length = path, condition["$size"]
        elif place.partition(".")[0].isdigit() and isinstance(
            held(document, cls.__plan__.by_key[name].name), list
        ):
            # A change by position keeps the length.
            length = len(held(document, cls.__plan__.by_key[name].name))
        if length is not None:
            found[name] = {"$size": length}
    return found


def _node_at(node: Node | None, path: str) -> Node | None:
    for part in path.split("."):
        if node is None:
            return None
        is_position = part.isdigit() and node.each is not None
        node = node.each if is_position else node.fields.get(part) or node.values
    return node


def _is_unfindable(node: Node | None) -> bool:
    return node is not None and not node.is_equal_findable


def _value_at(group: Group, path: str) -> Any:
    found: Any = group
    *parents, last = path.split(".")
    for part in parents:
        inner = found.group(part)
        if inner is None:
            raise ValueError(f"expected a document or list at $.{path}, got none")
        found = inner
    return found.get(last)
