"""Describes an invalid stored document: its identity, and every field that does not fit its model."""

from __future__ import annotations

from typing import Any

from mangonel import _core, bson
from mangonel.bson.errors import InvalidBSON
from mangonel.errors import PyMongoError
from mangonel.odm.errors import ValidationError
from mangonel.odm.model.codec import TOLERANT, loaded_id


def located(error: ValidationError, model: Any, collection: str) -> ValidationError:
    """Return the error with the collection, the `_id` and all faults of the document that could not be read."""
    data = getattr(error, "document", None)
    if not isinstance(data, bytes) or error.collection is not None:
        return error
    error.collection = collection
    error.id = id_of(data)
    first = str(error)
    error.faults = [first, *(fault for fault in _faults(model, data) if fault != first)]
    more = f"; also {'; '.join(error.faults[1:])}" if len(error.faults) > 1 else ""
    error.args = (f"{first} of the {model.__name__} {error.id!r} in {collection!r}{more}",)
    return error


def undecodable(error: Exception, model: Any, collection: str, data: bytes | None = None) -> ValidationError:
    """Return the error for a value that the driver cannot decode.

    Args:
        error: the driver's error.
        model: the model whose documents were read.
        collection: the collection's name.
        data: the document; None: it is the result of an aggregation, which is not stored.
    """
    message = str(error).partition(": a datetime holds")[0]
    if data is None:
        made = ValidationError(f"{message} of a result of {model.__name__} in {collection!r}")
        made.collection, made.faults = collection, [message]
        return made
    made = ValidationError(message)
    made.document = data  # type: ignore[attr-defined]  # as the core does
    return located(made, model, collection)


def of_pending(error: Exception, model: Any, data: bytes) -> Exception:
    """Return the error of a field that is read later than its document, with the place of the document.

    Args:
        error: why the field cannot be read.
        model: the model of the document.
        data: the document.
    """
    if isinstance(error, ValidationError):
        error.document = data  # type: ignore[attr-defined]  # as the core does
        return located(error, model, model.__collection_name__())
    if isinstance(error, InvalidBSON):
        return undecodable(error, model, model.__collection_name__(), data)
    return error


def id_of(data: bytes) -> Any:
    """Return the `_id` of a document that may be damaged; None if it cannot be read."""
    try:
        return loaded_id(bson.decode(data, TOLERANT).get("_id"))
    except PyMongoError:
        return None


def _faults(model: Any, data: bytes) -> list[str]:
    """Return each field's fault, found by reading the field alone."""
    try:
        document = bson.decode(data, TOLERANT)
    except PyMongoError:
        return []
    faults: list[str] = []
    for index, field in enumerate(model.__plan__.fields.values()):
        if field.key not in document:
            continue
        try:
            alone = bson.encode({field.key: document[field.key]}, codec_options=TOLERANT)
            _core.odm_decode_all(model.__model__, alone, False, [index])
        except ValidationError as error:
            faults.append(str(error))
        except Exception:
            # Raised by a program's hook that expects the whole document, or for a value that only a server makes.
            continue
    return faults
