"""Converts instances to and from dicts, JSON and pickles. Sends nothing."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import enum
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from mangonel import _core
from mangonel.bson import DBRef, MaxKey, MinKey, ObjectId, Regex, Timestamp
from mangonel.odm._registry import is_embedded, is_instance
from mangonel.odm.errors import ValidationError
from mangonel.odm.expressions.geo import Geometry
from mangonel.odm.model.annotations import classes_in
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.fetched import key_of_id
from mangonel.odm.model.refs import Ref, Refs

NEW, PARTIAL, DELETED, SAVING, UNCERTAIN, GUARDED, MODIFIES = 1, 2, 4, 16, 32, 64, 128
# Values of these types contain nothing else, and a dict holds them unchanged.
_LEAVES = frozenset([str, int, float, bool, bytes, type(None), ObjectId, dt.datetime])


def values_of(instance: Any) -> dict[str, Any]:
    """Return an instance's values by attribute."""
    return {name: held(instance, name) for name in _core.odm_loaded(instance)}


def from_dict(cls: Any, values: Mapping[str, Any]) -> Any:
    """Make an instance from a mapping by attributes or by keys in the database."""
    if type(values) is dict:
        made = _core.odm_build(cls.__model__, values)
        if made is not None:
            return made
    if not isinstance(values, Mapping):
        raise TypeError(f"expected a mapping, got {type(values).__name__}")
    plan, tag = cls.__plan__, cls.__tag__
    is_tagged = tag in values and tag not in plan.fields and tag not in plan.by_key and bool(cls.__tagged__())
    if is_tagged:
        # The tag may come after keys that only its class knows.
        cls = by_tag(cls, values[tag])
        plan = cls.__plan__
    given: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    # Faults inside of values, by attribute.
    inside: dict[str, list[str]] = {}
    for key, value in values.items():
        field = plan.fields.get(key) or plan.by_key.get(key)
        if field is None:
            if not (is_tagged and key == tag):
                extra[key] = value
            continue
        if field.remake is not None:
            value = field.remake(value)
        try:
            given[field.name] = _build(field, value)
        except ValidationError as error:
            # Left unchanged here; refused below together with other faults.
            given[field.name] = value
            inside[field.name] = [_below(f".{field.name}", fault) for fault in texts(error)]
    if extra and cls.__unknown__ == "forbid":
        raise TypeError(f"expected fields of {cls.__name__}, got {', '.join(map(repr, extra))}")
    missing = [name for name, field in plan.fields.items() if name not in given and field.is_required]
    try:
        made = cls(**given)
    except (TypeError, ValidationError) as error:
        if not (missing or isinstance(error, ValidationError)):
            raise
        faults = [] if isinstance(error, TypeError) else texts(error)
        faults = [fault for fault in faults if not fault.startswith(NONE_GIVEN)]
        for name, found in inside.items():
            faults = [part for fault in faults for part in (found if _is_of(name, fault) else [fault])]
        faults += [f"{NONE_GIVEN}$.{name}" for name in missing]
        raise ValidationError.of(faults) from None
    if extra and cls.__unknown__ == "keep":
        made.set_extra(extra)
    return made


# The start of a fault about a missing value; its path follows.
NONE_GIVEN = "expected a value, got none at "


def texts(error: ValidationError) -> list[str]:
    """Return each fault in an error."""
    return error.faults if error.faults is not None else [str(error)]


def _below(step: str, fault: str) -> str:
    """Return a part's fault with the path from the whole."""
    message, separator, path = fault.rpartition(" at $")
    return f"{message} at ${step}{path}" if separator else f"{fault} at ${step}"


def _is_of(name: str, fault: str) -> bool:
    """Whether a fault concerns a field or a part of its value."""
    path = fault.rpartition(" at $.")[2]
    return path == name or path.startswith((f"{name}.", f"{name}["))


def by_tag(cls: Any, value: Any) -> Any:
    """Return the class of a family that a tag names: the class itself or one below it.

    Raises:
        ValidationError: it names none of them.
    """
    found = cls.__tagged__()
    for model in found:
        if model.__tag_value__ == value:
            return model
    known = " or ".join(repr(model.__tag_value__) for model in found)
    raise ValidationError.of([f"expected {known} for the tag, got {value!r} at $.{cls.__tag__}"])


def _build(field: Any, value: Any) -> Any:
    """Replace the mappings in a value by embedded documents and GeoJSON objects."""
    if not isinstance(value, (Mapping, list, tuple)):
        return value
    parts = _parts_of(field)
    if not parts:
        return value
    if isinstance(value, Mapping) and getattr(field.type, "__origin__", field.type) is dict:
        return dict(_each(parts, value.items(), lambda key: f".{key}"))
    return _build_list(parts, value) if isinstance(value, (list, tuple)) else part_of(parts, value)


