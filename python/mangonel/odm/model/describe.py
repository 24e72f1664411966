"""Converts annotations to the description that the core compiles into a plan, at a model's first use.

The description is plain dicts and tuples; `crates/py/src/odm/plan.rs` reads it. `specs` describes the types in it.
"""

from __future__ import annotations

import collections.abc
from typing import Any, Literal, get_args, get_origin

from mangonel import _core
from mangonel.bson import encode
from mangonel.odm._registry import is_document_class, is_embedded, is_model
from mangonel.odm.expressions.geo import Geometry
from mangonel.odm.model import cast
from mangonel.odm.model.annotations import classes_in, evaluate, unwrap, without_none
from mangonel.odm.model.belongs_to import BelongsToDescriptor, as_ref
from mangonel.odm.model.codec import codec_options
from mangonel.odm.model.convert import remaker
from mangonel.odm.model.embedded_in import TellingDescriptor, holds_such
from mangonel.odm.model.encrypted import Encrypted, declared
from mangonel.odm.model.encrypted_trees import check_encrypted
from mangonel.odm.model.fields import FieldInfo, Indexed, Resolved, Sequence, Vector, Version
from mangonel.odm.model.refs import Ref, Refs
from mangonel.odm.model.specs import default_of, name_of, reach, reached, spec_of, tag_bytes

# Values of these types can be changed in place.
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
        reach(cls)
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
                    f"expected Annotated[list[float], Vector(…)] for {cls.__name__}.{info.name}, got {name_of(plain)}"
                )
        elif item is Version or isinstance(item, Version):
            if nullable or not (isinstance(plain, type) and issubclass(plain, int) and plain is not bool):
                raise TypeError(
                    f"expected Annotated[int, Version] for {cls.__name__}.{info.name}, got {name_of(plain)}"
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
    field.remake = remaker(spec)
    if declared:
        check_encrypted(cls, field, spec)
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
    default = default_of(field, spec)
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
    """Whether a field, or a part of its value, reads other forms than it writes: legacy points, casts, fewer keys."""
    if cast.rules_of(cls, field.name) or cls in reached:
        return True
    for inner in classes_in(field.type, field.info.owner):
        if isinstance(inner, type) and issubclass(inner, Geometry):
            return True
        if is_embedded(inner) and inner not in seen:
            seen.add(inner)
            parts = inner.__plan__.fields.values()
            if inner.__unknown__ == "ignore" or any(_reads_other_forms(inner, part, seen) for part in parts):
                return True
    return False


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
            # These wrap the base's slot; this class must not change the base's attribute.
            at = cls if isinstance(found, (BelongsToDescriptor, TellingDescriptor)) else base
            if type(found).__name__ != "OdmField":
                type.__setattr__(at, name, _core.odm_field(name, offset, wraps))
            return


def _own_document(cls: Any, name: str, offset: int) -> None:
    """Make an attribute return a reference's document, only in this class: in a base it may be a `Ref`."""
    member = _core.odm_field(name, offset, True)
    type.__setattr__(cls, name, BelongsToDescriptor(member))
    cls.__belongs_to__[name] = member


def _tags(cls: Any) -> Any:
    """Return the tag's key, the models by tag bytes, and the tag that this model writes."""
    if cls.__tag_value__ is None and not cls.__tagged__():
        return None
    rows = [(tag_bytes(model.__tag_value__), model) for model in cls.__tagged__()]
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
