"""Converts annotations to the description that the core compiles into a plan, at a model's first use.

The description is plain dicts and tuples; `crates/py/src/odm/plan.rs` reads it.
"""

from __future__ import annotations

import collections
import collections.abc
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
    encode,
)
from mangonel.odm._registry import is_document_class, is_embedded, is_model, models
from mangonel.odm.expressions.geo import Geometry
from mangonel.odm.model import cast
from mangonel.odm.model.annotations import classes_in, evaluate, unwrap, without_none
from mangonel.odm.model.belongs_to import BelongsTo, BelongsToDescriptor, as_ref
from mangonel.odm.model.codec import codec_options
from mangonel.odm.model.embedded_in import TellingDescriptor, holds_such
from mangonel.odm.model.encrypted import (
    Encrypted,
    Node,
    check_rule,
    count_marks,
    count_rules,
    declared,
    mark_of,
    models_of,
    tree_of_specs,
)
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
# What is written inside `Annotated`, and how.
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
# The encrypted fields of a model's documents, and how many models there were when they were found.
_trees: dict[Any, tuple[int, Node | None]] = {}
# Models without encryption marks, each with the number of models at the time of the check.
_unmarked: dict[Any, int] = {}
# Values of these types may change without being set.
_MUTABLE = {"list", "set", "dict", "embedded", "union", "any", "refs", "geo", "custom", "tuple", "tuple_of"}


def describe(cls: Any) -> dict[str, Any]:
    """Return the description of a model for the core's plan.

    Raises:
        TypeError: an annotation cannot be stored, or names something that does not exist.
    """
    cls.__belongs_to__ = {}
    versions = [field.name for field in cls.__plan__.fields.values() if field.is_version]
    if len(versions) > 1:
        raise TypeError(f"expected one Version in {cls.__name__}, got {', '.join(versions)}")
    if cls.__is_document__:
        _check_shard_key(cls)
        _reach(cls)
    return {
        "fields": [_row(cls, field) for field in cls.__plan__.fields.values()],
        "tags": _tags(cls),
        "unknown": cls.__unknown__,
        "is_document": cls.__is_document__,
        "forgives": cls.__on_bad__ == "raw",
        "is_dynamic": bool(cls.__dynamic__),
        "has_refs": _has_refs(cls, set()),
        "after_load": cls.__load_hook__(),
        "codec_options": codec_options(cls.__tz_aware__),
    }


def resolve_field(cls: Any, info: FieldInfo) -> Resolved:
    """Return a field with its annotation evaluated."""
    annotation = evaluate(info.annotation, info.owner)
    metadata: list[Any] = []
    annotation = unwrap(annotation, metadata, info.owner)
    plain, nullable = without_none(annotation)
    plain, belongs = as_ref(unwrap(plain, metadata, info.owner))
    key = info.key or ("_id" if info.name == "id" else info.name)
    resolved = Resolved(info, info.name, key, plain, nullable, tuple(metadata), belongs=belongs)
    for item in metadata:
        if isinstance(item, Indexed):
            resolved.indexes.append(item)
        elif item is Indexed:
            resolved.indexes.append(Indexed())
        elif item is Sequence:
            resolved.sequence = Sequence()
        elif isinstance(item, Sequence):
            resolved.sequence = item
        elif isinstance(item, Vector):
            if get_origin(plain) not in (list, tuple) or not {*get_args(plain)} <= {float, int, ...}:
                raise TypeError(
                    f"expected Annotated[list[float], Vector(…)] for {cls.__name__}.{info.name}, got {_name(plain)}"
                )
        elif item is Version or isinstance(item, Version):
            if nullable or not (isinstance(plain, type) and issubclass(plain, int) and plain is not bool):
                raise TypeError(
                    f"expected Annotated[int, Version] for {cls.__name__}.{info.name}, got {_name(plain)}"
                )
            resolved.is_version = True
        elif isinstance(item, Encrypted):
            resolved.encrypted = item
    if not is_document_class(cls):
        _check_inside(cls, resolved)
    resolved.is_list = get_origin(plain) in (list, set, frozenset, tuple)
    resolved.model, resolved.target = _models_of(plain, info.owner)
    if info.on_delete and (
        resolved.target is None or _origin_name(plain) in ("dict", "Mapping", "MutableMapping")
    ):
        raise TypeError(
            f"cannot keep on_delete={info.on_delete!r} for {cls.__name__}.{info.name}: no query finds a document by "
            "what its map refers to; expected a reference or a list of them"
        )
    if info.touch and not (is_document_class(resolved.target) and resolved.target.__stamps__()):
        raise TypeError(
            f"cannot touch what {cls.__name__}.{info.name} leads to: expected a reference to a model "
            "with Timestamps"
        )
    if (
        info.on_delete == "nullify"
        and not nullable
        and not resolved.is_list
        and get_origin(plain) is not Refs
    ):
        raise TypeError(
            f'cannot set {cls.__name__}.{info.name} to None when its target is deleted: on_delete="nullify" wants '
            "a reference that may be None"
        )
    return resolved


