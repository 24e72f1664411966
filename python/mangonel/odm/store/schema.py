"""The indexes that models declare, and a model's `$jsonSchema`. Nothing is created without a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mangonel._shared.collection.encrypted import TAGS
from mangonel.errors import OperationFailure
from mangonel.odm.encryption.saving import is_queryable
from mangonel.odm.expressions.expr import query_of
from mangonel.odm.expressions.keys import key_of
from mangonel.odm.expressions.orders import Order
from mangonel.odm.model.fields import Index
from mangonel.odm.model.hooks import embedded_in_field
from mangonel.odm.model.specs import default_of, spec_of
from mangonel.operations import IndexModel

# The key that a migration sets in each changed document until all are changed.
MARK = "_migrated"


@dataclass(slots=True)
class IndexPlan:
    """The plan of `sync_indexes`: names of indexes to create, rebuild, drop and keep.

    Attributes:
        create: declared and missing.
        rebuild: declared with other keys or options than the existing ones.
        drop: existing, not declared, and dropped on request.
        unknown: existing and not declared.
        keep: as declared.
    """

    create: list[str] = field(default_factory=list)
    rebuild: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    keep: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.create or self.rebuild or self.drop)


_INDEX_NOT_FOUND = 27
_LANGUAGES = ("default_language", "language_override")
# Fields in the server's description of an index that do not define it, or that are compared by themselves.
_NOT_COMPARED = {
    "key",
    "name",
    "collation",
    "v",
    "ns",
    "background",
    "textIndexVersion",
    "2dsphereIndexVersion",
    "weights",
    *_LANGUAGES,
}


def declared_indexes(cls: Any) -> dict[str, dict[str, Any]]:
    """Return the declared indexes by name, each with `key` and options in the server's form.

    Raises:
        TypeError: two of them have one name.
    """
    found: dict[str, dict[str, Any]] = {}
    family = [cls, *(model for model in cls.__tagged__() if model is not cls)]
    for model in family:
        _field_indexes(model, "", found, [])
        for index in model.__indexes__:
            _declare(found, _keys_of(model, index), _options_of(index))
    return found


def _field_indexes(model: Any, prefix: str, found: dict[str, dict[str, Any]], seen: list[Any]) -> None:
    if model in seen:
        return
    for resolved in model.__plan__.fields.values():
        path = prefix + resolved.key
        for index in resolved.indexes:
            _declare(found, {path: index.kind}, index.options)
        for embedded in embedded_in_field(resolved):
            for one in dict.fromkeys((embedded, *embedded.__tagged__())):
                _field_indexes(one, path + ".", found, [*seen, model])


def _keys_of(model: Any, index: Index) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for item in index.fields:
        kind: Any = index.kind
        if isinstance(item, Order):
            item, kind = item.field, item.direction
        if isinstance(item, str) and item[:1] == "-":
            item, kind = item[1:], -1
        keys[item if item == "$**" else key_of(item, model)] = kind
    return keys


def _options_of(index: Index) -> dict[str, Any]:
    options = dict(index.options)
    if index.partial is not None:
        options["partialFilterExpression"] = query_of(index.partial)
    return options


def _declare(found: dict[str, dict[str, Any]], keys: dict[str, Any], options: dict[str, Any]) -> None:
    name = options.get("name") or "_".join(f"{key}_{kind}" for key, kind in keys.items())
    made = {**options, "key": keys, "name": name}
    if (known := found.setdefault(name, made)) != made or [*known["key"]] != [*keys]:
        raise TypeError(f"expected one index with the name {name!r}, got {known} and {made}")


async def sync_indexes_flow(cls: Any, collection: Any, is_plan: bool, drop: bool) -> IndexPlan:
    """Compare the declared indexes with the existing ones, and apply the difference."""
    port = collection._port
    declared = declared_indexes(cls)
    present = _by_name(await port.call(collection.index_information))
    plan = IndexPlan()
    # An index without a collation gets that of its collection, which the index of `_id` tells.
    inherited = present.get("_id_", cls.__collection_options__).get("collation")
    for name, index in declared.items():
        wanted = {"collation": inherited, **index}
        there = present.get(name) or next(
            (other for other in present.values() if _is_same(other, wanted)), None
        )
        if there is None:
            plan.create.append(name)
        elif _is_same(there, wanted):
            plan.keep.append(there["name"])
        else:
            plan.rebuild.append(name)
    known = {*plan.keep, *plan.rebuild, "_id_"}
    plan.unknown = [name for name, index in present.items() if name not in known and TAGS not in index["key"]]
    if drop:
        plan.drop = list(plan.unknown)
    if is_plan:
        return plan
    for name in [*plan.drop, *plan.rebuild]:
        try:
            await port.call(collection.drop_index, name)
        except OperationFailure as error:
            # Another program that syncs the same indexes has dropped it.
            if error.code != _INDEX_NOT_FOUND:
                raise
    models = []
    for name in [*plan.rebuild, *plan.create]:
        keys = declared[name].pop("key")
        models.append(IndexModel([*keys.items()], **declared[name]))
    if models:
        await port.call(collection.create_indexes, models)
    return plan


def _is_same(there: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether an existing index is the declared one; the server adds defaults to both collation and language."""
    collation, given = _collation(there), _collation(wanted)
    return (
        _shape(there) == _shape(wanted)
        and bool(collation) == bool(given)
        and all(collation.get(name) == value for name, value in given.items())
        and all(there.get(name) == wanted[name] for name in _LANGUAGES if name in wanted)
    )


