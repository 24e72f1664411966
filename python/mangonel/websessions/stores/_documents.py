"""Records as documents of MongoDB: conversion, and the meaning of errors and stored documents for a write."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mangonel import _core
from mangonel.websessions.errors import UsageError
from mangonel.websessions.record import Record
from mangonel.websessions.writes import has_write

__all__ = ["LOOK", "Documents", "Write", "date_of"]

UNAUTHORIZED = 13
INDEX_DIFFERS = (85, 86)

# The fields that show which writes made a record.
LOOK = {"v": 1, "w": 1}

log = logging.getLogger("mangonel.websessions")

EPOCH = datetime(1970, 1, 1)  # as the store's clients return times
SECOND = timedelta(seconds=1)

# The server is stepping down or shutting down: nothing was written, and another server may accept it.
MOVED = _core.RETRYABLE_CODES


def date_of(seconds: float) -> datetime:
    """Return seconds since the epoch as the server keeps them, in whole milliseconds."""
    return datetime.fromtimestamp(round(seconds * 1000) / 1000, UTC)


class Documents:
    """Converts records to documents and back; the same for both faces."""

    def __init__(self, collection: Any, *, durable: bool = False, documents: bool = False) -> None:
        from importlib import import_module

        # An application with PyMongo's client may share that one; the names are the same.
        self.is_peer = type(collection).__module__.partition(".")[0] == "pymongo"
        driver, types = ("pymongo", "bson") if self.is_peer else ("mangonel", "mangonel.bson")
        bson = import_module(types)
        CodecOptions = import_module(f"{types}.codec_options").CodecOptions  # noqa: N806
        errors = import_module(f"{driver}.errors")
        ReadPreference = import_module(f"{driver}.read_preferences").ReadPreference  # noqa: N806
        WriteConcern = import_module(f"{driver}.write_concern").WriteConcern  # noqa: N806

        if not durable and not collection.write_concern.acknowledged:
            raise UsageError(
                "expected a collection whose writes the server answers, since a lost one would log visitors out in "
                "silence, got w=0; pass collection.with_options(write_concern=WriteConcern(1))"
            )
        self.duplicate: type[Exception] = errors.DuplicateKeyError
        self.bulk_failure: type[Exception] = errors.BulkWriteError
        self.refusal: type[Exception] = errors.OperationFailure
        self.failures: tuple[type[Exception], ...] = (errors.AutoReconnect, errors.OperationFailure)
        self._hopeless: type[Exception] = errors.ServerSelectionTimeoutError
        # Times without a zone, in UTC: those with one make a call of Python out of each subtraction.
        options: Any = CodecOptions(tz_aware=False)
        concern = WriteConcern("majority", j=True) if durable else None
        base = collection.with_options(codec_options=options, read_preference=ReadPreference.PRIMARY)
        self.plain: Any = base.with_options(write_concern=concern) if concern else base
        self.sure: Any = self.plain if durable else base.with_options(write_concern=WriteConcern("majority"))
        self._decode: Any = bson.decode if documents else None
        self._encode: Any = bson.encode if documents else None
        operations = import_module(f"{driver}.operations")
        self.replace_one: Any = operations.ReplaceOne
        self.update_one: Any = operations.UpdateOne
        self._to_bytes: Any = bson.encode
        self._raw: Any = import_module(f"{types}.raw_bson").RawBSONDocument

    def ready(self, record: Record, expected: int) -> Write:
        """Return the write that stores a record over a version."""
        data: Any = record.data if self._decode is None or not record.data else self._decode(record.data)
        document = {
            "_id": record.key,
            "v": record.version,
            "d": data,
            "c": record.created,
            "i": record.issued,
            "e": date_of(record.expires),
            "l": record.deadline,
            "s": record.sid,
            "w": record.writes,
        }
        if record.user is not None:
            document["u"] = record.user
        if record.next is not None:
            document["n"] = record.next
        if record.prev is not None:
            document["p"] = record.prev
        if record.label is not None:
            document["b"] = record.label
        if record.epoch:
            document["r"] = record.epoch
        return Write(record, expected, document)

    def encoded(self, write: Write) -> Write:
        """Return the write encoded: an error in it is raised here, before it goes with other requests' writes."""
        return replace(write, document=self._raw(self._to_bytes(write.document)))

    def record(self, document: dict[str, Any]) -> Record:
        """Return the record of a document."""
        data = document["d"]
        if type(data) is not bytes:
            data = self._encode(data) if self._encode is not None else b""
        get = document.get
        return Record(
            document["_id"],
            data,
            document["v"],
            document["c"],
            (document["e"] - EPOCH) / SECOND,
            document["l"],
            get("u"),
            get("n"),
            get("p"),
            document["i"],
            document["s"],
            get("b"),
            int(get("r", 0)),  # not the driver's Int64, which nothing but BSON encodes
            document["w"],
        )

    def arrived(self, write: Write, document: dict[str, Any] | None) -> bool:
        """Return whether a write is among those that made the stored record; `document` has the fields of `LOOK`.

        Raises:
            StoreError: too many writes followed to tell.
        """
        if document is None:
            return False
        found = replace(write.record, version=document["v"], writes=document["w"])
        return has_write(found, write.record)

    def may_repeat(self, error: Exception) -> bool:
        """Return whether a write with this error should be sent again."""
        if isinstance(error, self._hopeless | self.bulk_failure):
            return False
        code = getattr(error, "code", None)
        return code is None or code in MOVED

    def judge_setup(self, error: Exception) -> None:
        """Report what is missing if the indexes could not be created; raise unexpected errors."""
        if getattr(error, "code", None) not in (UNAUTHORIZED, *INDEX_DIFFERS):
            raise error
        log.warning(
            "cannot make the indexes of %s: %s; without the index on e, nothing that expired is removed: "
            "run `mangonel websessions setup URL` once as one who may",
            self.plain.name,
            error,
        )


class Write(Struct, frozen=True, gc=False):
    """A record, the version that must be stored before, and the record's document."""

    record: Record
    expected: int
    document: Any
