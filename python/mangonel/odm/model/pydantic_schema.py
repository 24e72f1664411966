"""pydantic's hooks of a model, which FastAPI uses too: validation, serialization, JSON schema.

Only pydantic's own hook imports it. pydantic-core checks the values of a request and reports all faults with their
paths; the model is made from the checked values.
"""

from __future__ import annotations

import base64
import binascii
import contextvars
import json
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mangonel.bson import DBRef, ObjectId, Regex
from mangonel.bson._pydantic import form_of
from mangonel.odm._registry import is_instance
from mangonel.odm.expressions.geo import restore
from mangonel.odm.model import cast
from mangonel.odm.model.convert import by_tag, json_value, to_response
from mangonel.odm.model.refs import Ref, Refs
from mangonel.odm.model.specs import default_of, spec_of, tag_values

if TYPE_CHECKING:
    from mangonel.odm.model.base import Base

# The models whose schemas are being made: one that contains itself is referenced, not entered.
_open: contextvars.ContextVar[tuple[Any, ...]] = contextvars.ContextVar("mangonel_odm_schemas", default=())


def core_schema(cls: Any, handler: Any) -> Any:
    """Return pydantic's schema for validating and serializing a model.

    An instance is accepted unchanged; a mapping, such as a request's body, is converted with casts of JSON's types.
    """
    from pydantic_core import core_schema as schemas

    name = _reference(cls)
    if cls in _open.get():
        return schemas.definition_reference_schema(name)
    token = _open.set((*_open.get(), cls))
    try:
        fields = {}
        for attribute, field in cls.__plan__.fields.items():
            spec = spec_of(field.type, field.metadata, field.nullable, cls, field.info)
            fields[attribute] = schemas.typed_dict_field(
                Core(schemas, handler).of(spec),
                required=default_of(field, spec)[0] == "required",
                validation_alias=[[attribute], [field.key]] if field.key != attribute else None,
            )
    finally:
        _open.reset(token)
    extra: Any = "forbid" if cls.__unknown__ == "forbid" else ("allow" if cls.__dynamic__ else "ignore")

    def make(value: Any, check: Callable[[Any], dict[str, Any]]) -> Any:
        if isinstance(value, cls):
            return value
        chosen = _member(cls, value)
        if chosen is not cls:
            from pydantic import TypeAdapter

            return TypeAdapter(chosen).validate_python(value)
        if isinstance(value, dict) and cls.__tag__ in value and cls.__tagged__():
            value = {key: item for key, item in value.items() if key != cls.__tag__}
        values = check(value)
        unknown = {key: values.pop(key) for key in list(values) if key not in cls.__fields__}
        try:
            made = cls(**values)
        except TypeError as error:
            raise ValueError(str(error)) from error
        if unknown:
            made.set_extra(unknown)
        return made

    return schemas.no_info_wrap_validator_function(
        make,
        schemas.typed_dict_schema(fields, extra_behavior=extra),
        ref=name,
        serialization=schemas.plain_serializer_function_ser_schema(_serialize, info_arg=True),
    )


def _reference(cls: Any) -> str:
    """Return a model's key in a schema's definitions; it ends with the name of the OpenAPI component."""
    return f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"


def _member(cls: Any, value: Any) -> Any:
    """Return the member of a family that a mapping's tag names."""
    if not isinstance(value, dict) or cls.__tag__ not in value or not cls.__tagged__():
        return cls
    return by_tag(cls, value[cls.__tag__])


def _serialize(value: Base, info: Any) -> Any:
    found = to_response(value)
    if info.mode == "json":
        return json.loads(json.dumps(found, default=json_value))
    return found


