"""Keeps the documents of tenants apart: in filters, in stored documents, in updates and in pipelines.

`Request` and the flows of `store` call it; a model without `__tenant__` never gets here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mangonel.odm._registry import models
from mangonel.odm.connections.tenants import ALL, tenant_or_all
from mangonel.odm.errors import NoTenant, UnsupportedOption, ValidationError, WrongTenant
from mangonel.odm.expressions.expr import query_of
from mangonel.odm.expressions.values import checked, dump
from mangonel.odm.model.belongs_to import held

# Stages of an update's pipeline that can drop a key, and those that set keys.
_DROPPING = ("$project", "$replaceRoot", "$replaceWith")
_SETTING = ("$set", "$addFields")
# Stages of an aggregation that must be its first.
FIRST = ("$geoNear", "$search", "$vectorSearch", "$collStats")


def key_of_tenant(model: Any) -> str:
    """Return the key of a model's tenant field."""
    return model.__plan__.fields[model.__tenant__].key


def tenant_filter(model: Any, is_exact: bool = False) -> dict[str, Any]:
    """Return the condition for the documents of this context's tenant; empty for all tenants, or a model without one.

    Args:
        model: any model.
        is_exact: a collation may apply, under which texts of two tenants could be equal.

    Raises:
        NoTenant: no tenant is set.
        ValidationError: the tenant does not fit the field.
    """
    if model.__tenant__ is None or (value := tenant_or_all(model)) is ALL:
        return {}
    stored, key = _stored(model, value), key_of_tenant(model)
    if isinstance(stored, str) and (is_exact or "collation" in model.__collection_options__):
        # A regular expression ignores the collation.
        return {key: {"$eq": stored, "$regex": rf"\A{re.escape(stored)}\z"}}
    return {key: stored}


def _stored(model: Any, value: Any) -> Any:
    field = model.__plan__.fields[model.__tenant__]
    if getattr(type(value), "__is_ref__", False):
        value = value.id
    stored = checked(model, field, value, False, field.key)
    if isinstance(stored, (Mapping, list, re.Pattern)) or hasattr(stored, "try_compile"):
        raise ValidationError(
            f"expected a tenant of {model.__name__} that is one value, got {type(stored).__name__} at $.{field.key}"
        )
    return stored


def narrowed(model: Any, query: dict[str, Any], is_exact: bool) -> dict[str, Any]:
    """Return a query for the documents of this context's tenant only.

    Raises:
        UnsupportedOption: it has the modifier `$query`, which makes the server ignore other conditions.
    """
    condition = tenant_filter(model, is_exact)
    if "$query" in query and condition:
        raise UnsupportedOption(
            f"find() of {model.__name__} cannot honour $query: the tenant's condition would be lost; use sort(), "
            "hint() and the like"
        )
    return query_of(condition, query)


def check_document(document: Any) -> None:
    """Refuse to store a document of another tenant.

    Raises:
        NoTenant: no tenant is set.
        WrongTenant: it has another tenant.
    """
    model = document.__class__
    value = tenant_or_all(model)
    if value is ALL:
        return
    field = model.__plan__.fields[model.__tenant__]
    try:
        own = held(document, field.name)
    except AttributeError:
        # The field was not loaded; the filter has the condition.
        return
    if dump(model, field, own) != _stored(model, value):
        raise WrongTenant(
            f"expected a {model.__name__} of the tenant {value!r}, got one of {own!r} at $.{field.key}; nothing was "
            "sent"
        )


def check_update(model: Any, update: Any) -> Any:
    """Return an update that cannot change the tenant of documents.

    Args:
        model: a model with `__tenant__`.
        update: an update document or a pipeline.

    Raises:
        NoTenant: no tenant is set.
        WrongTenant: it would change the tenant.
    """
    value = tenant_or_all(model)
    if value is ALL:
        return update
    key, stored = key_of_tenant(model), _stored(model, value)
    if not isinstance(update, list):
        for operator, group in update.items():
            for path, new in group.items():
                is_same = operator in ("$set", "$setOnInsert") and path == key and new == stored
                if (_is_at(path, key) and not is_same) or (operator == "$rename" and _is_at(new, key)):
                    raise _changing(model, operator)
        return update
    drops = False
    for stage in update:
        for name, given in stage.items():
            paths = given if name in _SETTING else [given] if isinstance(given, str) else given
            if name in (*_SETTING, "$unset") and any(_is_at(path, key) for path in paths):
                raise _changing(model, name)
            drops = drops or name in _DROPPING
    return [*update, {"$set": {key: {"$literal": stored}}}] if drops else update


def _is_at(path: Any, key: str) -> bool:
    return isinstance(path, str) and (path == key or path.startswith(f"{key}."))


def _changing(model: Any, operator: str) -> WrongTenant:
    return WrongTenant(
        f"cannot {operator} the tenant {model.__tenant__!r} of a {model.__name__}: use all_tenants() to move documents"
    )


