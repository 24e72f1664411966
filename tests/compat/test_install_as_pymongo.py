"""PyMongo's names resolve to this package in a process that calls `install_as_pymongo` first."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALL = "import mangonel.compat; mangonel.compat.install_as_pymongo()\n"


def test_names_and_modules_of_pymongo_are_those_of_this_package(program):
    program(
        INSTALL
        + """
import mangonel.api, mangonel.bson, mangonel.errors, mangonel.gridfs
import pymongo, bson, gridfs, pymongo.errors
from bson.codec_options import CodecOptions
from bson.json_util import dumps
from gridfs.asynchronous import AsyncGridFSBucket
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.monitoring import CommandListener
from pymongo.synchronous.database import Database
from pymongo.uri_parser import parse_uri
assert pymongo.MongoClient is mangonel.api.MongoClient
assert AsyncCollection is mangonel.api.AsyncCollection and Database is mangonel.api.Database
assert AsyncGridFSBucket is mangonel.gridfs.AsyncGridFSBucket
assert isinstance(bson.ObjectId(), mangonel.bson.ObjectId)
assert issubclass(pymongo.errors.DuplicateKeyError, pymongo.errors.OperationFailure)
assert pymongo.collection.Collection.__name__ == "Collection"
assert pymongo.version_tuple == (4, 20, 0)
assert dumps(bson.decode(bson.encode({"a": 1}, codec_options=CodecOptions()))) == '{"a": 1}'
assert parse_uri("mongodb://a.example/b")["database"] == "b"
"""
    )


def test_log_goes_to_pymongos_loggers(program):
    program(
        INSTALL
        + """
import logging
records = []
class Keep(logging.Handler):
    def emit(self, record):
        records.append(record.name)
logging.getLogger("pymongo").addHandler(Keep())
logging.getLogger("pymongo").setLevel(logging.DEBUG)
from pymongo import MongoClient
from pymongo.errors import ServerSelectionTimeoutError
try:
    MongoClient("mongodb://127.0.0.1:1", serverSelectionTimeoutMS=50).admin.command("ping")
except ServerSelectionTimeoutError:
    pass
assert {"pymongo.serverSelection", "pymongo.topology"} <= set(records), records
"""
    )


def test_the_version_claimed_is_the_one_that_was_compared():
    import pymongo

    from mangonel.compat._modules import PYMONGO_VERSION

    assert tuple(pymongo.version_tuple[:3]) == PYMONGO_VERSION


def test_installing_after_pymongo_was_imported_is_refused(program):
    printed = program(
        """
        import bson
        import mangonel.compat
        before = bson.ObjectId
        try:
            mangonel.compat.install_as_pymongo()
        except RuntimeError as error:
            print(error)
        from bson import ObjectId
        assert ObjectId is before
        """
    )
    assert "PyMongo was imported before the call: bson already loaded" in printed


def test_installing_twice_changes_nothing(program):
    program(
        INSTALL
        + """
import sys, pymongo
before = list(sys.meta_path)
mangonel.compat.install_as_pymongo()
assert sys.meta_path == before
"""
    )


def test_a_name_without_a_counterpart_is_named_by_its_error(program):
    printed = program(
        INSTALL
        + """
import pymongo.encryption_options
for attempt in ("pymongo.encryption_options.check_min_pymongocrypt", "from pymongo.common import BaseObject"):
    try:
        exec(attempt)
    except NotImplementedError as error:
        print(error)
"""
    )
    assert "pymongo.encryption_options.check_min_pymongocrypt has no counterpart" in printed
    assert "pymongo.common.BaseObject has no counterpart" in printed


def test_what_pymongo_has_not_is_not_there_either(program):
    program(
        INSTALL
        + """
import pymongo
assert not hasattr(pymongo, "odm") and not hasattr(pymongo, "Nothing")
try:
    import pymongo.odm
except ModuleNotFoundError:
    pass
else:
    raise AssertionError
