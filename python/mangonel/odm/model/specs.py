"""Describes types: an annotation becomes a spec, a dict of an operation, its argument and its checks.

`crates/py/src/odm/plan.rs` reads specs, and so do pydantic's schemas, the server's and the admin's forms.
"""

from __future__ import annotations

import collections
import copy
import datetime as dt
import decimal
import enum
import functools
import math
import re
import types
import typing
import uuid
from typing import Any, Literal, Union, get_args, get_origin

from mangonel import _core
from mangonel.bson import (
    Binary,
    Code,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
    decode,
    encode,
)
from mangonel.bson.errors import BSONError
from mangonel.odm._registry import is_embedded, is_model
from mangonel.odm.expressions.geo import Geometry
from mangonel.odm.model import cast
from mangonel.odm.model.annotations import classes_in, unwrap, without_none
from mangonel.odm.model.belongs_to import BelongsTo
from mangonel.odm.model.codec import codec_options
from mangonel.odm.model.encrypted import Encrypted, check_rule, declared, mark_of
from mangonel.odm.model.fields import MISSING, Custom, FieldInfo, Indexed, Resolved, Sequence, Vector, Version
from mangonel.odm.model.refs import Ref, RefMaker, Refs

_SCALARS: dict[Any, str] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    bytes: "bytes",
    dt.datetime: "datetime",
    dt.date: "date",
    ObjectId: "object_id",
    decimal.Decimal: "decimal",
    type(None): "none",
    Any: "any",
    object: "any",
}
_INSTANCES = (uuid.UUID, Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, Regex, Timestamp)
# The marks for `Annotated`, and how to write each.
_MARKS: dict[Any, str] = {
    Version: "Annotated[int, Version]",
    Sequence: "Annotated[int | None, Sequence()]",
    Indexed: "Annotated[…, Indexed(…)]",
    Vector: "Annotated[list[float], Vector(…)]",
    Encrypted: "Annotated[…, Encrypted(…)]",
    Custom: "Annotated[…, Custom(load, dump)]",
}
# The key under which the core stores the parts of a reference.
_SLOTS = [_core.odm_offset(vars(Ref)[name]) for name in ("_loaded", "_maker", "_siblings", "id")]


def default_of(field: Resolved, spec: dict[str, Any]) -> tuple[str, Any]:
    """Return the kind of a field's default, such as "value", "factory" or "required", and the default.

    Args:
        field: a field.
        spec: the description of its type.
    """
    info = field.info
    if spec["op"] in ("ref", "refs") and (make := _maker_of(info)) not in (None, list):
        # A reference made outside the field belongs to no model yet.
        return "factory", functools.partial(_adopted, spec["argument"][0], make)
    if info.default_factory is not None:
        native: dict[Any, str] = {list: "list", dict: "dict", set: "set", ObjectId: "object_id"}
        return native.get(info.default_factory, "factory"), info.default_factory
    if info.default is not MISSING:
        value = info.default
        if isinstance(value, (list, dict, set)):
            if not value:
                return {list: "list", dict: "dict", set: "set"}[type(value)], None
            return "factory", lambda: copy.deepcopy(value)
        return "value", value
    if field.nullable:
        return "value", None
    if field.target is not None and spec["op"] == "refs":
        return "factory", spec["argument"][0].empty
    return "required", None


def _adopted(maker: RefMaker, make: Any) -> Any:
    value = make()
    return maker(value, None, None) if isinstance(value, (Ref, Refs)) else value


def spec_of(
    plain: Any,
    metadata: typing.Sequence[Any],
    nullable: bool,
    cls: Any,
    info: FieldInfo | None = None,
    rules: frozenset[str] | None = None,
) -> dict[str, Any]:
    """Describe one type.

    Args:
        plain: the type without None.
        metadata: the other arguments of its `Annotated`.
        nullable: whether None is one of its values.
        cls: the model.
        info: the field, if it is the type of one.
        rules: the casts of the field that it is a part of. None: it is no part.
    """
    if rules is None:
        name = info.name if info is not None else None
        rules = cast.rules_of(cls, name) or reached.get(cls, frozenset())
    op, argument, label = _op(plain, metadata, cls, info, rules)
    spec = {
        "op": op,
        "argument": argument,
        "nullable": nullable,
        "label": label,
        "cast": cast.combined(plain, op, argument, rules, _maker_of(info)) if rules else None,
        "checks": _strictest(_checks(metadata)),
        "encrypted": mark_of(metadata) if declared else None,
    }
    if spec["encrypted"] is not None:
        check_rule(
            spec["encrypted"], spec, f"{cls.__name__}.{info.name}" if info else f"a part of {cls.__name__}"
        )
    return spec


