"""Pipelines: encrypts compared values, follows values through stages, and refuses computations with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mangonel.odm.encryption.elements import DOCUMENT, NUMBERS, Group, items_of, opened, text_of
from mangonel.odm.encryption.filters import encrypt_element, encrypt_filter
from mangonel.odm.encryption.places import Places
from mangonel.odm.encryption.updates import check_update_pipeline
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.model.encrypted import Node

# Stages that pass documents on unchanged and read no field.
_PASSING = {
    "$limit",
    "$skip",
    "$sample",
    "$indexStats",
    "$collStats",
    "$changeStreamSplitLargeEvent",
}
_CARRYING = ("$first", "$last", "$push")
# Returns the encrypted fields of another collection's documents.
Foreign = Callable[[str], "Node | None"]


def encrypt_pipeline(
    places: Places, stages: Group | None, node: Node | None, foreign: Foreign
) -> Node | None:
    """Encrypt the operands of a pipeline; return the encrypted fields of its results.

    Raises:
        UnsupportedOption: a stage computes with an encrypted field.
    """
    for item in items_of(stages):
        # The server refuses a stage with several names, but sees them all.
        for part in items_of(opened(item)):
            node = _stage(places, part, node, foreign)
    return node


def _stage(places: Places, item: list[Any], node: Node | None, foreign: Foreign) -> Node | None:
    name, body = item[0], opened(item)
    if name == "$match":
        encrypt_filter(places, body, node)
        return node
    if name in _PASSING:
        return node
    if name == "$changeStream":
        return _changes(node)
    if name in ("$out", "$merge"):
        _stored(places, item, body, node, foreign)
        return node
    if name in ("$lookup", "$graphLookup"):
        return _joined(places, name, body, node, foreign)
    if name == "$unionWith":
        other = foreign(_collection_of(item[1]))
        if body is not None and body.kind == DOCUMENT:
            other = encrypt_pipeline(places, body.group("pipeline"), other, foreign)
        return _both(node, other)
    if name == "$facet":
        made = Node()
        for part in items_of(body):
            found = encrypt_pipeline(places, opened(part), node, foreign)
            if found is not None:
                made.fields[part[0]] = Node()
                made.fields[part[0]].each = found
        return made if made.is_sealed else None
    if node is None:
        return None
    if name == "$count":
        return None
    if name == "$sort":
        check_sort(places, body, node)
        return node
    if name == "$project":
        return projected(places, body, node, name)
    if name in ("$addFields", "$set"):
        return _added(places, body, node, name)
    if name in ("$unset", "$unwind"):
        return node
    if name in ("$group", "$sortByCount"):
        return _grouped(places, name, item, body, node)
    if name in ("$replaceRoot", "$replaceWith"):
        value = body.get("newRoot") if name == "$replaceRoot" and body is not None else item[1]
        is_bare, found = places.bare(value, node)
        if not is_bare:
            places.check_expression(value, node, name)
        return found
    if name == "$geoNear" and body is not None:
        encrypt_filter(places, body.group("query"), node)
        return node
    _refuse_named(places, item, node, name)
    return node


def check_sort(places: Places, group: Group | None, node: Node | None) -> None:
    """Refuse to sort by an encrypted field."""
    for name, _ in items_of(group):
        found = places.find(node, name, "sort")
        if found is not None:
            places.refuse("sort", name, found)


def projected(
    places: Places, group: Group | None, node: Node, what: str, before: str = "", root: Node | None = None
) -> Node | None:
    """Check a projection; return the encrypted fields of its result.

    Args:
        node: the encrypted fields of the projected part.
        before: the path of that part.
        root: the encrypted fields of the whole documents, which expressions name. None: the same as `node`.
    """
    root = node if root is None else root
    made = Node()
    made.merge(node.copy(), places.name)
    for item in items_of(group):
        name, value = item
        target = places.find(node, name, what, before)
        inner = opened(item)
        if isinstance(value, tuple) and value[0] in NUMBERS:
            continue
        if inner is not None and inner.kind == DOCUMENT and inner.items:
            operator = inner.items[0][0]
            if operator == "$elemMatch" and target is not None:
                encrypt_element(places, inner.items[0], target, before + name)
                continue
            if operator in ("$slice", "$meta") and (target is None or target.rule is None):
                continue
            if operator[:1] != "$":
                projected(places, inner, target or Node(), what, f"{before}{name}.", root)
                continue
        is_bare, found = places.bare(value, root)
        if not is_bare:
            places.check_expression(item[1], root, what)
        if before and (target is not None or found is not None):
            places.refuse(f"{what} of a part of a document", before + name, target or found)
        _put(places, made, name, found, what)
    return made if made.is_sealed else None


def _added(places: Places, group: Group | None, node: Node, what: str) -> Node | None:
    made = node.copy()
    for item in items_of(group):
        is_bare, found = places.bare(item[1], node)
        if not is_bare:
            places.check_expression(item[1], node, what)
        _put(places, made, item[0], found, what)
    return made if made.is_sealed else None


def _put(places: Places, made: Node, name: str, found: Node | None, what: str) -> None:
    """Record that a stage stores these encrypted fields under `name`; None: it stores none."""
    if "." in name:
        was = places.find(made, name, what)
        if was is not None or found is not None:
            places.refuse(f"{what} of a part of a document", name, was or found)
        return
    if found is None:
        made.fields.pop(name, None)
    else:
        made.fields[name] = found


def _grouped(places: Places, name: str, item: list[Any], body: Group | None, node: Node) -> Node | None:
    made = Node()
    if name == "$sortByCount":
        made.fields["_id"] = _key(places, item[1], node, name) or Node()
        return made if made.is_sealed else None
    for part in items_of(body):
        inner = opened(part)
        if part[0] == "_id":
            found = Node()
            if inner is None or (inner.items and inner.items[0][0][:1] == "$"):
                found = _key(places, part[1], node, name) or found
            else:
                for key, value in inner.items:
                    at = _key(places, value, node, name)
                    if at is not None:
                        found.fields[key] = at
            made.fields["_id"] = found
            continue
        if inner is None or not inner.items:
            continue
        operator, value = inner.items[0]
        is_bare, at = places.bare(value, node)
        if not is_bare:
            places.check_expression(value, node, operator)
        if at is None:
            continue
        is_set = operator == "$addToSet" and at.is_equal_findable
        if operator not in _CARRYING and not is_set:
            places.refuse(operator, (text_of(value) or "$").lstrip("$"), at)
        made.fields[part[0]] = at
        if operator in ("$push", "$addToSet"):
            made.fields[part[0]] = Node()
            made.fields[part[0]].each = at
    return made if made.is_sealed else None


def _key(places: Places, value: Any, node: Node, what: str) -> Node | None:
    """Return the encrypted fields of a group key: equal values must have equal ciphertexts."""
    is_bare, found = places.bare(value, node)
    if not is_bare:
        places.check_expression(value, node, what)
    if found is not None and not found.is_equal_findable:
        places.refuse(what, (text_of(value) or "$").lstrip("$"), found)
    return found


def _joined(
    places: Places, name: str, body: Group | None, node: Node | None, foreign: Foreign
) -> Node | None:
    if body is None:
        return node
    other = foreign(_collection_of(body.get("from")))
    ends: list[tuple[str, Node | None]]
    if name == "$lookup":
        ends = [("localField", node), ("foreignField", other)]
        if body.get("let") is not None:
            places.check_expression(body.get("let"), node, "$lookup")
    else:
        ends = [("connectFromField", other), ("connectToField", other)]
        if body.get("startWith") is not None:
            places.check_expression(body.get("startWith"), node, name)
        encrypt_filter(places, body.group("restrictSearchWithMatch"), other)
    for field, at in ends:
        path = text_of(body.get(field))
        found = None if path is None else places.find(at, path, name)
        if found is not None:
            places.refuse(name, path or "", found)
    other = encrypt_pipeline(places, body.group("pipeline"), other, foreign)
    target = text_of(body.get("as"))
    if target is None:
        return node
    made = Node() if node is None else node.copy()
    if other is None:
        if "." not in target:
            made.fields.pop(target, None)
    else:
        at = made
        *parents, last = target.split(".")
        for part in parents:
            at.fields[part] = at.fields[part].copy() if part in at.fields else Node()
            at = at.fields[part]
        at.fields[last] = Node()
        at.fields[last].each = other
    return made if made.is_sealed else None


def _changes(node: Node | None) -> Node | None:
    """Return the encrypted fields of change events."""
    if node is None:
        return None
    made, description = Node(), Node()
    description.fields["updatedFields"] = node
    # If the collection is sharded, a key contains fields of the document.
    made.fields = dict.fromkeys(("fullDocument", "fullDocumentBeforeChange", "documentKey"), node)
    made.fields["updateDescription"] = description
    return made


def _collection_of(value: Any) -> str:
    """Return the collection that a stage names, as text or with its database."""
    text = text_of(value)
    if text is None and (body := opened(["", value])) is not None:
        text = text_of(body.get("coll"))
    return text or ""


def _stored(places: Places, item: list[Any], body: Group | None, node: Node | None, foreign: Foreign) -> None:
    """Refuse to store values that are not encrypted as the target collection requires."""
    is_merge = item[0] == "$merge" and body is not None
    into = body.get("into") if is_merge and body is not None else None
    target = _collection_of(item[1] if into is None else into)
    if is_merge and body is not None and body.get("let") is not None:
        places.check_expression(body.get("let"), node, item[0])
    other = foreign(target)
    if other is None:
        return
    if is_merge and body is not None and (stages := body.group("whenMatched")) is not None:
        check_update_pipeline(places, stages, other)
    missing = _uncovered(node, other, "", [])
    if missing is not None:
        raise UnsupportedOption(
            f"{item[0]} cannot store the results of this pipeline of {places.name} in {target!r}, whose {missing} is "
            "encrypted: expected results in which it is encrypted alike; use connection().database() if they have "
            "no such field"
        )


def _uncovered(node: Node | None, other: Node, path: str, seen: list[Node]) -> str | None:
    """Return the path of a field that is encrypted in `other` but not the same way in `node`."""
    if node is other or any(other is one for one in seen):
        return None
    seen.append(other)
    if other.rule is not None and (node is None or node.rule != other.rule):
        return path
    parts: dict[str, Node | None] = {} if node is None else dict(node.parts())
    for name, part in other.parts():
        found = _uncovered(parts.get(name), part, f"{path}.{name}" if path else name, seen)
        if found is not None:
            return found
    return None


def _both(node: Node | None, other: Node | None) -> Node | None:
    if node is None or other is None:
        return node or other
    made = node.copy()
    made.merge(other, "$unionWith")
    return made


def _refuse_named(places: Places, item: list[Any], node: Node, what: str) -> None:
    """Refuse an unknown stage that names an encrypted field."""
    places.check_expression(item[1], node, what)
    queue = [item]
    for current in queue:
        for part in items_of(opened(current)):
            for path in (part[0], text_of(part[1]) or ""):
                if path and path[:1] != "$":
                    found = places.find(node, path, what)
                    if found is not None:
                        places.refuse(what, path, found)
            queue.append(part)