"""
    )


def test_a_pickle_made_with_pymongo_is_read(program):
    import pickle

    from bson import ObjectId

    held = pickle.dumps(ObjectId("0123456789abcdef01234567")).hex()
    printed = program(INSTALL + f"import pickle; print(repr(pickle.loads(bytes.fromhex('{held}'))))")
    assert printed == "ObjectId('0123456789abcdef01234567')"


def test_a_program_runs_unchanged_from_the_command_line(tmp_path, place):
    (tmp_path / "helper.py").write_text("from bson import SON\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, helper\n"
        "from pymongo import MongoClient\n"
        "with MongoClient(os.environ['TEST_URI']) as client:\n"
        "    things = client[os.environ['TEST_DATABASE']].things\n"
        "    things.insert_one({'_id': 1, 'said': sys.argv[1]})\n"
        "    print(type(client).__module__, things.find_one()['said'])\n"
        "sys.exit(3)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-m", "mangonel.compat", str(script), "hello"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert finished.stdout.split() == ["mangonel.api", "hello"], finished.stderr
    assert finished.returncode == 3


def from_the_command_line(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "mangonel.compat", *arguments], capture_output=True, text=True, timeout=200
    )


def test_code_and_modules_run_from_the_command_line():
    code = "import sys, pymongo; print(pymongo.MongoClient.__module__, sys.argv)"
    assert from_the_command_line("-c", code, "a").stdout == "mangonel.api ['-c', 'a']\n"
    assert from_the_command_line("-m", "json.tool", "--help").stdout.startswith("usage: ")


CHILDREN = """
import multiprocessing, sys

def name_driver(queue):
    import pymongo

    queue.put(pymongo.MongoClient.__module__)

def start(kind, target):
    context = multiprocessing.get_context(kind)
    queue = context.Queue()
    child = context.Process(target=target, args=(queue,))
    child.start()
    found = queue.get(timeout=150)
    child.join()
    return found

def name_that_of_a_child(queue):
    queue.put(start("spawn", name_driver))

if __name__ == "__main__":
    print(start(sys.argv[1], name_driver), start("spawn", name_that_of_a_child))
"""


@pytest.mark.parametrize(
    "kind", sorted({"spawn", "forkserver"} & set(multiprocessing.get_all_start_methods()))
)
@pytest.mark.parametrize("is_module", [False, True])
def test_a_process_that_the_program_starts_without_a_fork_uses_this_driver_too(
    tmp_path, monkeypatch, kind, is_module
):
    (tmp_path / "parent.py").write_text(CHILDREN)
    monkeypatch.chdir(tmp_path)
    finished = from_the_command_line(*(["-m", "parent"] if is_module else ["parent.py"]), kind)
    assert finished.stdout.split() == ["mangonel.api"] * 2, finished.stderr


def test_children_have_the_aliases_that_were_installed_after_multiprocessing_was_loaded(tmp_path):
    script = tmp_path / "parent.py"
    install = "    import mangonel.compat, multiprocessing.spawn\n    mangonel.compat.install_as_pymongo()\n"
    script.write_text(CHILDREN.replace('"__main__":\n', f'"__main__":\n{install}'))
    finished = subprocess.run(
        [sys.executable, str(script), "spawn"], capture_output=True, text=True, timeout=200
    )
    assert finished.stdout.split() == ["mangonel.api"] * 2, finished.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "expected a program"),
        (["-m"], "expected a program"),
        (["nowhere.py"], "no such file: nowhere.py"),
        (["-m", "nowhere"], "no module named nowhere"),
        (["--quiet", "nowhere.py"], "unknown option --quiet"),
    ],
)
def test_a_wrong_command_line_is_told_with_the_usage_and_no_traceback(arguments, reason):
    refused = from_the_command_line(*arguments)
    assert refused.returncode == 2
    assert reason in refused.stderr
    assert "usage: python -m mangonel.compat" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_databases_and_collections_inherit_settings_or_take_their_own(program):
    program(
        INSTALL
        + """
from bson.codec_options import CodecOptions
from pymongo import MongoClient, ReadPreference, WriteConcern
client = MongoClient("localhost:1", tz_aware=True, w=1, readPreference="nearest")
inherited = client.a.b
assert inherited.codec_options.tz_aware and inherited.write_concern == WriteConcern(w=1)
assert inherited.read_preference == ReadPreference.NEAREST
own = client.a.get_collection("b", codec_options=CodecOptions(), write_concern=WriteConcern(w=0))
assert not own.codec_options.tz_aware and own.write_concern == WriteConcern(w=0)
assert own.read_preference == ReadPreference.NEAREST
assert client.get_database("a", read_preference=ReadPreference.PRIMARY).b.read_preference == ReadPreference.PRIMARY
"""
    )


def test_the_list_of_what_is_missing_is_true():
    checked = subprocess.run(
        [sys.executable, str(ROOT / "tools/compatibility.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_root_module_has_the_file_that_profilers_look_beside(program):
    program(
        """
import mangonel.compat
mangonel.compat.install_as_motor()
import os, pymongo, bson, gridfs, motor, mangonel
for module in (pymongo, bson, gridfs, motor):
    assert os.path.dirname(module.__file__) == os.path.dirname(mangonel.__file__)
"""
    )
