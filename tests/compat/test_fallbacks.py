"""Programs with a fallback for a missing name, such as libraries and agents, use the fallback here too."""

from __future__ import annotations

import subprocess
import sys

INSTALL = "import mangonel.compat; mangonel.compat.install_as_motor()\n"


def test_a_missing_name_is_no_attribute(program):
    program(
        INSTALL
        + """
import pymongo.common
assert not hasattr(pymongo.common, "BaseObject")
assert getattr(pymongo.common, "BaseObject", 5) == 5
try:
    pymongo.common.BaseObject
except AttributeError as error:
    assert "no counterpart in mangonel" in str(error) and isinstance(error, NotImplementedError)
else:
    raise AssertionError
"""
    )


def test_a_missing_name_is_an_import_error_where_it_is_imported(program):
    program(
        INSTALL
        + """
try:
    from pymongo.common import BaseObject
except ImportError as error:
    assert "no counterpart in mangonel" in str(error) and isinstance(error, NotImplementedError)
else:
    raise AssertionError
"""
    )


def test_importing_a_package_loads_the_modules_that_pymongos_loads(program):
    listing = """
import sys, pymongo, gridfs
kept = [name for name in sys.modules if name.partition(".")[0] in ("bson", "gridfs", "pymongo")]
# Private modules are PyMongo's own affair.
print(*sorted(name for name in kept if not any(part.startswith("_") for part in name.split("."))))
"""
    own = program(INSTALL + listing).split()
    peers = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    # PyMongo's result depends on which OCSP libraries are installed.
    by_chance = {"pymongo.ocsp_cache", "pymongo.ocsp_support", "pymongo.pyopenssl_context"}
    assert own == [name for name in peers.stdout.split() if name not in by_chance]


def test_a_hook_that_was_there_before_sees_the_imports(program):
    program(
        """
import sys
seen = []
class Hook:
    def find_spec(self, name, path=None, target=None):
        seen.append(name)
sys.meta_path.insert(0, Hook())
"""
        + INSTALL
        + """
from pymongo import MongoClient
assert "pymongo.synchronous.collection" in seen
"""
    )


def test_the_distributions_are_found(program):
    program(
        INSTALL
        + """
import sys
sys.path[:] = [entry for entry in sys.path if "site-packages" not in entry]
from importlib.metadata import distribution, version
assert version("pymongo") == "4.20.0" and version("motor") == "3.7.1"
assert distribution("pymongo").metadata["Name"] == "pymongo"
assert distribution("pymongo").read_text("RECORD") is None
try:
    distribution("pymongo").locate_file("pymongo/__init__.py")
except FileNotFoundError:
    pass
"""
    )


def test_write_models_add_themselves_to_a_bulk_of_another_library(program):
    program(
        INSTALL
        + """
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
class Bulk:
    def __getattr__(self, name):
        return lambda *arguments, **options: calls.append((name, arguments, options))
calls = []
models = [
    InsertOne({"_id": 1}),
    DeleteOne({"a": 1}, hint="a_1"),
    DeleteMany({"a": 1}),
    ReplaceOne({"a": 1}, {"b": 2}, upsert=True, sort={"a": 1}),
    UpdateOne({"a": 1}, {"$set": {"b": 2}}, sort={"a": 1}),
    UpdateMany({"a": 1}, {"$set": {"b": 2}}, upsert=True),
]
for model in models:
    model._add_to_bulk(Bulk())
plain = {"collation": None, "hint": None}
assert calls == [
    ("add_insert", ({"_id": 1},), {}),
    ("add_delete", ({"a": 1}, 1), {"collation": None, "hint": "a_1"}),
    ("add_delete", ({"a": 1}, 0), plain),
    ("add_replace", ({"a": 1}, {"b": 2}, True), {**plain, "sort": {"a": 1}}),
    ("add_update", ({"a": 1}, {"$set": {"b": 2}}, False, False), {**plain, "array_filters": None, "sort": {"a": 1}}),
    ("add_update", ({"a": 1}, {"$set": {"b": 2}}, True, True), {**plain, "array_filters": None}),
], calls
"""
    )


