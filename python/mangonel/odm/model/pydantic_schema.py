"""What pydantic, and FastAPI through it, asks of a model: validation, serialization, JSON schema.

Pydantic itself is imported only by its own hook.
"""

from __future__ import annotations

import json
from typing import Any

from mangonel.odm.expressions.geo import restore
from mangonel.odm.model import cast
from mangonel.odm.model.convert import from_dict, json_value
from mangonel.odm.model.describe import default_of, spec_of


def core_schema(cls: Any) -> Any:
    """Return the schema by which pydantic validates and serializes a model.

    An instance is taken as it is; a mapping, of a request's body, becomes one with casts of JSON's few types.
    """
    from pydantic_core import core_schema as schemas

    def make(value: Any) -> Any:
        if isinstance(value, cls):
            return value
        if isinstance(value, dict):
            try:
                return from_json(cls, value)
            except TypeError as error:
                raise ValueError(str(error)) from error
        raise ValueError(f"expected a {cls.__name__} or an object, found {type(value).__name__}")

    return schemas.no_info_plain_validator_function(
        make,
        serialization=schemas.plain_serializer_function_ser_schema(_serialize, info_arg=True),
    )


def _serialize(value: Any, info: Any) -> Any:
    found = value.to_dict()
    if info.mode == "json":
        return json.loads(json.dumps(found, default=json_value))
    return found


def from_json(cls: Any, values: dict[str, Any]) -> Any:
    """Make an instance of what a JSON body says: text where JSON has no type of its own."""
    fields = cls.__plan__.fields
    given: dict[str, Any] = {}
    for name, value in values.items():
        field = fields.get(name)
        if field is None:
            given[name] = value
            continue
        if field.model is not None and isinstance(value, dict) and field.type is field.model:
            given[name] = from_json(field.model, value)
            continue
        if field.model is not None and isinstance(value, list) and field.is_list:
            given[name] = [from_json(field.model, item) if isinstance(item, dict) else item for item in value]
            continue
        spec = spec_of(field.type, (), field.nullable, cls, field.info)
        given[name] = _from_json(spec, value)
    return from_dict(cls, given)


def _from_json(spec: dict[str, Any], value: Any) -> Any:
    op, argument = spec["op"], spec["argument"]
    if op in (
        "datetime",
        "date",
        "object_id",
        "decimal",
        "enum",
        "set",
        "frozenset",
        "tuple_of",
    ) and not isinstance(value, (int, bool, type(None))):
        if op in ("set", "frozenset", "tuple_of"):
            value = [_from_json(argument, item) for item in value]
        convert = cast.caster(None, op, argument)
        return convert(value) if convert is not None else value
    if op == "list" and isinstance(value, list):
        return [_from_json(argument, item) for item in value]
    if op == "dict" and isinstance(value, dict):
        return {key: _from_json(argument, item) for key, item in value.items()}
    if op == "ref":
        return _from_json(argument[2], value)
    if op == "refs" and isinstance(value, list):
        return [_from_json(argument[2], item) for item in value]
    if op == "geo" and isinstance(value, dict):
        return restore(argument[0], value.get("coordinates"))  # type: ignore[arg-type]
    if op == "instance" and isinstance(value, str):
        convert = cast.caster(argument, op, argument)
        return convert(value) if convert is not None else value
    return value


_JSON_TYPES: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "base64"},
    "datetime": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "object_id": {"type": "string", "pattern": "^[0-9a-fA-F]{24}$"},
    "decimal": {"type": "string"},
    "none": {"type": "null"},
    "dict": {"type": "object"},
    "geo": {"type": "object"},
}


def pydantic_json_schema(cls: Any, handler: Any) -> dict[str, Any]:
    """Return a model as JSON schema, for OpenAPI."""
    del handler
    return _schema(cls, [])


def _schema(cls: Any, seen: list[Any]) -> dict[str, Any]:
    if cls in seen:
        return {"type": "object", "title": cls.__name__}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, field in cls.__plan__.fields.items():
        spec = spec_of(field.type, field.metadata, field.nullable, cls, field.info)
        properties[name] = _type(spec, [*seen, cls])
        if default_of(cls, field, spec)[0] == "required":
            required.append(name)
    schema: dict[str, Any] = {"type": "object", "title": cls.__name__, "properties": properties}
    if required:
        schema["required"] = required
    return schema


def _type(spec: dict[str, Any], seen: list[Any]) -> dict[str, Any]:
    op, argument = spec["op"], spec["argument"]
    schema: dict[str, Any] = dict(_JSON_TYPES.get(op, {}))
    if op in ("list", "set", "frozenset", "tuple_of"):
        schema = {"type": "array", "items": _type(argument, seen)}
    elif op == "tuple":
        schema = {"type": "array", "prefixItems": [_type(inner, seen) for inner in argument]}
    elif op == "dict":
        schema["additionalProperties"] = _type(argument, seen) or True
    elif op == "embedded":
        schema = _schema(argument, seen)
    elif op == "literal":
        schema = {"enum": list(argument)}
    elif op == "enum":
        schema = {"enum": [member.value for member in argument[0]]}
    elif op == "union":
        models = [_schema(model, seen) for _, model in argument[1]]
        schema = {"anyOf": models + [_type(other, seen) for other in argument[2]]}
    elif op == "ref":
        schema = _type(argument[2], seen)
    elif op == "refs":
        schema = {"type": "array", "items": _type(argument[2], seen)}
    names = {
        "ge": "minimum",
        "gt": "exclusiveMinimum",
        "le": "maximum",
        "lt": "exclusiveMaximum",
        "multiple_of": "multipleOf",
    }
    for kind, bound in spec["checks"]:
        if kind in names:
            schema[names[kind]] = bound
        elif kind in ("min_length", "max_length"):
            suffix = "Length" if op == "str" else "Items"
            schema[kind[:3] + suffix] = bound
        elif kind == "pattern":
            schema["pattern"] = bound.__self__.pattern
    return {"anyOf": [schema, {"type": "null"}]} if spec["nullable"] and schema else schema
