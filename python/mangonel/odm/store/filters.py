"""The queries for an instance's stored document: by id, by version, and by the values that an update depends on."""

from __future__ import annotations

from typing import Any

from mangonel import _core
from mangonel.bson import decode
from mangonel.odm.encryption.saving import findable_guard, key_filter
from mangonel.odm.expressions.expr import query_of
from mangonel.odm.expressions.values import dump
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.codec import TOLERANT
from mangonel.odm.model.encrypted import declared
from mangonel.odm.model.refs import stored_id
from mangonel.odm.query.tenants import check_document, tenant_filter


def id_filter(document: Any) -> dict[str, Any]:
    """Return the query for the stored document by its id, of this context's tenant."""
    query = {"_id": stored_id(document.id)}
    cls = document.__class__
    return query if cls.__tenant__ is None else query | tenant_filter(cls)


def guarded_filter(document: Any, where: Any = None) -> dict[str, Any]:
    """Return the query for the stored document, if it still has the values that the running update depends on."""
    query, guard = filter_of(document, where), _core.odm_guard(document)
    if guard is None:
        return query
    conditions = decode(guard, TOLERANT)
    if declared:
        conditions = findable_guard(document, conditions)
    return {"$and": [query, conditions]} if conditions else query


def filter_of(document: Any, where: Any = None) -> dict[str, Any]:
    """Return the query for the stored document, in the loaded version and of this context's tenant.

    Raises:
        WrongTenant: the document has another tenant.
    """
    query: dict[str, Any] = dict(_core.odm_filter(document))
    if document.__tenant__ is not None:
        check_document(document)
        query |= tenant_filter(document.__class__)
    if document.__shard_key__:
        query |= shard_filter(document)
    if declared:
        query |= key_filter(document)
    return query_of(query, where) if where is not None else query


def shard_filter(document: Any) -> dict[str, Any]:
    """Return the loaded fields of a document's shard key."""
    fields, loaded = document.__plan__.fields, set(_core.odm_loaded(document))
    return {
        fields[name].key: dump(document.__class__, fields[name], held(document, name))
        for name in document.__shard_key__
        if name in loaded and fields[name].key != "_id"
    }