def _check_shard_key(cls: Any) -> None:
    """Refuse a shard key that the server would refuse, or that has no field."""
    key = cls.__shard_key__
    if not isinstance(key, collections.abc.Mapping):
        raise TypeError(f'expected {cls.__name__}.__shard_key__ as {{"tenant": 1}}, got {key!r}')
    for name, kind in key.items():
        field = cls.__plan__.fields.get(name)
        if field is None or field.is_list:
            what = "no field" if field is None else "a list"
            raise TypeError(
                f"expected single fields in {cls.__name__}.__shard_key__, got {name!r}, which is {what}"
            )
        if kind not in (1, "hashed") or (kind == "hashed" and name != next(n for n in key if key[n] == kind)):
            raise ValueError(
                f'expected 1, or "hashed" once, in {cls.__name__}.__shard_key__, got {kind!r} for {name!r}'
            )


def _check_inside(cls: Any, field: Resolved) -> None:
    """Refuse features that only a document's own fields may have."""
    refused = {
        "on_delete": field.info.on_delete is not None,
        "touch": field.info.touch,
        "Sequence": field.sequence is not None,
        "Version": field.is_version,
    }
    for name, is_there in refused.items():
        if is_there:
            raise TypeError(
                f"cannot have {name} at {cls.__name__}.{field.name}: {cls.__name__} is embedded, and only fields of "
                "the document itself can have it"
            )


def _origin_name(plain: Any) -> str:
    return str(getattr(get_origin(plain) or plain, "__name__", ""))


def _models_of(plain: Any, owner: Any) -> tuple[type[Any] | None, Any]:
    """Return the embedded model in which paths continue, and the target model of references."""

    plain = unwrap(plain, [], owner)
    if is_embedded(plain):
        return plain, None
    origin = get_origin(plain)
    if origin in (Ref, Refs) or plain in (Ref, Refs):
        return None, (unwrap(get_args(plain)[0], [], owner) if get_args(plain) else None)
    for part in get_args(plain) if origin is not Literal else ():
        if part is Ellipsis:
            continue
        model, target = _models_of(without_none(unwrap(part, [], owner))[0], owner)
        if model is not None or target is not None:
            return model, target
    return (plain, None) if is_model(plain) else (None, None)


def _row(cls: Any, field: Resolved) -> dict[str, Any]:
    info = field.info
    spec = spec_of(field.type, field.metadata, field.nullable, cls, info)
    if declared:
        _check_encrypted(cls, field, spec)
    is_mutable = _is_mutable(spec)
    is_lazy = spec["op"] in (
        "list",
        "set",
        "dict",
        "embedded",
        "union",
        "refs",
        "geo",
        "tuple_of",
        "tuple",
        "frozenset",
    )
    lazy = (2 if info.lazy else 0) if info.lazy is not None else int(is_lazy)
    if not cls.__is_document__:
        lazy = 0
    default = default_of(cls, field, spec)
    member = _slot_of(cls, field.name)
    wraps = spec["op"] in ("ref", "refs")
    if wraps:
        field.maker = spec["argument"][0]
    if lazy or is_mutable or wraps:
        _own_descriptor(cls, field.name, _core.odm_offset(member), wraps)
    if field.belongs:
        _own_document(cls, field.name, _core.odm_offset(member))
    if holds_such(spec):
        slot = _core.odm_field(field.name, _core.odm_offset(member), False)
        type.__setattr__(cls, field.name, TellingDescriptor(slot))
    return {
        "key": field.key,
        "attribute": field.name,
        "offset": _core.odm_offset(member),
        "type": spec,
        "default": default,
        "lazy": lazy,
        "is_mutable": is_mutable,
        "reads_other_forms": _reads_other_forms(cls, field, set()),
        "omits_none": field.nullable and default[0] == "value" and default[1] is None,
        "is_frozen": info.frozen
        or (cls.__is_document__ and (field.key == "_id" or field.name in cls.__shard_key__)),
        "is_version": field.is_version,
    }