_ROWS: dict[str, Any] = {"list": list, "dict": dict, "set": set, "frozenset": frozenset}
_ROWS |= {"tuple": tuple, "tuple_of": tuple}


def remaker(spec: Any) -> Callable[[Any], Any] | None:
    """Return the function that makes the sets, tuples and enums of a type from their forms in `to_dict`, if any."""
    op, argument = spec["op"], spec["argument"]
    if op != "enum" and op not in _ROWS:
        return None
    parts = argument if op == "tuple" else [] if op == "enum" else [argument]
    inner = [remaker(part) or (lambda item: item) for part in parts]
    if op in ("list", "dict") and remaker(argument) is None:
        return None

    def remake(value: Any) -> Any:
        try:
            if op == "enum":
                return argument[0](value)
            if op == "dict":
                return {key: inner[0](item) for key, item in value.items()}
            if type(value) is list:
                makes = inner if op == "tuple" else inner * len(value)
                return _ROWS[op](make(item) for make, item in zip(makes, value, strict=True))
        except (AttributeError, TypeError, ValueError):
            # Refused where its type is checked.
            pass
        return value

    return remake


def _build_list(parts: list[Any], value: Any) -> Any:
    return type(value)(item for _, item in _each(parts, enumerate(value), lambda index: f"[{index}]"))


def _each(
    parts: list[Any], items: Iterable[tuple[Any, Any]], step: Callable[[Any], str]
) -> list[tuple[Any, Any]]:
    """Make embedded documents of the items of a list or a dict.

    Raises:
        ValidationError: with all faults of all items.
    """
    made: list[tuple[Any, Any]] = []
    faults: list[str] = []
    for key, item in items:
        try:
            is_nested = isinstance(item, (list, tuple))
            made.append((key, _build_list(parts, item) if is_nested else part_of(parts, item)))
        except ValidationError as error:
            faults += [_below(step(key), fault) for fault in texts(error)]
    if faults:
        raise ValidationError.of(faults)
    return made


def _parts_of(field: Any) -> list[Any]:
    """Return the classes that mappings in a field may represent."""
    found: list[Any] | None = field.parts
    if found is None:
        found = field.parts = [
            part
            for part in classes_in(field.type, field.info.owner)
            if is_embedded(part) or (isinstance(part, type) and issubclass(part, Geometry))
        ]
    return found


def part_of(candidates: list[Any], value: Any) -> Any:
    """Make an embedded document or a GeoJSON object from a mapping, with the class of its tag or the first that fits.

    Raises:
        TypeError, ValidationError: it fits none; the fault is that of the last one.
    """
    if not isinstance(value, Mapping):
        return value
    candidates = [candidate for candidate in candidates if _is_named(candidate, value)] or candidates
    for candidate in candidates:
        try:
            if is_embedded(candidate):
                return from_dict(candidate, value)
            if value.get("type") == candidate.geo_type:
                return _geometry(candidate, value)
        except (TypeError, ValueError):
            if candidate is candidates[-1]:
                raise
    return value


def _is_named(candidate: Any, value: Mapping[str, Any]) -> bool:
    """Whether the tag in a mapping names a class or one that may take its place."""
    if not is_embedded(candidate) or candidate.__tag__ not in value:
        return False
    return any(model.__tag_value__ == value[candidate.__tag__] for model in candidate.__tagged__())


def _geometry(cls: type[Geometry], value: Mapping[str, Any]) -> Geometry:
    try:
        return cls.from_geojson(value)
    except ValueError as error:
        raise ValidationError.of([f"{error} at $"]) from None


def to_dict(
    instance: Any,
    *,
    exclude: Iterable[str] = (),
    only: Iterable[str] | None = None,
    by_key: bool = False,
    include: Iterable[str] = (),
    also: Iterable[str] = (),
) -> dict[str, Any]:
    """Return an instance's values as a nested dict.

    Raises:
        AttributeError: a name has no field.
        TypeError: wrong names, or an `include` that is not a reference.
    """
    if exclude != () or only is not None or include != () or also != ():
        for names in (exclude, only or (), include, also):
            if isinstance(names, str) or not isinstance(names, Iterable):
                raise TypeError(f"expected a list of names, got {names!r}")
        exclude, include, only = tuple(exclude), tuple(include), None if only is None else tuple(only)
        _check_names(instance.__class__, exclude, only, include)
    return _to_dict(instance, exclude, only, _Form(by_key), include, also)


def to_response(instance: Any) -> dict[str, Any]:
    """Return an instance's values for a response: with the computed values of each model in it."""
    return _to_dict(instance, (), None, _Form(has_computed=True))


class _Form(NamedTuple):
    """The options of `to_dict`, for all parts of an instance."""

    by_key: bool = False
    has_computed: bool = False