class Core:
    """Makes pydantic's schemas from the descriptions of `spec_of`."""

    __slots__ = ("handler", "schemas")

    def __init__(self, schemas: Any, handler: Any) -> None:
        self.schemas = schemas
        self.handler = handler

    def of(self, spec: dict[str, Any]) -> Any:
        """Return the schema of one type."""
        made = self._plain(spec["op"], spec["argument"], dict(spec["checks"]), spec["label"])
        for kind, bound in spec["checks"]:
            if kind in ("pattern", "predicate"):
                made = self.schemas.no_info_after_validator_function(_checker(kind, bound), made)
        return self.schemas.nullable_schema(made) if spec["nullable"] else made

    def _plain(self, op: str, argument: Any, checks: dict[str, Any], label: str) -> Any:
        s = self.schemas
        bounds: dict[str, Any] = {
            name: checks[name] for name in ("ge", "gt", "le", "lt", "multiple_of") if name in checks
        }
        sizes: dict[str, Any] = {
            name: checks[name] for name in ("min_length", "max_length") if name in checks
        }
        simple: dict[str, Callable[[], Any]] = {
            "str": lambda: s.str_schema(strict=True, **sizes),
            "int": lambda: s.int_schema(strict=True, **bounds),
            "float": lambda: s.float_schema(strict=True, **bounds),
            "bool": lambda: s.bool_schema(strict=True),
            "decimal": lambda: s.decimal_schema(**bounds),
            "datetime": lambda: s.datetime_schema(**({"tz_constraint": "aware"} if argument else {})),
            "date": lambda: s.date_schema(),
            "none": lambda: s.none_schema(),
            "list": lambda: s.list_schema(self.of(argument), **sizes),
            "set": lambda: s.set_schema(self.of(argument), **sizes),
            "frozenset": lambda: s.frozenset_schema(self.of(argument), **sizes),
            "tuple_of": lambda: s.tuple_variable_schema(self.of(argument), **sizes),
            "tuple": lambda: s.tuple_positional_schema([self.of(inner) for inner in argument]),
            "dict": lambda: s.dict_schema(s.str_schema(strict=True), self.of(argument), **sizes),
            "embedded": lambda: self.handler.generate_schema(argument),
            "literal": lambda: s.literal_schema(list(argument)),
            "enum": lambda: s.enum_schema(argument[0], list(argument[0])),
            "union": lambda: self._union(argument),
            "ref": lambda: self._reference(argument),
            "refs": lambda: self._references(argument, sizes),
        }
        if op in simple:
            return simple[op]()
        convert = _CONVERT.get(op)
        if convert is not None:
            known = _json_type(op, argument)
            return s.no_info_plain_validator_function(
                lambda value: convert(argument, value, label),
                metadata={"pydantic_js_functions": [lambda schema, handler: dict(known)]},
            )
        return s.any_schema()

    def _union(self, argument: Any) -> Any:
        tag, rows, others = argument
        models = list(dict.fromkeys(model for _, model in rows))
        made = [self.of(other) for other in others]
        if len(models) == 1:
            made.append(self.handler.generate_schema(models[0]))
        elif models:
            made.append(self._tagged(tag, models))
        return made[0] if len(made) == 1 else self.schemas.union_schema(made)

    def _tagged(self, tag: str, models: list[Any]) -> Any:
        names: dict[Any, str] = {}
        keys = {tag}
        for model in models:
            keys |= {field.name for field in model.__plan__.fields.values() if field.key == tag}
            names.update(dict.fromkeys(tag_values(model, tag), model.__name__))

        def choose(value: Any) -> str | None:
            if isinstance(value, dict):
                return next((names.get(value[key]) for key in keys if key in value), None)
            return type(value).__name__ if isinstance(value, tuple(models)) else None

        choices = {model.__name__: self.handler.generate_schema(model) for model in models}
        return self.schemas.tagged_union_schema(choices, discriminator=choose)

    def _reference(self, argument: Any) -> Any:
        def take(value: Any, check: Callable[[Any], Any]) -> Any:
            return value if is_instance(value) or isinstance(value, Ref) else check(value)

        return self.schemas.no_info_wrap_validator_function(take, self.of(argument[2]))

    def _references(self, argument: Any, sizes: dict[str, Any]) -> Any:
        def take(value: Any, check: Callable[[Any], Any]) -> Any:
            return value if isinstance(value, Refs) else check(value)

        each = self.schemas.list_schema(self._reference(argument), **sizes)
        return self.schemas.no_info_wrap_validator_function(take, each)


def _checker(kind: str, bound: Any) -> Callable[[Any], Any]:
    """Return a validator for a constraint of the model."""

    def check(value: Any) -> Any:
        found = bound(value)
        if found is None if kind == "pattern" else found is not None and not found:
            wish = bound.__self__.pattern if kind == "pattern" else getattr(bound, "__name__", bound)
            raise ValueError(
                f"expected a {'match of' if kind == 'pattern' else 'value that satisfies'} {wish!r}"
            )
        return value

    return check


def _object_id(argument: Any, value: Any, label: str) -> Any:
    if isinstance(value, ObjectId):
        return value
    if isinstance(value, str) and ObjectId.is_valid(value):
        return ObjectId(value)
    raise ValueError("expected an id of 24 hexadecimal digits")


def _bytes(argument: Any, value: Any, label: str) -> Any:
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, binascii.Error) as error:
        raise ValueError("expected bytes in base64") from error