def _maker_of(info: FieldInfo | None) -> Any:
    """Return the function that makes the default of a field, or None."""
    if info is None:
        return None
    if info.default_factory is not None:
        return info.default_factory
    if info.default is MISSING or info.default is None:
        return None
    return lambda: copy.deepcopy(info.default)


# The casts that embedded documents without their own get from the documents that contain them.
reached: dict[Any, frozenset[str]] = {}


def reach(cls: Any) -> None:
    """Pass a model's casts on to its embedded documents that define none."""
    by_field = {name: cast.rules_of(cls, name) or reached.get(cls, frozenset()) for name in cls.__fields__}
    for name, field in cls.__plan__.fields.items():
        if not by_field[name]:
            continue
        for inner in filter(is_embedded, classes_in(field.type, field.info.owner)):
            known = reached.get(inner, frozenset())
            if inner.__cast__ is False and not by_field[name] <= known:
                reached[inner] = known | by_field[name]
                # The model may have been used before.
                inner.__model__.reset()
                reach(inner)


def _inner(annotation: Any, cls: Any, rules: frozenset[str]) -> dict[str, Any]:
    metadata: list[Any] = []
    plain, nullable = without_none(unwrap(annotation, metadata, cls))
    return spec_of(unwrap(plain, metadata, cls), metadata, nullable, cls, None, rules)


def _op(
    plain: Any, metadata: typing.Sequence[Any], cls: Any, info: FieldInfo | None, rules: frozenset[str]
) -> tuple[str, Any, str]:
    mark = plain if isinstance(plain, type) else type(plain)
    if mark in _MARKS:
        where = f"{cls.__name__}.{info.name}" if info else f"a part of {cls.__name__}"
        raise TypeError(f"expected {_MARKS[mark]} for {where}, got {mark.__name__}")
    for item in metadata:
        if isinstance(item, Custom):
            return (
                "custom",
                (item.load, item.dump, plain if isinstance(plain, type) else None),
                name_of(plain),
            )
    if plain is dt.datetime and cls.__tz_aware__:
        return "datetime", True, "datetime with a time zone, as of datetime.now(UTC)"
    if plain in _SCALARS:
        return _SCALARS[plain], None, "None" if plain is type(None) else name_of(plain)
    origin, arguments = get_origin(plain), get_args(plain)
    if origin is Literal:
        return "literal", arguments, "one of " + ", ".join(map(repr, arguments))
    if origin in (Union, types.UnionType):
        return _union(arguments, cls, rules)
    if (origin or plain) is BelongsTo:
        raise TypeError(f"cannot store {plain!r} inside a type of {cls.__name__}: expected Ref[…] there")
    if origin in (Ref, Refs) or plain in (Ref, Refs):
        is_one = (origin or plain) is Ref
        target = arguments[0] if arguments else None
        maker = RefMaker(target, cls, info, is_list=not is_one)
        id_type = maker.id_type()
        inner = _inner(Any if id_type is None else id_type, cls, rules)
        label = f"{'Ref' if is_one else 'Refs'}[{maker.target_name}]"
        return (
            ("ref", (maker, Ref, inner, _SLOTS), label) if is_one else ("refs", (maker, Refs, inner), label)
        )
    container = origin or plain
    if container in (list, typing.Sequence) or getattr(container, "__name__", "") in (
        "Sequence",
        "MutableSequence",
    ):
        return "list", _inner(arguments[0] if arguments else Any, cls, rules), "list"
    if container is collections.deque:
        inner = _inner(arguments[0] if arguments else Any, cls, rules)
        return "custom", (_deque(inner), list, collections.deque), "deque"
    if container in (set, frozenset):
        return container.__name__, _inner(arguments[0] if arguments else Any, cls, rules), container.__name__
    if container is tuple:
        if not arguments or (len(arguments) == 2 and arguments[1] is Ellipsis):
            return "tuple_of", _inner(arguments[0] if arguments else Any, cls, rules), "tuple"
        return "tuple", [_inner(argument, cls, rules) for argument in arguments], "tuple"
    if container is dict or getattr(container, "__name__", "") in ("Mapping", "MutableMapping"):
        if arguments and unwrap(arguments[0], [], cls) is not str:
            raise TypeError(f"expected str as the keys of {plain!r} in {cls.__name__}: BSON has no others")
        return "dict", _inner(arguments[1] if arguments else Any, cls, rules), "dict"
    if isinstance(plain, type):
        return _class(plain, cls)
    if isinstance(origin, type) and issubclass(origin, (*_INSTANCES, re.Pattern)):
        return _class(origin, cls)
    raise TypeError(
        f"cannot store {plain!r} of {cls.__name__}: expected a type that BSON has, or Custom(load, dump)"
    )