def _to_dict(
    instance: Any,
    exclude: Iterable[str],
    only: Iterable[str] | None,
    form: _Form,
    include: Iterable[str] = (),
    also: Iterable[str] = (),
    above: tuple[Any, ...] = (),
) -> dict[str, Any]:
    fields = instance.__plan__.fields
    above = (*above, instance)
    left_out, chosen = _tree(exclude), None if only is None else _tree(only)
    whole = set(include)
    found: dict[str, Any] = {}
    belongs = instance.__belongs_to__
    for name in _core.odm_loaded(instance):
        less, more = left_out.get(name), None if chosen is None else chosen.get(name)
        if (name in left_out and not less) or (chosen is not None and more is None):
            continue
        value = held(instance, name) if name in belongs else getattr(instance, name)
        if type(value) not in _LEAVES:
            made = _documents(value) if name in whole else value
            value = _plain(made, form, less or (), more or None, above)
        found[fields[name].key if form.by_key else name] = value
    tag, own = instance.__tag__, instance.__tag_value__
    if own is not None and tag not in left_out and (chosen is None or tag in chosen):
        # Without the tag, the class would be lost, and so would the fields that its base does not have.
        found.setdefault(tag, own)
    for name, descriptor in instance.__inverses__.items():
        less, more = left_out.get(name), None if chosen is None else chosen.get(name)
        if (name in left_out and not less) or (chosen is not None and more is None):
            continue
        fetched = _core.odm_siblings([instance])[0].loaded.get(descriptor)
        children = None if fetched is None else fetched.get(key_of_id(instance.id))
        if children is not None:
            found[name] = _shown(children, form, less or (), more or None, above)
    for name in (*also, *instance.__computed__) if form.has_computed else also:
        value = getattr(instance, name)
        found[name] = _plain(value() if callable(value) else value, form, above=above)
    if instance.__dynamic__:
        extra = _core.odm_extra(instance)
        for name in extra if chosen is None else extra.keys() & chosen.keys():
            if name not in left_out:
                found[name] = extra[name]
    return found


def _check_names(cls: Any, exclude: Any, only: Any, include: Any) -> None:
    """Refuse names without a field: a misspelt `exclude` would reveal the field that it should hide."""
    for name in (*exclude, *(only or ()), *include):
        if not isinstance(name, str):
            raise TypeError(f"expected names of fields of {cls.__name__}, got {name!r}")
        models = [cls]
        for part in name.split("."):
            models = [child for model in models for child in (model, *model.__tagged__())]
            if any(part == model.__tag__ and model.__tag_value__ is not None for model in models):
                break
            inverses = [model.__inverses__[part] for model in models if part in model.__inverses__]
            if inverses:
                models = [inverse.target for inverse in inverses]
                continue
            fields = [model.__plan__.fields[part] for model in models if part in model.__plan__.fields]
            if not fields and not any(model.__dynamic__ for model in models):
                known = ", ".join(models[0].__plan__.fields)
                raise AttributeError(f"{models[0].__name__} has no field {part!r}; it has {known or 'none'}")
            models = [model for field in fields for model in _inside(field)]
            if not models:
                # Keys of a dict, or fields that are not known in advance.
                break
    for name in include:
        field = cls.__plan__.fields.get(name)
        if field is None or field.target is None:
            raise TypeError(f"expected a reference of {cls.__name__}, got {name!r}")


def _inside(field: Any) -> list[Any]:
    """Return the models whose fields a part of a name may be."""
    if field.target is not None:
        return [field.target]
    return [part for part in classes_in(field.type, field.info.owner) if is_embedded(part)]


def _tree(names: Iterable[str]) -> dict[str, list[str]]:
    """Group dotted names by attribute: an empty list for a whole attribute, or its parts."""
    tree: dict[str, list[str]] = {}
    for name in names:
        first, _, rest = name.partition(".")
        parts = tree.setdefault(first, [])
        if rest:
            parts.append(rest)
    return tree


def _documents(value: Any) -> Any:
    """Replace references by their documents."""
    if isinstance(value, Ref):
        return value.value
    if isinstance(value, Refs):
        return value.values
    if isinstance(value, dict):
        return {key: _documents(item) for key, item in value.items()}
    return [_documents(item) for item in value] if isinstance(value, (list, tuple, set, frozenset)) else value


def _shown(
    documents: Iterable[Any],
    form: _Form,
    exclude: Iterable[str],
    only: Iterable[str] | None,
    above: tuple[Any, ...],
) -> list[Any]:
    """Return included documents as dicts; a document that contains itself this way appears inside as its id."""
    return [
        document.id
        if any(document is known for known in above)
        else _to_dict(document, exclude, only, form, above=above)
        for document in documents
    ]


