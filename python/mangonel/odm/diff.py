"""`mangonel odm diff`: compares a model with the collection's indexes, validator and a sample of documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mangonel import _core, bson
from mangonel.bson.errors import InvalidBSON
from mangonel.odm.errors import ValidationError
from mangonel.odm.model.codec import TOLERANT, raw_collection
from mangonel.odm.model.invalid import undecodable
from mangonel.odm.query.query import Query

SAMPLE = 1000


def differences(model: Any, sample: int = SAMPLE) -> Iterator[str]:
    """Yield a line for each difference between a model and its collection.

    Args:
        model: a document class.
        sample: how many random documents to check.
    """
    collection = model.collection()
    plan = model.sync_indexes(plan=True)
    for word, names in (
        ("missing", plan.create),
        ("different", plan.rebuild),
        ("not declared", plan.unknown),
    ):
        yield from (f"index {name}: {word}" for name in names)
    yield from _of_validator(model, collection)
    yield from _of_documents(model, collection, sample)


def _of_validator(model: Any, collection: Any) -> Iterator[str]:
    rows = collection.database.list_collections(filter={"name": collection.name}).to_list()
    if not rows:
        yield "collection: missing"
        return
    there = (rows[0].get("options") or {}).get("validator")
    if there is not None and _plain(there) != _plain({"$jsonSchema": model.json_schema()}):
        yield "validator: another than the model's schema"


def _plain(value: Any) -> Any:
    """Return a value that compares equal regardless of the order of keys."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _of_documents(model: Any, collection: Any, sample: int) -> Iterator[str]:
    faults: dict[str, int] = {}
    unknown: dict[str, int] = {}
    present: set[str] = set()
    seen = 0
    stages = [{"$match": Query(model).query}, {"$sample": {"size": sample}}]
    # Raw, since some have values that the driver cannot decode.
    for document in raw_collection(collection).aggregate(stages):
        seen += 1
        data = bytes(document.raw)
        try:
            present |= set(bson.decode(data, TOLERANT))
            found = model.from_bson(data)
            found.validate()
            extra = [*_core.odm_extra(found)]
        except (ValidationError, InvalidBSON) as error:
            told = error if isinstance(error, ValidationError) else undecodable(error, model, collection.name)
            for fault in told.errors():
                text = f"{fault['path']}: {fault['message']}"
                faults[text] = faults.get(text, 0) + 1
        else:
            for key in extra:
                unknown[key] = unknown.get(key, 0) + 1
    for texts, words in ((faults, "do not fit"), (unknown, "have this key, which no field has")):
        for text, count in sorted(texts.items()):
            yield f"{text}: {count} of {seen} documents {words}"
    if seen:
        keys = (field.key for field in model.__plan__.fields.values())
        yield from (f"$.{key}: in no document of {seen}" for key in keys if key not in present)