def _class(plain: Any, cls: Any) -> tuple[str, Any, str]:
    if is_embedded(plain):
        _check_zones(plain, cls)
        return "embedded", plain, plain.__name__
    if is_model(plain):
        raise TypeError(
            f"cannot store a {plain.__name__} inside {cls.__name__}: expected Ref[{plain.__name__}], or an Embedded"
        )
    if issubclass(plain, enum.Enum):
        return "enum", (plain, _members(plain, cls)), plain.__name__
    if issubclass(plain, Geometry):
        offset = _core.odm_offset(Geometry.__dict__["coordinates"])
        return "geo", (plain, plain.geo_type, offset), plain.__name__
    if issubclass(plain, _INSTANCES):
        return "instance", plain, plain.__name__
    if issubclass(plain, re.Pattern):
        return "custom", (_pattern, lambda value: value, plain), "Pattern"
    if plain.__module__ == "ipaddress":
        return "custom", (_of_text(plain), str, plain), plain.__name__
    load, dump = getattr(plain, "__from_bson__", None), getattr(plain, "__to_bson__", None)
    if load is not None and dump is not None:
        # `dump` is a method, called with the value.
        return "custom", (load, dump, plain), plain.__name__
    raise TypeError(
        f"cannot store {plain.__name__} of {cls.__name__}: expected a type that BSON has, Custom(load, dump), or a "
        "class with __from_bson__ and __to_bson__"
    )


def _members(plain: Any, cls: Any) -> dict[Any, Any]:
    """Return the members of an enum by value.

    Raises:
        TypeError: BSON changes a value, such as a tuple.
    """
    members: dict[Any, Any] = {}
    options = codec_options(cls.__tz_aware__)
    for member in plain:
        try:
            members[decode(encode({"": member.value}, codec_options=options), options)[""]] = member
            is_kept = members.get(member.value) is member
        except (BSONError, TypeError):
            is_kept = False
        if not is_kept:
            raise TypeError(f"cannot store {member!r} of {cls.__name__}: BSON does not keep its value")
    return members


def _check_zones(inner: Any, cls: Any) -> None:
    """Refuse an embedded document unless its dates have time zones exactly if the model's do: one decoder makes both.

    Raises:
        TypeError: they differ.
    """
    if inner.__tz_aware__ != cls.__tz_aware__ and any(
        info.type is dt.datetime for info in inner.__plan__.fields.values()
    ):
        raise TypeError(
            f"cannot store a {inner.__name__} inside {cls.__name__}: one has dates with time zones, the other without; "
            "set __tz_aware__ alike in both"
        )


def _deque(inner: dict[str, Any]) -> Any:
    """Return the function that makes a deque of a stored array of plain values.

    Raises:
        TypeError: only the core can make its elements.
    """
    if inner["encrypted"] is not None:
        raise TypeError("cannot encrypt the elements of a deque: use a list")
    if inner["op"] not in ("any", "str", "int", "float", "bool", "bytes", "object_id"):
        raise TypeError(f"cannot store a deque of {inner['label']}: expected one of plain values; use a list")

    def load(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"expected deque, got {type(value).__name__}")
        return collections.deque(value)

    return load


