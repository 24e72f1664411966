"""Messages that programs and their tests match on begin as PyMongo's do."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

Case = Callable[[Any], object]


class Unknown:
    def __repr__(self) -> str:
        return "unknown"


TEXTS: dict[str, tuple[Case, str]] = {
    "a length below the least": (lambda d: d.bson.decode_all(b"\4\0\0\0\0"), "invalid message size"),
    "a length without its bytes": (
        lambda d: d.bson.decode_all(b"\5\0\0\0"),
        "not enough data for a BSON document",
    ),
    "a negative length": (lambda d: d.bson.decode(b"\xff\xff\xff\xff\1"), "invalid message size"),
    "a document cut off": (lambda d: d.bson.decode_all(b"\x0c\0\0\0\x10a\0"), "objsize too large"),
    "a document without its end": (lambda d: d.bson.decode(b"\5\0\0\0\1"), "bad eoo"),
    "a string longer than its document": (
        lambda d: d.bson.decode(b"\x0d\0\0\0\2a\0\x09\0\0\0\5\0"),
        "invalid length or type code",
    ),
    "an unknown type in an array": (
        lambda d: d.bson.decode(b"\x16\0\0\0\4foo\0\x0c\0\0\0\x140\0\1\0\0\0\0\0"),
        r"Detected unknown BSON type b'\x14' for fieldname 'foo'",
    ),
    "an object of no BSON type": (
        lambda d: d.bson.encode({"t": {"q": Unknown()}}),
        "Invalid document: cannot encode object: unknown, of type: <class",
    ),
    "a key that is no string": (
        lambda d: d.bson.encode({1: 2}),
        "Invalid document: documents must have only string keys, key was 1",
    ),
    "a key with a NUL": (
        lambda d: d.bson.encode({"a\0": 2}),
        "Invalid document: Key names must not contain the NULL byte",
    ),
    "a key with a dot": (
        lambda d: d.bson.encode({"a.b": 2}, check_keys=True),
        "Invalid document: key 'a.b' must not contain '.'",
    ),
    "an int of nine bytes": (
        lambda d: d.bson.encode({"a": 2**64}),
        "MongoDB can only handle up to 8-byte ints",
    ),
    "an ObjectId of one letter": (lambda d: d.bson.ObjectId("x"), "'x' is not a valid ObjectId"),
    "a read preference that is none": (
        lambda d: d.client_session.TransactionOptions(read_preference={}),
        "{} is not valid for read_preference",
    ),
    "a commit time that is text": (
        lambda d: d.client_session.TransactionOptions(max_commit_time_ms="1"),
        "max_commit_time_ms must be an integer or None, not <class 'str'>",
    ),
    "a port out of range": (
        lambda d: d.uri_parser.parse_uri("mongodb://localhost:65536"),
        "Port must be an integer between 0 and 65535",
    ),
    "a port of letters": (
        lambda d: d.uri_parser.parse_uri("mongodb://user:PASS /@localhost:27017"),
        "Port contains non-digit characters. Hint: username and password must be escaped",
    ),
    "a port with a space": (
        lambda d: d.uri_parser.parse_uri("mongodb://localhost:27017 "),
        "Port contains whitespace character: ' '",
    ),
    "another scheme": (
        lambda d: d.uri_parser.parse_uri("http://localhost"),
        "Invalid URI scheme: URI must begin with 'mongodb://' or 'mongodb+srv://'",
    ),
    "no host": (lambda d: d.uri_parser.parse_uri("mongodb://"), "Must provide at least one hostname or IP"),
    "properties without a colon": (
        lambda d: d.uri_parser.parse_uri(
            "mongodb://u:p@h/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN-t"
        ),
        "Malformed auth mechanism properties",
    ),
    "an address for the name of SRV records": (
        lambda d: d.uri_parser.parse_uri("mongodb+srv://127.0.0.1"),
        "Invalid URI host: an IP address is not a valid hostname for 'mongodb+srv://'",
    ),
    "an integer option with a fraction": (
        lambda d: d.client(maxStalenessSeconds=1.5, readPreference="nearest"),
        "Wrong type for maxStalenessSeconds, value must be an integer, not <class 'float'>",
    ),
    "a database's name with a space": (
        lambda d: d.client()["a b"],
        "database names cannot contain the character ' '",
    ),
    "a collection that is called": (
        lambda d: d.client().a.b(),
        "'Collection' object is not callable. If you meant to call the 'b' method on a 'Database' object it is"
        " failing because no such method exists.",
    ),
    "a collection as a condition": (
        lambda d: bool(d.client().a.b),
        "Collection objects do not implement truth value testing or bool(). Please compare with None instead:"
        " collection is not None",
    ),
    "an update without an operator": (
        lambda d: d.client().a.b.update_one({}, {"x": 1}),
        "update only works with $ operators",
    ),
    "a replacement with an operator": (
        lambda d: d.client().a.b.replace_one({}, {"$x": 1}),
        "replacement can not include $ operators",
    ),
    "no documents": (lambda d: d.client().a.b.insert_many([]), "documents must be a non-empty list"),
    "no writes": (lambda d: d.client().a.b.bulk_write([]), "No operations to execute"),
    "a write that is none": (lambda d: d.client().a.b.bulk_write([5]), "5 is not a valid request"),
    "a limit that is text": (
        lambda d: d.client().a.b.find().limit("x"),
        "limit must be an integer, not <class 'str'>",
    ),
    "a sort that is a number": (
        lambda d: d.client().a.b.find().sort(5),
        "if no direction is specified, key_or_list must be an instance of list, not <class 'int'>",
    ),
    "no sort": (lambda d: d.client().a.b.find().sort([]), "key_or_list must not be empty"),
    "a journal without an answer": (
        lambda d: d.write_concern.WriteConcern(w=0, j=True),
        "Cannot set w to 0 and j to True",
    ),
    "tags that are a number": (
        lambda d: d.read_preferences.Secondary(tag_sets=5),
        "Tag sets 5 invalid, must be a sequence",
    ),
}


def driver(package: str, bson: str) -> Any:
    modules = {
        name: importlib.import_module(f"{package}.{name}")
        for name in ("client_session", "read_preferences", "uri_parser", "write_concern")
    }
    top = importlib.import_module(package)
    client = lambda **options: top.MongoClient("localhost", 1, connect=False, **options)  # noqa: E731
    return SimpleNamespace(bson=importlib.import_module(bson), client=client, **modules)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("package", ["mangonel", "pymongo"])
@pytest.mark.parametrize("name", TEXTS)
def test_message_says_what_pymongo_says(name: str, package: str) -> None:
    case, text = TEXTS[name]
    used = driver(package, "mangonel.bson" if package == "mangonel" else "bson")

    with pytest.raises(Exception) as caught:
        case(used)

    assert text in str(caught.value)