def _reads_other_forms(cls: Any, field: Resolved, seen: set[Any]) -> bool:
    """Whether a field, or a part of its value, reads other stored forms than it writes: legacy points, casts."""
    if cast.rules_of(cls, field.name) or cls in _reached:
        return True
    for inner in classes_in(field.type, field.info.owner):
        if isinstance(inner, type) and issubclass(inner, Geometry):
            return True
        if is_embedded(inner) and inner not in seen:
            seen.add(inner)
            if any(_reads_other_forms(inner, part, seen) for part in inner.__plan__.fields.values()):
                return True
    return False


def _check_encrypted(cls: Any, field: Resolved, spec: dict[str, Any]) -> None:
    """Refuse an encryption mark that has no effect, or one on a field that must be readable.

    Raises:
        TypeError: there is one.
    """
    where = f"{cls.__name__}.{field.name}"
    marks = count_marks(evaluate(field.info.annotation, field.info.owner), field.info.owner)
    if marks != count_rules(spec):
        raise TypeError(
            f"cannot encrypt what Encrypted stands at in {where}: expected a field, or the elements of a list or the "
            "values of a dict in it"
        )
    rule = field.encrypted
    if rule is None:
        return
    for what, is_so in (
        ("the _id", field.key == "_id"),
        ("the version", field.is_version),
        ("a counter", field.sequence is not None),
        ("a part of the shard key", cls.__is_document__ and field.name in cls.__shard_key__),
    ):
        if is_so:
            raise TypeError(f"cannot encrypt {where}: it is {what}, which the server must read")
    for index in field.indexes:
        is_equal = index.kind in (1, -1) and "expireAfterSeconds" not in index.options
        if not (rule.is_equal_findable and is_equal):
            raise TypeError(
                f'cannot index {where}, which is encrypted by "{rule.algorithm}": an index serves "deterministic" '
                "alone, for equal values"
            )


def may_encrypt(cls: Any) -> bool:
    """Whether the program has encryption marks.

    The annotations of the model are evaluated first, and those of its family, of what is embedded in it and of other
    models of its collection: until then they may hold marks that were never made.
    """
    if declared:
        return True
    # A model defined later may bring marks.
    if _unmarked.get(cls) == len(models):
        return False
    _new_tree(cls)
    is_whole = True
    for model in models_of(cls.__collection_name__(), cls):
        try:
            _new_tree(model)
        except TypeError:
            # A model that names something undefined reports that itself, when it is used.
            is_whole = False
    if is_whole and not declared:
        _unmarked[cls] = len(models)
    return bool(declared)


def encrypted_tree(cls: Any) -> Node | None:
    """Return the encrypted fields of a model's documents, or None.

    Raises:
        TypeError: two models of one collection contradict each other.
    """
    if not may_encrypt(cls):
        return None
    known = _trees.get(cls)
    # A model defined later may belong to the family.
    if known is None or known[0] != len(models):
        known = _trees[cls] = (len(models), _new_tree(cls))
    return known[1]


def _new_tree(cls: Any) -> Node | None:
    tree = tree_of_specs(cls, _specs_of)
    if not tree.is_sealed:
        return None
    for path, node in tree.rules():
        name = node.rule.key_field if node.rule is not None else None
        if name is None:
            continue
        field = cls.__plan__.fields.get(name) or cls.__plan__.by_key.get(name)
        if field is None or field.type is not str or field.encrypted is not None:
            raise TypeError(
                f"expected key_field of {cls.__name__}.{path} to be a field of {cls.__name__} that is a str and not "
                f"encrypted, got {name!r}"
            )
    return tree


def _specs_of(cls: Any) -> typing.Iterator[tuple[Resolved, dict[str, Any]]]:
    for field in cls.__plan__.fields.values():
        spec = spec_of(field.type, field.metadata, field.nullable, cls, field.info)
        _check_encrypted(cls, field, spec)
        yield field, spec