def check_upsert(model: Any, query: Mapping[str, Any], *stored: Mapping[str, Any]) -> None:
    """Refuse an upsert that could insert a document without a tenant; only in `all_tenants()` is this possible.

    Raises:
        NoTenant: neither the query nor the update names the tenant.
    """
    key = key_of_tenant(model)
    if tenant_or_all(model) is ALL and not any(key in given for given in (query, *stored)):
        raise NoTenant(
            f"expected a tenant for the {model.__name__} that this may insert, got none at $.{key}"
        )


def check_shared(model: Any, others: list[Any]) -> None:
    """Refuse to delete a document that every tenant's documents may refer to, on behalf of one tenant.

    Args:
        model: a model without tenants.
        others: the models whose references to it have a rule.

    Raises:
        NoTenant: no tenant is set.
        WrongTenant: the rules concern the documents of every tenant.
    """
    for other in others:
        if other.__tenant__ is not None and tenant_or_all(other) is not ALL:
            raise WrongTenant(
                f"cannot delete a {model.__name__} for one tenant: {other.__name__} of every tenant may refer to it, "
                "with a delete rule; use all_tenants()"
            )


def restricted(stages: list[Any], model: Any = None) -> list[Any]:
    """Return a pipeline whose stages reach only this context's tenant in other collections too.

    Args:
        stages: the stages.
        model: the model whose documents they get; None: in a pipeline inside a stage.

    Raises:
        NoTenant: a stage reads documents of tenants, and no tenant is set.
        UnsupportedOption: a stage writes to the collection of tenants, or counts the documents of all.
    """
    kept = {other.__collection_name__(): other for other in models if _has_tenants(other)}
    if not kept:
        return stages
    return [_restricted(stage, kept, model) for stage in stages]


def _has_tenants(model: Any) -> bool:
    return bool(model.__is_document__ and model.__tenant__ is not None)


def _restricted(stage: Any, kept: dict[str, Any], model: Any) -> Any:
    if not isinstance(stage, Mapping) or len(stage) != 1:
        return stage
    ((name, given),) = stage.items()
    if name == "$facet":
        return {
            name: {key: [_restricted(part, kept, model) for part in inner] for key, inner in given.items()}
        }
    if name == "$unionWith":
        given = {"coll": given} if isinstance(given, str) else given
        return {name: _inner(given, kept, given.get("coll"))}
    if name == "$lookup":
        return {name: _inner(given, kept, given.get("from"))}
    if name == "$graphLookup":
        condition = _condition(kept, given.get("from"))
        if not condition:
            return stage
        return {
            name: {
                **given,
                "restrictSearchWithMatch": query_of(condition, given.get("restrictSearchWithMatch") or {}),
            }
        }
    target = kept.get(_written(given)) if name in ("$out", "$merge") else None
    if name == "$collStats" and model is not None and _has_tenants(model):
        target = model
    if target is not None and tenant_or_all(target) is not ALL:
        raise UnsupportedOption(
            f"aggregate() cannot honour {name} of {target.__collection_name__()!r}, which has the documents of all "
            "tenants: use all_tenants()"
        )
    return stage


def _written(given: Any) -> Any:
    """Return the name of the collection that `$out` or `$merge` writes to."""
    if isinstance(given, Mapping):
        given = given.get("into", given.get("coll"))
    return given.get("coll") if isinstance(given, Mapping) else given


def _condition(kept: dict[str, Any], name: Any) -> dict[str, Any]:
    other = kept.get(name) if isinstance(name, str) else None
    return {} if other is None else tenant_filter(other, True)


def _inner(given: Mapping[str, Any], kept: dict[str, Any], name: Any) -> dict[str, Any]:
    """Return the argument of `$lookup` or `$unionWith` with a pipeline that begins with the tenant's condition."""
    stages = [_restricted(stage, kept, None) for stage in given.get("pipeline") or ()]
    condition = _condition(kept, name)
    if condition:
        at = 1 if stages and next(iter(stages[0]), "") in FIRST else 0
        stages.insert(at, {"$match": condition})
    made = {**given}
    if stages or "pipeline" in given:
        made["pipeline"] = stages
    return made


def watched(model: Any, full_document: Any) -> list[Any]:
    """Return the stage that leaves out the changes of other tenants.

    A deletion event has no document. Only the shard key, or the document before the change, which a collection keeps
    on request, shows that it is the tenant's.

    Raises:
        NoTenant: no tenant is set.
        UnsupportedOption: without documents in its events, the tenant's changes are unknown.
    """
    condition = tenant_filter(model, True)
    if not condition:
        return []
    is_in_key = model.__tenant__ in model.__shard_key__
    if full_document is None and not is_in_key:
        raise UnsupportedOption(
            f"watch() of {model.__name__} cannot honour full_document=None: changes are known as the tenant's by the "
            "document"
        )

    def of(part: str) -> dict[str, Any]:
        return {f"{part}.{key}": value for key, value in condition.items()}

    after, before = of("fullDocument"), of("fullDocumentBeforeChange")
    known = [after, before, {"documentKey": None}, *([of("documentKey")] if is_in_key else [])]
    return [
        {
            "$match": {
                "$and": [
                    {"$or": known},
                    {"$or": [after, {"fullDocument": None}]},
                    {"$or": [before, {"fullDocumentBeforeChange": None}]},
                ]
            }
        }
    ]
