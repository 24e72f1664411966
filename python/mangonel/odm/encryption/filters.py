"""Queries: encrypts operands of equality, and of ranges if the algorithm supports them; refuses the rest."""

from __future__ import annotations

from typing import Any

from mangonel.odm.encryption.elements import (
    ARRAY,
    DOCUMENT,
    NULL,
    REGEX,
    Group,
    Pending,
    items_of,
    opened,
    put_together,
    text_of,
)
from mangonel.odm.encryption.places import Places
from mangonel.odm.model.encrypted import QUERYABLE, Node

_LISTS = ("$and", "$or", "$nor")
_BOUNDS = ("$gt", "$gte", "$lt", "$lte")
# Operators that say nothing about a field's value.
_HARMLESS = ("$comment", "$text", "$alwaysTrue", "$alwaysFalse", "$sampleRate")


def encrypt_filter(places: Places, group: Group | None, node: Node | None, before: str = "") -> bool:
    """Encrypt the operands of a query; return whether there were any.

    Raises:
        UnsupportedOption: it needs information that an encrypted field does not reveal.
    """
    if group is None or node is None:
        return False
    has_operands, ranges, kept = False, [], []
    for item in group.items:
        name = item[0]
        if name[:1] == "$":
            has_operands |= _operator(places, item, node, before)
            kept.append(item)
            continue
        target = places.find(node, name, "a condition", before)
        if target is None:
            # An operand may be a text that looks like a field; only `$expr` would read it as one.
            kept.append(item)
            continue
        if target.rule is not None and target.rule.algorithm == "range":
            found = _range(places, item, target, before + name)
            if found is not None:
                ranges.append(["", found])
                has_operands = True
                continue
        else:
            has_operands |= _condition(places, item, target, before + name)
        kept.append(item)
    if ranges:
        # The library returns its own conditions, which are added to the others.
        together = Group(kept).group("$and")
        if together is None:
            kept.append(["$and", Group(ranges, ARRAY)])
        else:
            together.items += ranges
    group.items = kept
    return has_operands


def _operator(places: Places, item: list[Any], node: Node, before: str) -> bool:
    name = item[0]
    if name in _LISTS:
        has_operands = False
        for part in items_of(opened(item)):
            has_operands |= encrypt_filter(places, opened(part), node, before)
        return has_operands
    if name == "$where":
        places.check_code(text_of(item[1]) or item[1][1].decode(errors="replace"), node, name)
    elif name == "$jsonSchema":
        _check_schema(places, item, node)
    elif name == "$expr":
        places.check_expression(item[1], node, name)
    elif name not in _HARMLESS and node.is_sealed:
        # For example a value operator in place of a document operator: the server would refuse it, but see the value.
        places.refuse(name, before.rstrip(".") or "(whole documents)", node)
    return False


def _check_schema(places: Places, item: list[Any], node: Node) -> None:
    """Refuse a schema that has a rule for an encrypted field, or for any field."""
    for inner in items_of(opened(item)):
        name, parts = inner[0], opened(inner)
        if parts is None or name == "required":
            continue
        if name == "properties":
            for field in parts.items:
                found = places.named(node, field[0], "")
                if found is not None and found.is_sealed:
                    places.refuse("$jsonSchema", field[0], found)
        elif name in ("allOf", "anyOf", "oneOf"):
            for part in parts.items:
                _check_schema(places, part, node)
        elif name == "not":
            _check_schema(places, inner, node)
        elif name not in ("bsonType", "type"):
            places.refuse(f"$jsonSchema with {name}", "(whole documents)", node)


def _is_operators(group: Group | None) -> bool:
    return (
        group is not None
        and group.kind == DOCUMENT
        and bool(group.items)
        and group.items[0][0][:1] == "$"
        and group.items[0][0] not in ("$ref", "$id", "$db")
    )


def _condition(places: Places, item: list[Any], node: Node, path: str) -> bool:
    group = opened(item)
    if not _is_operators(group) or group is None:
        return _operand(places, item, node, path, "==")
    has_operands = False
    for inner in group.items:
        name = inner[0]
        if name in ("$eq", "$ne"):
            has_operands |= _operand(places, inner, node, path, name)
        elif name in ("$in", "$nin", "$all"):
            for value in items_of(opened(inner)):
                part = opened(value)
                if name == "$all" and _is_operators(part):
                    has_operands |= _condition(places, value, node, path)
                else:
                    has_operands |= _operand(places, value, node, path, name)
        elif name == "$not":
            if opened(inner) is None:
                places.refuse(name, path, node)
            has_operands |= _condition(places, inner, node, path)
        elif name == "$elemMatch" and node.rule is None:
            has_operands |= encrypt_element(places, inner, node, path)
        elif name == "$exists" or (name in ("$size", "$type") and node.rule is None):
            continue
        else:
            places.refuse(name, path, node)
    return has_operands


def encrypt_element(places: Places, item: list[Any], node: Node, path: str) -> bool:
    """Encrypt the operands of an `$elemMatch` in a query or projection; return whether there were any."""
    element, within = opened(item), node.each or node
    if _is_operators(element) and (element is None or element.items[0][0] not in _LISTS):
        return _condition(places, item, within, path)
    return encrypt_filter(places, element, within, path + ".")


def _operand(places: Places, item: list[Any], node: Node, path: str, what: str) -> bool:
    value = item[1]
    if isinstance(value, tuple) and value[0] == REGEX:
        places.refuse("a regular expression", path, node)
    before = len(places.pending)
    item[1] = places.store(value, node, path, what)
    if node.rule is None and any(found.rule.algorithm in QUERYABLE for found in places.pending[before:]):
        # The stored form differs from the search form; the server knows the field, but not inside a whole document.
        places.refuse(f"{what} with a whole document", path, node)
    return len(places.pending) > before or (isinstance(value, tuple) and value[0] == 5)


def _range(places: Places, item: list[Any], node: Node, path: str) -> Pending | None:
    """Return the range conditions on a field as one expression, or None without any."""
    group = opened(item)
    rule: Any = node.rule
    bounds: list[list[Any]] = []
    if not _is_operators(group) or group is None:
        if isinstance(item[1], tuple) and item[1][0] == NULL:
            return None
        bounds = [["$gte", item[1]], ["$lte", item[1]]]
    else:
        for name, value in group.items:
            if name in _BOUNDS:
                bounds.append([name, value])
            elif name == "$eq" and not (isinstance(value, tuple) and value[0] == NULL):
                bounds += [["$gte", value], ["$lte", value]]
            elif name not in ("$exists", "$eq") or len(group.items) > 1:
                places.refuse(name, path, node)
        if not bounds:
            return None
    parts = [["", Group([[path, Group([bound])]])] for bound in bounds]
    plain = put_together(Group([["$and", Group(parts, ARRAY)]]))
    return places.pend(plain, rule, path, "range")