def test_an_encoder_encodes_one_element(program):
    program(
        INSTALL
        + """
import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS
assert bson._ENCODERS[int](b"a\\0", 5, False, DEFAULT_CODEC_OPTIONS) == b"\\x10a\\0\\5\\0\\0\\0"
from bson import datetime
assert datetime.datetime in bson._ENCODERS
assert bson.Binary in bson._ENCODERS and object not in bson._ENCODERS
"""
    )


def test_names_for_isinstance_are_classes(program):
    program(
        INSTALL
        + """
from motor.motor_gridfs import AgnosticGridFSBucket
from pymongo.message import _GetMore, _Query
assert isinstance(AgnosticGridFSBucket, type) and not isinstance(object(), (_GetMore, _Query))
"""
    )


def test_a_wrapped_refresh_of_a_cursor_sees_each_batch(program, place):
    program(
        INSTALL
        + """
import os
from pymongo import MongoClient
from pymongo.cursor import Cursor
batches, own = [], Cursor._refresh
def wrapped(self):
    batches.append(own(self))
    return batches[-1]
Cursor._refresh = wrapped
with MongoClient(os.environ["TEST_URI"]) as client:
    things = client[os.environ["TEST_DATABASE"]].things
    things.insert_many([{"_id": n} for n in range(5)])
    assert [thing["_id"] for thing in things.find(batch_size=3)] == [*range(5)]
    assert batches == [3, 2, 0], batches
    assert len(things.find().to_list()) == 5 and batches[3:] == [5], batches
"""
    )


def test_words_of_hello_and_classes_that_programs_take_from_other_modules_are_there(program):
    words = """
from pymongo.common import WriteConcern
from pymongo.hello import HelloCompat
print({name: value for name, value in vars(HelloCompat).items() if not name.startswith("_")})
print(WriteConcern(w=1).document)
"""
    peers = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert program(INSTALL + words).split() == peers.stdout.split()


def test_a_replaced_request_to_a_key_service_answers_it(program, place):
    program(
        INSTALL
        + """
import base64, json, os
from bson.codec_options import CodecOptions
from pymongo import MongoClient
from pymongo.encryption import Algorithm, ClientEncryption, _EncryptionIO
from pymongo.synchronous.encryption import _EncryptionIO as same
assert same is _EncryptionIO

own, seen = _EncryptionIO.kms_request, []
def answered(self, context):
    seen.append((context.endpoint, context.kms_provider, context.message[:4], context.usleep))
    assert context.bytes_needed > 0
    key = base64.b64encode(bytes(96)).decode()
    body = {"CiphertextBlob": key, "Plaintext": key, "KeyId": "id", "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}
    body = json.dumps(body)
    context.feed(f"HTTP/1.1 200 OK\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
_EncryptionIO.kms_request = answered

name = os.environ["TEST_DATABASE"]
providers = {"aws": {"accessKeyId": "a", "secretAccessKey": "b"}}
with MongoClient(os.environ["TEST_URI"]) as client:
    with ClientEncryption(providers, f"{name}.keys", client, CodecOptions()) as keys:
        master = {"region": "eu-west-1", "key": "arn", "endpoint": "127.0.0.1:1"}
        key = keys.create_data_key("aws", master)
        algorithm = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random
        assert keys.decrypt(keys.encrypt("secret", algorithm, key)) == "secret"
        assert seen == [("127.0.0.1:1", "aws", b"POST", 0)] * 2, seen
        _EncryptionIO.kms_request = own
        try:
            keys.create_data_key("aws", master)
        except Exception as error:
            assert "the aws service 127.0.0.1:1" in str(error), error
        else:
            raise AssertionError
        def asked(self, context):
            seen.append("asked")
            own(self, context)
        _EncryptionIO.kms_request = asked
        try:
            keys.create_data_key("aws", master)
        except Exception as error:
            assert "the aws service 127.0.0.1:1" in str(error) and seen[-1] == "asked", error
        else:
            raise AssertionError
"""
    )