def plain(value: Any, *, by_key: bool = False) -> Any:
    """Return a value without objects of the mapper. References that were included become their documents."""
    return _plain(value, _Form(by_key))


def _plain(
    value: Any,
    form: _Form,
    exclude: Iterable[str] = (),
    only: Iterable[str] | None = None,
    above: tuple[Any, ...] = (),
) -> Any:
    if is_instance(value):
        return _to_dict(value, exclude, only, form, above=above)
    if isinstance(value, Ref):
        fetched = value._fetched()
        if fetched is None or not fetched.is_included:
            return value.id
        document = value._known()
        if document is None:
            # An id that was set after the fetch is not missing.
            return None if value.is_missing else value.id
        return _shown([document], form, exclude, only, above)[0]
    if isinstance(value, Refs):
        fetched = value._fetched()
        if fetched is None or not fetched.is_included:
            return list(value.ids)
        unknown = [id for id in value.ids if value._known(id) is None and value._why_absent(id) is None]
        return [*_shown(value._chosen(), form, exclude, only, above), *unknown]
    if isinstance(value, Geometry):
        return value.to_geojson()
    if isinstance(value, dict):
        return {key: _plain(item, form, exclude, only, above) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, form, exclude, only, above) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    return value


def to_json_bytes(instance: Any, exclude: Iterable[str]) -> bytes:
    """Return an instance's values as JSON without spaces, in UTF-8, as `json()` of a query writes it."""
    values = to_dict(instance, exclude=exclude)
    return json.dumps(values, default=json_value, separators=(",", ":"), ensure_ascii=False).encode()


def to_json(instance: Any, **options: Any) -> str:
    """Return an instance's values as JSON; the options are those of `to_dict`."""
    return json.dumps(to_dict(instance, **options), default=json_value)


def json_value(value: Any) -> Any:
    """Return the JSON form of a value that JSON has no type for."""
    if isinstance(value, dt.datetime):
        moment = value.astimezone(dt.UTC) if value.tzinfo is not None else value
        return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, (ObjectId, decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (Timestamp, Regex, DBRef, MinKey, MaxKey)):
        from mangonel.bson._pydantic import plain

        return plain(value)
    return str(value)


def represent(instance: Any) -> str:
    """Return the `repr` of an instance; it loads no further fields.

    A value that cannot be decoded is shown as the error.
    """
    parts = []
    fields, secret = instance.__plan__.fields, set(getattr(instance, "__secret__", ()))
    for name in _core.odm_loaded(instance):
        is_hidden = name in secret or fields[name].encrypted is not None
        try:
            parts.append(f"{name}=…" if is_hidden else f"{name}={held(instance, name)!r}")
        except ValidationError as error:
            # A `repr` must not fail: it is also read while debugging another error.
            parts.append(f"{name}=<{error}>")
    return f"{instance.__class__.__name__}({', '.join(parts)})"


def copy(instance: Any, changes: Mapping[str, Any]) -> Any:
    """Return a new document with the same values."""
    # An undecoded value stays undecoded: it may be one that cannot be decoded.
    read = _core.odm_loaded(instance, False)
    made = restore(instance.__class__, bytes(_core.odm_encode(instance)), NEW, None, read, (), {}, None)
    if instance.__is_document__ and "id" in instance.__fields__:
        info = instance.__fields__["id"]
        if "id" not in changes and info.default_factory is not None:
            made.id = info.default_factory()
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def reduce(instance: Any) -> Any:
    """Return the arguments that restore an instance with its unsaved changes, also in another process."""
    flags, *pending = _core.odm_pending(instance)
    names = _core.odm_loaded(instance)
    loaded = names if flags & PARTIAL else None
    # Undecoded values stay undecoded: some cannot be decoded. Values that a program set are decoded.
    read = None if flags & NEW else _core.odm_loaded(instance, False)
    read = None if read == names else read
    return restore, (instance.__class__, bytes(_core.odm_encode(instance)), flags, loaded, read, *pending)


def restore(
    cls: Any, data: bytes, flags: int, loaded: list[str] | None, read: list[str] | None, *pending: Any
) -> Any:
    """Make an instance from the result of `reduce`.

    Args:
        cls: its class.
        data: its document.
        flags: the result of `odm_flags` for it.
        loaded: the fields that it has. None: all.
        read: those whose values are decoded. None: all.
        pending: further arguments of `odm_resume`.
    """
    only = None
    if loaded is not None:
        names = list(cls.__fields__)
        only = [names.index(name) for name in loaded]
    made = _core.odm_decode_all(cls.__model__, data, read is not None, only)[0]
    late = set(_core.odm_loaded(made)).difference(_core.odm_loaded(made, False))
    for name in late if read is None else late.intersection(read):
        held(made, name)
    _core.odm_resume(made, flags, *pending)
    return made