def _geo(argument: Any, value: Any, label: str) -> Any:
    kind, name, _ = argument
    if isinstance(value, kind):
        return value
    if isinstance(value, dict) and value.get("type") == name and isinstance(value.get("coordinates"), list):
        return restore(kind, value["coordinates"])
    raise ValueError(f"expected a GeoJSON {name}: its type and its coordinates")


def _instance(argument: Any, value: Any, label: str) -> Any:
    if isinstance(value, argument):
        return value
    if _is_bson(argument):
        if argument is DBRef and isinstance(value, dict) and isinstance(value.get("$id"), str):
            # In plain JSON an ObjectId is text, and so is a Ref.
            id = value["$id"]
            value = {**value, "$id": ObjectId(id) if ObjectId.is_valid(id) else id}
        return form_of(argument)[0](argument, value)
    convert = cast.caster(argument, "instance", argument)
    try:
        if convert is not None:
            return convert(value)
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"expected {label}, got {value!r}") from error
    raise ValueError(f"expected {label}, got {type(value).__name__}")


def _custom(argument: Any, value: Any, label: str) -> Any:
    load, _, kind = argument
    return value if kind is not None and isinstance(value, kind) else load(value)


_CONVERT: dict[str, Callable[[Any, Any, str], Any]] = {
    "object_id": _object_id,
    "bytes": _bytes,
    "geo": _geo,
    "instance": _instance,
    "custom": _custom,
}


_TEXT = {"type": "string"}
_JSON_TYPES: dict[str, dict[str, Any]] = {
    "object_id": {**_TEXT, "pattern": "^[0-9a-fA-F]{24}$"},
    "bytes": {**_TEXT, "format": "base64"},
    "geo": {"type": "object", "required": ["type", "coordinates"]},
    "custom": {},
}


def _json_type(op: str, argument: Any) -> dict[str, Any]:
    """Return the JSON schema of a type that pydantic does not know."""
    if op != "instance":
        return dict(_JSON_TYPES[op])
    if argument is Regex:
        # Responses use the plain form, which is text; requests may use extended JSON.
        return {"type": ["string", "object"]}
    if _is_bson(argument):
        return dict(form_of(argument)[2])
    return {**_TEXT, "format": "uuid"} if argument is uuid.UUID else {}


def _is_bson(kind: Any) -> bool:
    """Whether a class is one of BSON's types."""
    return kind.__module__.startswith("mangonel.bson")


def pydantic_json_schema(cls: Any, schema: Any, handler: Any) -> dict[str, Any]:
    """Return a model's JSON schema for OpenAPI; embedded documents are separate components."""
    if schema["type"] == "definition-ref":
        return handler(schema)
    made = dict(handler.resolve_ref_schema(handler(schema["schema"])))
    made["title"] = cls.__name__
    tags = [model.__tag_value__ for model in cls.__tagged__()]
    if tags:
        known = {"type": "string"} if all(isinstance(tag, str) for tag in tags) else {}
        made["properties"] = {**made.get("properties", {}), cls.__tag__: {**known, "enum": tags}}
        if handler.mode == "serialization" and cls.__tag_value__ is not None:
            made["required"] = [*made.get("required", ()), cls.__tag__]
    if handler.mode == "serialization":
        more = {**_included_properties(cls, made), **_computed_properties(cls)}
        made["properties"] = {**made.get("properties", {}), **more}
        if cls.__computed__:
            made["required"] = [*made.get("required", ()), *cls.__computed__]
    return made


def _included_properties(cls: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the properties of references in a response: ids, or the included documents."""
    found: dict[str, Any] = {}
    for name, field in cls.__plan__.fields.items():
        if field.target is not None and name in schema.get("properties", {}):
            whole = {"type": "object", "title": getattr(field.target, "__name__", "document")}
            if field.is_list or field.is_refs:
                whole = {"type": "array", "items": whole}
            found[name] = {"anyOf": [schema["properties"][name], whole]}
    for name, descriptor in cls.__inverses__.items():
        found[name] = {"type": "array", "items": {"type": "object", "title": descriptor.target.__name__}}
    return found


def _computed_properties(cls: Any) -> dict[str, Any]:
    """Return the JSON schemas of the computed values that responses have in addition to the fields."""
    found: dict[str, Any] = {}
    if not cls.__computed__:
        return found
    from typing import get_type_hints

    from pydantic import TypeAdapter

    for name in cls.__computed__:
        member = getattr(cls, name)
        returned = get_type_hints(member.fget if isinstance(member, property) else member).get("return", Any)
        # The schema is part of another one, so it must not contain definitions.
        schema = TypeAdapter(returned).json_schema(mode="serialization")
        schema = {} if "$defs" in schema else schema
        found[name] = {"title": name.replace("_", " ").title(), "readOnly": True, **schema}
    return found
