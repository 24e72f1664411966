"""Updates: encrypts stored values; refuses operators that compute with a stored value."""

from __future__ import annotations

from typing import Any

from mangonel.odm.encryption.elements import ARRAY, DOCUMENT, Group, items_of, opened, text_of
from mangonel.odm.encryption.filters import encrypt_filter
from mangonel.odm.encryption.places import Places
from mangonel.odm.model.encrypted import Node

_STORING = ("$set", "$setOnInsert")
_BLIND = ("$unset",)


def encrypt_update(places: Places, item: list[Any], node: Node, array_filters: Group | None) -> None:
    """Encrypt the stored values of an update: operators, a document, or a pipeline, which may not use such fields.

    Raises:
        UnsupportedOption: it computes with an encrypted field.
    """
    group = opened(item)
    if group is None or not group.items:
        return
    if array_filters is not None:
        _check_used(places, array_filters, group, node)
    if group.kind == ARRAY:
        check_update_pipeline(places, group, node)
        return
    if group.items[0][0][:1] != "$":
        places.note_names(group)
        places.document(group, node)
        return
    for name in _STORING:
        places.note_names(group.group(name))
    named: dict[str, Node] = {}
    for part in group.items:
        for field in items_of(opened(part)):
            _name_elements(places, field[0], node, named)
            target = places.find(node, field[0], part[0])
            if part[0] == "$rename":
                _check_rename(places, field, target, node)
            elif target is not None:
                _change(places, part[0], field, target)
    if array_filters is not None:
        root = Node()
        root.fields = dict(named)
        for condition in array_filters.items:
            encrypt_filter(places, opened(condition), root)


def _change(places: Places, operator: str, item: list[Any], node: Node) -> None:
    path = item[0]
    if operator in _STORING:
        item[1] = places.store(item[1], node, path)
    elif operator in _BLIND or (operator == "$pop" and node.rule is None):
        return
    elif node.rule is not None:
        places.refuse(operator, path, node)
    elif operator in ("$push", "$addToSet"):
        _append(places, operator, item, node)
    elif operator == "$pullAll":
        item[1] = places.store(item[1], node, path, operator)
    elif operator == "$pull":
        element, part = opened(item), node.each or node
        if element is None or (
            element.kind == DOCUMENT and element.items[:1] and element.items[0][0][:1] == "$"
        ):
            # Encrypted like a condition on the elements, which has the same form.
            whole = Group([[path, item[1]]])
            root = Node()
            root.fields[path.replace(".", "\0")] = part
            whole.items[0][0] = path.replace(".", "\0")
            encrypt_filter(places, whole, root)
            item[1] = whole.items[0][1]
        else:
            encrypt_filter(places, element, part, path + ".")
    else:
        places.refuse(operator, path, node)


def _append(places: Places, operator: str, item: list[Any], node: Node) -> None:
    path, element = item[0], node.each or node
    what = operator if operator == "$addToSet" else None
    group = opened(item)
    values = group.group("$each") if group is not None and group.kind == DOCUMENT else None
    if values is None or group is None:
        item[1] = places.store(item[1], element, path, what)
        return
    for value in values.items:
        value[1] = places.store(value[1], element, path, what)
    for name, order in group.items:
        if name != "$sort":
            continue
        keys = opened(["", order])
        if keys is None:
            if element.rule is not None:
                places.refuse("sort", path, element)
            continue
        for key, _ in keys.items:
            found = places.find(element, key, "sort", path + ".")
            if found is not None:
                places.refuse("sort", f"{path}.{key}", found)


def _check_rename(places: Places, item: list[Any], target: Node | None, node: Node) -> None:
    other = places.find(node, text_of(item[1]) or "", "$rename")
    if target is not None or other is not None:
        places.refuse("$rename", item[0], target or other)


def _check_used(places: Places, array_filters: Group, update: Group, node: Node) -> None:
    """Refuse an array filter that no path uses: it is unknown which of its values to encrypt."""
    used = set()
    for part in update.items if update.kind != ARRAY else ():
        for name, _ in items_of(opened(part)):
            used |= {step[2:-1] for step in name.split(".") if step[:2] == "$["}
    queue = [opened(item) for item in array_filters.items]
    for condition in queue:
        for item in items_of(condition):
            if item[0][:1] != "$":
                name = item[0].partition(".")[0]
                if name not in used:
                    places.refuse(f"an array filter without a path that has $[{name}]", item[0], node)
            elif (parts := opened(item)) is not None and parts.kind == ARRAY:
                queue += [opened(part) for part in parts.items]


def _name_elements(places: Places, path: str, node: Node, named: dict[str, Node]) -> None:
    """Record the meaning of `$[name]` in a path."""
    parts = path.split(".")
    for index, part in enumerate(parts):
        if part[:2] == "$[" and len(part) > 3:
            found = places.find(node, ".".join(parts[: index + 1]), "an array filter")
            if found is not None:
                named[part[2:-1]] = found


def check_update_pipeline(places: Places, stages: Group, node: Node) -> None:
    """Refuse a pipeline that sets an encrypted field, or computes with one."""
    for stage in stages.items:
        for item in items_of(opened(stage)):
            if item[0] == "$unset":
                continue
            if item[0] in ("$replaceRoot", "$replaceWith"):
                places.refuse(f"{item[0]} in an update", "(whole documents)", node)
            for field in items_of(opened(item)):
                found = places.find(node, field[0], f"{item[0]} in a pipeline")
                if found is not None:
                    places.refuse(f"{item[0]} in a pipeline", field[0], found)
            places.check_expression(item[1], node, f"{item[0]} in a pipeline")