def _collation(index: dict[str, Any]) -> dict[str, Any]:
    given = index.get("collation") or {}
    given = getattr(given, "document", given)
    if given.get("locale", "simple") == "simple":
        return {}
    # Other settings have defaults that depend on the language.
    return {"strength": 3, "caseLevel": False, "numericOrdering": False, **given}


def _shape(index: dict[str, Any]) -> Any:
    """Return the defining parts of an index, for comparison."""
    keys = index["key"]
    if any(kind == "text" for kind in keys.values()) or "_fts" in keys:
        # A declaration may give weights to some of its fields; the server lists the weight of each.
        weights = dict.fromkeys((key for key, kind in keys.items() if kind == "text" and key != "_fts"), 1)
        weights.update(index.get("weights") or {})
        others = [
            (key, kind) for key, kind in keys.items() if kind != "text" and key not in ("_fts", "_ftsx")
        ]
        return "text", sorted(weights.items()), others, _compared(index)
    return [(key, kind) for key, kind in keys.items()], _compared(index)


def _compared(index: dict[str, Any]) -> dict[str, Any]:
    # With 0, `expireAfterSeconds` takes effect.
    return {
        name: value
        for name, value in index.items()
        if name not in _NOT_COMPARED and (value or (value == 0 and value is not False))
    }


def _by_name(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: {**index, "name": name, "key": dict(index["key"])} for name, index in found.items()}


async def create_collection_flow(cls: Any, collection: Any, validate: bool) -> None:
    """Create a model's collection."""
    options = dict(cls.__collection_options__)
    if cls.__view__ is not None:
        source, pipeline = cls.__view__
        options |= {"viewOn": source.__collection_name__(), "pipeline": list(pipeline)}
        if validate:
            raise ValueError(f"cannot validate {cls.__name__}: it is a view, which stores nothing")
    if validate:
        options["validator"] = {"$jsonSchema": bson_schema(cls)}
    if is_queryable(collection) and "encryptedFields" not in options:
        from mangonel.odm.encryption.encrypting_port import encrypted_fields_flow

        options["encryptedFields"] = await encrypted_fields_flow(cls, collection)
    await collection._port.call(collection.database.create_collection, collection.name, **options)


async def shard_flow(cls: Any, collection: Any) -> None:
    """Shard a model's collection."""
    if not cls.__shard_key__:
        raise ValueError(f"expected a __shard_key__ in {cls.__name__}, got none")
    keys = {key_of(name, cls): kind for name, kind in cls.__shard_key__.items()}
    admin = collection.database.client["admin"]
    command = {"shardCollection": f"{collection.database.name}.{collection.name}", "key": keys}
    await collection._port.call(admin.command, command)


# The schema.

_BSON_TYPES: dict[str, Any] = {
    "str": "string",
    "int": ["int", "long"],
    "float": ["double", "int", "long"],
    "bool": "bool",
    "bytes": "binData",
    "datetime": "date",
    "date": "date",
    "object_id": "objectId",
    "decimal": "decimal",
    "none": "null",
    "list": "array",
    "set": "array",
    "frozenset": "array",
    "tuple": "array",
    "tuple_of": "array",
    "refs": "array",
    "dict": "object",
    "embedded": "object",
    "geo": "object",
}
_BOUNDS = {
    "ge": ("minimum", {}),
    "gt": ("minimum", {"exclusiveMinimum": True}),
    "le": ("maximum", {}),
    "lt": ("maximum", {"exclusiveMaximum": True}),
    "multiple_of": ("multipleOf", {}),
}