def _is_mutable(spec: dict[str, Any]) -> bool:
    op = spec["op"]
    if op == "union":
        return bool(spec["argument"][1]) or any(_is_mutable(part) for part in spec["argument"][2])
    if op in ("tuple", "tuple_of"):
        inner = spec["argument"]
        return any(_is_mutable(part) for part in (inner if isinstance(inner, list) else [inner]))
    return op in _MUTABLE


def _slot_of(cls: Any, name: str) -> Any:
    for base in cls.__mro__:
        slots = base.__dict__.get("__members__")
        if slots and name in slots:
            return slots[name]
    raise TypeError(f"expected a slot for {name!r} in {cls.__name__}, got none")


def _own_descriptor(cls: Any, name: str, offset: int, wraps: bool) -> None:
    for base in cls.__mro__:
        if name in base.__dict__:
            found = base.__dict__[name]
            # A base has an attribute there that is no slot, which this class may not change.
            at = cls if isinstance(found, (BelongsToDescriptor, TellingDescriptor)) else base
            if type(found).__name__ != "OdmField":
                type.__setattr__(at, name, _core.odm_field(name, offset, wraps))
            return


def _own_document(cls: Any, name: str, offset: int) -> None:
    """Make an attribute return a reference's document, in this class only: a base may have a `Ref`."""
    member = _core.odm_field(name, offset, True)
    type.__setattr__(cls, name, BelongsToDescriptor(member))
    cls.__belongs_to__[name] = member


def default_of(cls: Any, field: Resolved, spec: dict[str, Any]) -> tuple[str, Any]:
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
        metadata: what stands beside it in `Annotated`.
        nullable: whether None is one of its values.
        cls: the model.
        info: the field, if it is the type of one.
        rules: the casts of the field that it is a part of. None: it is no part.
    """
    if rules is None:
        name = info.name if info is not None else None
        rules = cast.rules_of(cls, name) or _reached.get(cls, frozenset())
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


# The casts that embedded documents without their own take from the documents that hold them.
_reached: dict[Any, frozenset[str]] = {}


def _reach(cls: Any) -> None:
    """Pass a model's casts on to its embedded documents that define none."""
    by_field = {name: cast.rules_of(cls, name) or _reached.get(cls, frozenset()) for name in cls.__fields__}
    for name, field in cls.__plan__.fields.items():
        if not by_field[name]:
            continue
        for inner in filter(is_embedded, classes_in(field.type, field.info.owner)):
            known = _reached.get(inner, frozenset())
            if inner.__cast__ is False and not by_field[name] <= known:
                _reached[inner] = known | by_field[name]
                # It may have been used before.
                inner.__model__.reset()
                _reach(inner)


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
            return "custom", (item.load, item.dump, plain if isinstance(plain, type) else None), _name(plain)
    if plain is dt.datetime and cls.__tz_aware__:
        return "datetime", True, "datetime with a time zone, as of datetime.now(UTC)"
    if plain in _SCALARS:
        return _SCALARS[plain], None, "None" if plain is type(None) else _name(plain)
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
        return "enum", (plain, {member.value: member for member in plain}), plain.__name__
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


def _check_zones(inner: Any, cls: Any) -> None:
    """Refuse an embedded document whose dates differ from the model's in having a time zone: one decoder makes both.

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
                rows.append((_tag_bytes(value), model))
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


def _tag_bytes(value: Any) -> bytes:
    """Return the type and the bytes of a tag's value."""
    document = encode({"": value})
    return document[4:5] + document[6:-1]


def _tags(cls: Any) -> Any:
    """Return the tag's key, the models by tag bytes, and the tag that this model writes."""
    if cls.__tag_value__ is None and not cls.__tagged__():
        return None
    rows = [(_tag_bytes(model.__tag_value__), model) for model in cls.__tagged__()]
    own = b"" if cls.__tag_value__ is None else encode({cls.__tag__: cls.__tag_value__})[4:-1]
    return cls.__tag__, rows, list(own)


def _has_refs(cls: Any, seen: set[Any]) -> bool:
    if cls in seen:
        return False
    seen.add(cls)
    # Documents that `include()` fetches for an inverse are kept with a batch too.
    if cls.__inverses__:
        return True
    for field in cls.__plan__.fields.values():
        if field.target is not None or (field.model is not None and _has_refs(field.model, seen)):
            return True
    return False


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
    """Return constraints, of several of one kind the strictest; all patterns and predicates stay."""
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


def _name(plain: Any) -> str:
    return plain.__name__ if isinstance(plain, type) else str(plain).removeprefix("typing.")
