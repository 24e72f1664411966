"""Records as documents of MongoDB: conversion, and whether a write arrived, judged by errors and stored documents."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mangonel import _core
from mangonel.websessions.errors import UsageError
from mangonel.websessions.record import Record
from mangonel.websessions.writes import has_write

UNAUTHORIZED = 13
INDEX_DIFFERS = (85, 86)

# The fields that show which writes made a record.
LOOK = {"v": 1, "w": 1}

log = logging.getLogger("mangonel.websessions")

EPOCH = datetime(1970, 1, 1)  # as the store's clients return times
SECOND = timedelta(seconds=1)

# The server is stepping down or shutting down: nothing was written, and another server may accept it.
MOVED = _core.RETRYABLE_CODES


# Converts seconds since the epoch; a record's are whole milliseconds, as the server keeps times.
date_of = partial(datetime.fromtimestamp, tz=UTC)


class Documents:
    """Converts records to documents and back; the same for both faces."""

    def __init__(self, collection: Any, *, durable: bool = False, documents: bool = False) -> None:
        from importlib import import_module

        # An application may share its PyMongo client with the store; PyMongo's names are the same.
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
        # Times without a zone, in UTC: with a zone, each subtraction calls Python code.
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

    def document(self, record: Record) -> dict[str, Any]:
        """Return the document of a record."""
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
        return document

    def write(self, record: Record, expected: int) -> Write:
        """Return the write of a record, encoded, so that an encoding error is raised before it joins other writes."""
        return Write(record, expected, self._raw(self._to_bytes(self.document(record))))

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

    def arrived(self, record: Record, document: dict[str, Any] | None) -> bool:
        """Return whether the write of a record is among those that made the stored one, by its fields in `LOOK`.

        Raises:
            StoreError: too many writes followed to tell.
        """
        if document is None:
            return False
        return has_write(replace(record, version=document["v"], writes=document["w"]), record)

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
            "run `mangonel websessions setup URL` once as a user who may",
            self.plain.name,
            error,
        )


class Write(Struct, frozen=True, gc=False):
    """A record, the version that must be stored before, and the record's document, encoded."""

    record: Record
    expected: int
    document: Any
