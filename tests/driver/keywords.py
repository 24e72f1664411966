"""Each public method that sends commands, what it needs, and the values that each of its keywords is tried with.

The methods' own keywords are read from PyMongo's signatures; those of `**kwargs` are listed here.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import bson as peer_bson
import pymongo
import pymongo.collection
import pymongo.database

import mangonel
import mangonel.bson
import mangonel.bson.dbref
import mangonel.bson.raw_bson
import mangonel.bson.regex
import mangonel.bson.son
import mangonel.collation
import mangonel.read_concern
import mangonel.read_preferences

PACKAGES: dict[str, tuple[ModuleType, ModuleType]] = {
    "mangonel": (mangonel, mangonel.bson),
    "pymongo": (pymongo, peer_bson),
}
OWNERS = {
    "collection": pymongo.collection.Collection,
    "database": pymongo.database.Database,
    "client": pymongo.MongoClient,
}


class Made:
    """A value for which each driver has its own class."""

    def __init__(self, name: str, make: Callable[[Any, Any], Any]) -> None:
        self.name, self.make = name, make

    def __repr__(self) -> str:
        return self.name


def value_for(value: Any, package: str) -> Any:
    """Return a value of this driver, which the call may change."""
    return value.make(*PACKAGES[package]) if isinstance(value, Made) else copy.deepcopy(value)


PLAIN: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, 1.5, 2.0, "", "x", "a.b", "$x", b"x", [], ["x"], [1], [("a", 1)],
    [("a", -1), ("b", "text")], (), ("a", 1), {}, {"a": 1}, {"$set": {"a": 1}}, [{"$match": {}}], [{"$set": {"a": 1}}],
    [{}], [None], {"locale": "en"}, {"x": {"y": 1}},
]  # fmt: skip
MADE = [
    Made("Int64", lambda package, bson: bson.Int64(5)),
    Made("SON", lambda package, bson: bson.son.SON([("a", 1)])),
    Made("ObjectId", lambda package, bson: bson.ObjectId(b"0" * 12)),
    Made("Collation", lambda package, bson: package.collation.Collation("fr")),
    Made("Regex", lambda package, bson: bson.regex.Regex("a")),
    Made("object", lambda package, bson: object()),
    Made("iterator", lambda package, bson: iter([{"a": 1}])),
    Made("set", lambda package, bson: {"a"}),
    Made("RawBSONDocument", lambda package, bson: bson.raw_bson.RawBSONDocument(bson.encode({"_id": 1}))),
    Made("WriteConcern", lambda package, bson: package.write_concern.WriteConcern(1)),
    Made("read preference", lambda package, bson: package.ReadPreference.SECONDARY_PREFERRED),
    Made("ReadConcern", lambda package, bson: package.read_concern.ReadConcern("local")),
    Made("CodecOptions", lambda package, bson: bson.codec_options.CodecOptions(bson.son.SON)),
    Made("IndexModel", lambda package, bson: [package.IndexModel("a")]),
    Made(
        "writes",
        lambda package, bson: [package.InsertOne({"_id": 1}), package.UpdateOne({}, {"$set": {"a": 1}})],
    ),
    Made("class", lambda package, bson: dict),
]
VALUES = PLAIN + MADE
# Both drivers refuse values without a BSON type, but perhaps at different moments.
FEW: list[Any] = [None, True, 0, 1, "", "x", [], {}, {"a": 1}, MADE[4]]

_WRITES = MADE[14]
_UPDATE = {"$set": {"b": 1}}
_FIND = (
    "filter projection skip limit no_cursor_timeout cursor_type sort allow_partial_results oplog_replay batch_size "
    "collation hint max_scan max_time_ms max min return_key show_record_id snapshot comment session allow_disk_use let "
    "nope"
)
_FIND_AND_MODIFY = "collation maxTimeMS bypassDocumentValidation upsert fields new nope"
_AGGREGATE = "batchSize maxTimeMS allowDiskUse collation hint bypassDocumentValidation maxAwaitTimeMS nope"


@dataclass
class Method:
    """How to call a method: values for its first arguments, and the keywords that `**kwargs` may hold."""

    owner: str
    name: str
    first: tuple[Any, ...] = ()
    more: str = ""
    takes_session: bool = True
    positional: list[str] = field(init=False)
    keywords: list[str] = field(init=False)

    def __post_init__(self) -> None:
        parameters = list(inspect.signature(getattr(OWNERS[self.owner], self.name)).parameters.values())[1:]
        named = [each.name for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
        self.positional = named[: len(self.first)] if named else []
        self.keywords = list(dict.fromkeys([*named, *self.more.split()]))

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}"


METHODS = [
    Method("collection", "find_one", more=_FIND),
    Method("collection", "find", more=_FIND),
    Method("collection", "find_raw_batches", more=_FIND),
    Method("collection", "insert_one", ({"_id": 1},)),
    Method("collection", "insert_many", ([{"_id": 1}, {"_id": 2}],)),
    Method("collection", "replace_one", ({}, {"b": 1})),
    Method("collection", "update_one", ({}, _UPDATE)),
    Method("collection", "update_many", ({}, _UPDATE)),
    Method("collection", "delete_one", ({},)),
    Method("collection", "delete_many", ({},)),
    Method("collection", "find_one_and_delete", ({},), _FIND_AND_MODIFY),
    Method("collection", "find_one_and_replace", ({}, {"b": 1}), _FIND_AND_MODIFY),
    Method("collection", "find_one_and_update", ({}, _UPDATE), _FIND_AND_MODIFY),
    Method("collection", "bulk_write", (_WRITES,)),
    Method("collection", "aggregate", ([],), _AGGREGATE),
    Method("collection", "count_documents", ({},), "skip limit maxTimeMS collation hint nope"),
    Method("collection", "estimated_document_count", (), "maxTimeMS nope", takes_session=False),
    Method("collection", "distinct", ("a",), "maxTimeMS collation nope"),
    Method(
        "collection",
        "create_index",
        ("a",),
        "name unique sparse expireAfterSeconds partialFilterExpression collation hidden maxTimeMS background "
        "commitQuorum bucketSize wildcardProjection nope",
    ),
    Method(
        "collection",
        "create_indexes",
        (Made("models", lambda package, bson: [package.IndexModel("a", unique=True)]),),
        "maxTimeMS commitQuorum nope",
    ),
    Method("collection", "drop_index", ("a_1",), "maxTimeMS writeConcern nope"),
    Method("collection", "drop_indexes", (), "maxTimeMS"),
    Method("collection", "list_indexes"),
    Method("collection", "index_information"),
    Method("collection", "rename", ("other",), "dropTarget maxTimeMS nope"),
    Method("collection", "drop"),
    Method("collection", "options"),
    Method("collection", "with_options", takes_session=False),
    Method("collection", "watch"),
    Method("collection", "create_search_index", ({"definition": {"a": 1}},)),
    Method("collection", "drop_search_index", ("n",)),
    Method("collection", "update_search_index", ("n", {"a": 1})),
    Method("collection", "list_search_indexes"),
    Method("database", "command", ("ping",), "maxTimeMS readConcern nope"),
    Method("database", "cursor_command", ({"find": "things"},), "batchSize limit nope"),
    Method("database", "aggregate", ([],), _AGGREGATE),
    Method(
        "database",
        "create_collection",
        ("other",),
        "capped size max collation validator validationLevel validationAction viewOn pipeline timeseries "
        "clusteredIndex expireAfterSeconds encryptedFields changeStreamPreAndPostImages nope",
    ),
    Method("database", "drop_collection", ("other",)),
    Method("database", "get_collection", ("other",), takes_session=False),
    Method("database", "with_options", takes_session=False),
    Method("database", "list_collections", (), "maxTimeMS nope"),
    Method("database", "list_collection_names", (), "nameOnly authorizedCollections nope"),
    Method("database", "validate_collection", ("things",)),
    Method("database", "dereference", (Made("DBRef", lambda package, bson: bson.dbref.DBRef("things", 1)),)),
    Method("database", "watch"),
    Method("client", "list_databases", (), "filter nameOnly maxTimeMS nope"),
    Method("client", "list_database_names", (), "filter"),
    Method("client", "drop_database", ("db",)),
    Method("client", "get_database", ("db",), takes_session=False),
    Method("client", "get_default_database", ("db",), takes_session=False),
    Method("client", "server_info"),
    Method("client", "start_session", takes_session=False),
    Method("client", "watch"),
]