def _of_text(kind: Any) -> Any:
    """Return the function that makes an IP address or network from text and refuses numbers."""

    def load(value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")
        return kind(value)

    return load


def _pattern(value: Any) -> Any:
    return value.try_compile() if isinstance(value, Regex) else re.compile(value)


def _union(arguments: tuple[Any, ...], cls: Any, rules: frozenset[str]) -> tuple[str, Any, str]:
    """Describe a union: embedded classes by tag, everything else by BSON type."""

    models: list[Any] = []
    others: list[dict[str, Any]] = []
    for argument in arguments:
        plain = unwrap(argument, [], cls)
        if is_embedded(plain):
            _check_zones(plain, cls)
            models.append(plain)
        else:
            others.append(_inner(argument, cls, rules))
    tag, rows = "", []
    if len(models) == 1:
        rows = [(b"", models[0])]
    elif models:
        tag = _common_tag(models, cls)
        for model in models:
            for value in tag_values(model, tag):
                rows.append((tag_bytes(value), model))
    label = " or ".join([model.__name__ for model in models] + [other["label"] for other in others])
    return "union", (tag, rows, others), label


def _common_tag(models: list[Any], cls: Any) -> str:
    for name, field in models[0].__plan__.fields.items():
        if get_origin(field.type) is not Literal:
            continue
        others = [model.__plan__.fields.get(name) for model in models]
        if all(other is not None and get_origin(other.type) is Literal for other in others):
            return str(field.key)
    if all(model.__tag_value__ is not None for model in models):
        return str(models[0].__tag__)
    names = " | ".join(model.__name__ for model in models)
    raise TypeError(
        f"cannot tell the alternatives of {names} in {cls.__name__} apart: give each the same field with a Literal, "
        'such as kind: Literal["card"] = "card"'
    )


def tag_values(model: Any, tag: str) -> tuple[Any, ...]:
    """Return the tag values that select this alternative of a union."""
    for field in model.__plan__.fields.values():
        if field.key == tag:
            return get_args(field.type)
    return (model.__tag_value__,)


def tag_bytes(value: Any) -> bytes:
    """Return the type and the bytes of a tag's value."""
    document = encode({"": value})
    return document[4:5] + document[6:-1]


def _checks(metadata: typing.Sequence[Any]) -> typing.Iterator[tuple[str, Any]]:
    """Yield the constraints in `Annotated`, by the attribute names of annotated-types."""
    for item in metadata:
        if isinstance(item, re.Pattern):
            yield "pattern", item.search
            continue
        if isinstance(item, (Indexed, Sequence, Version, Custom, Encrypted, type)):
            continue
        if isinstance(item, slice):
            continue
        known = False
        for name in ("ge", "gt", "le", "lt", "min_length", "max_length", "multiple_of"):
            bound = getattr(item, name, None)
            if bound is not None and not callable(bound):
                yield name, bound
            known = known or hasattr(item, name)
        pattern = getattr(item, "pattern", None) or getattr(item, "regex", None)
        if isinstance(pattern, str):
            yield "pattern", re.compile(pattern).search
        elif callable(getattr(item, "func", None)):
            yield "predicate", item.func
        elif not known and callable(item):
            yield "predicate", item


def _strictest(checks: typing.Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return constraints: the strictest of each kind, and all patterns and predicates."""
    found: dict[str, Any] = {}
    others: list[tuple[str, Any]] = []
    for kind, bound in checks:
        if kind in ("pattern", "predicate"):
            others.append((kind, bound))
            continue
        known = found.get(kind, bound)
        if kind == "multiple_of" and isinstance(known, int) and isinstance(bound, int):
            found[kind] = math.lcm(known, bound)
        elif kind == "multiple_of" and known != bound:
            others.append((kind, bound))
        else:
            found[kind] = min(known, bound) if kind in ("le", "lt", "max_length") else max(known, bound)
    if "ge" in found and "gt" in found:
        del found["ge" if found["gt"] >= found["ge"] else "gt"]
    if "le" in found and "lt" in found:
        del found["le" if found["lt"] <= found["le"] else "lt"]
    return [*found.items(), *others]


def name_of(plain: Any) -> str:
    return plain.__name__ if isinstance(plain, type) else str(plain).removeprefix("typing.")