def bson_schema(cls: Any) -> dict[str, Any]:
    """Return a model as the server's `$jsonSchema`."""
    return _family_schema(cls, [])


def _family_schema(cls: Any, seen: list[Any]) -> dict[str, Any]:
    """Return the schema of a model's documents, which may be of another class of its family."""
    family = dict.fromkeys((cls, *cls.__tagged__()))
    if cls.__unknown__ != "forbid" or len(family) == 1:
        # The schema allows further keys, so documents of the other classes fit as well.
        return _model_schema(cls, seen)
    return {"anyOf": [_model_schema(model, seen) for model in family]}


def _model_schema(cls: Any, seen: list[Any]) -> dict[str, Any]:
    if cls in seen:
        return {"bsonType": "object"}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for resolved in cls.__plan__.fields.values():
        spec = spec_of(resolved.type, resolved.metadata, resolved.nullable, cls, resolved.info)
        properties[resolved.key] = _type_schema(spec, [*seen, cls])
        if default_of(resolved, spec)[0] == "required":
            required.append(resolved.key)
    schema: dict[str, Any] = {"bsonType": "object", "properties": properties}
    if required:
        schema["required"] = required
    if cls.__unknown__ == "forbid":
        schema["additionalProperties"] = False
        if cls.__tag_value__ is not None:
            properties[cls.__tag__] = {"enum": [cls.__tag_value__]}
        if cls.__is_document__:
            properties[MARK] = {"bsonType": "string"}
    return schema


def _type_schema(spec: dict[str, Any], seen: list[Any]) -> dict[str, Any]:
    op, argument = spec["op"], spec["argument"]
    if spec["encrypted"] is not None:
        # The server can check that the value is encrypted, but not its original type.
        return _nullable({"encrypt": {}}) if spec["nullable"] else {"encrypt": {}}
    schema: dict[str, Any] = {}
    if op in _BSON_TYPES:
        schema["bsonType"] = _BSON_TYPES[op]
    if op in ("list", "set", "frozenset", "tuple_of"):
        schema["items"] = _type_schema(argument, seen)
        if op in ("set", "frozenset"):
            schema["uniqueItems"] = True
    elif op == "tuple":
        schema.update(
            items=[_type_schema(inner, seen) for inner in argument],
            minItems=len(argument),
            maxItems=len(argument),
        )
    elif op == "dict":
        inner = _type_schema(argument, seen)
        if inner:
            schema["additionalProperties"] = inner
    elif op == "embedded":
        schema = _family_schema(argument, seen)
    elif op == "literal":
        schema["enum"] = list(argument)
    elif op == "enum":
        schema["enum"] = [member.value for member in argument[0]]
    elif op == "union":
        schema["anyOf"] = [_model_schema(model, seen) for _, model in argument[1]] + [
            _type_schema(other, seen) for other in argument[2]
        ]
    elif op == "ref":
        schema = _type_schema(argument[2], seen)
    elif op == "refs":
        schema["items"] = _type_schema(argument[2], seen)
    elif op == "geo":
        schema["properties"] = {"type": {"enum": [argument[1]]}, "coordinates": {"bsonType": "array"}}
        schema["required"] = ["type", "coordinates"]
    for kind, bound in spec["checks"]:
        _constrain(schema, op, kind, bound)
    return _nullable(schema) if spec["nullable"] else schema


def _constrain(schema: dict[str, Any], op: str, kind: str, bound: Any) -> None:
    if kind in _BOUNDS and isinstance(bound, (int, float)):
        name, more = _BOUNDS[kind]
        schema[name] = bound
        schema.update(more)
    elif kind in ("min_length", "max_length"):
        names = ("minLength", "maxLength") if op == "str" else ("minItems", "maxItems")
        if op in ("str", "list", "set", "frozenset", "tuple_of"):
            schema[names[kind == "max_length"]] = bound
    elif kind == "pattern":
        schema["pattern"] = bound.__self__.pattern


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if not schema:
        return schema
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    kind = schema.get("bsonType")
    if kind is None:
        return {"anyOf": [schema, {"bsonType": "null"}]}
    return {**schema, "bsonType": [*(kind if isinstance(kind, list) else [kind]), "null"]}
