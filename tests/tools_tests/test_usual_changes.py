"""CONTRIBUTING's usual changes are complete: each works in a scratch copy with changes only where its row says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mangonel.bson import ObjectId
from tools.scripted_server import Reply, Request, ScriptedServer

ROOT = Path(__file__).parents[2]

COMMAND = '''\
    def data_size(self, comment: Any | None = None) -> FaceResult[dict[str, Any]]:
        """Return how many bytes the documents take.

        Args:
            comment: shown in the server's logs and profile.
        """
        command = {"dataSize": f"{self._database.name}.{self._name}"}
        return self._port.run(self._read_operation(command, READ_APPLY, comment=comment, codec=PLAIN))

'''
TERMINAL = '''\
    @terminal
    def oldest(self) -> T | None:
        """Return the document with the least `_id`, or None."""
        return self.sort("_id")._single(IS_ASYNC, "first")

'''
RUN_TERMINAL = """\
from mangonel import odm

class Order(odm.Document):
    customer: str

connection = odm.connect(URI, database="shop")
print(Order.find().oldest().customer)

async def main():
    print((await Order.find().aoldest()).customer)
    await connection.aclose()

asyncio.run(main())
connection.close()
"""
WRITTEN_OUT = """\
    ("CollectionAggregation", "data_size"): (
        "def data_size(self, comment: Any | None = None) -> dict[str, int]: ...",
        "async def data_size(self, comment: Any | None = None) -> dict[str, int]: ...",
    ),
"""
EXPERIMENT = """\

[shelf]
title = "texts on a shelf"
all = { unit = "text", judge = "client", server = false }
parts = [["put", "texts that are put there", ["shelves"], [2, 4], [1, 2]]]
shows = "What a shelf costs."
"""
TASK = '''\
"""Texts on a shelf."""

from mangonel.lab.digest import digest
from mangonel.lab.experiment import Task
from mangonel.lab.experiments._parts import Tabled


class Put(Task):
    """Keeps what it is given."""

    def __init__(self, part, bench):
        self.count, self.shelf = part.operations, []

    def verify(self):
        self.act()
        return digest(self.shelf)

    def act(self):
        self.shelf += ["text"] * self.count
        return self.count


EXPERIMENT = Tabled("shelf", Put)
'''
CONTENDER = """\

[[driver]]
id = "shelf"
title = "a shelf"
packages = []
offers = ["shelves"]
"""
RUN_EXPERIMENT = """\
from mangonel.lab import registry
from mangonel.lab.experiment import Size

experiment, size = registry.experiments()["shelf"], Size(quick=True)
(part,) = experiment.parts(size)
players = [one.id for one in registry.contenders().values() if not one.missing() and not part.excludes(one)]
task = experiment.task(part, None)
print(players, part.operations, bool(task.verify()), task.act())
"""
FAULT = """
[[fault]]
name = "a code that is forgotten"
file = "codes.rs"
find = '''FIND'''
put = ''' '''
"""
FLOW = '''\
"""A package above the driver."""


async def shelf_flow(port, command):
    """Wait as flows may, and not by itself."""
    return await port.arun(command)
'''
RUN_COMMAND = """\
from mangonel import AsyncMongoClient, MongoClient

with MongoClient(URI) as client:
    print(client.shop.orders.data_size(comment="here")["size"])

async def main():
    async with AsyncMongoClient(URI) as client:
        print((await client.shop.orders.data_size())["size"])

asyncio.run(main())
"""
RUN_OPTION = """\
from mangonel import AsyncMongoClient, MongoClient

with MongoClient(URI) as client:
    print(client.shop.orders.distinct("customer"), client.shop.orders.distinct("customer", read_once=True))

async def main():
    async with AsyncMongoClient(URI) as client:
        print(await client.shop.orders.distinct("customer", read_once=True))

asyncio.run(main())
"""
RUN_BSON_OPTION = """\
import pickle

from mangonel.bson import decode, encode
from mangonel.bson.codec_options import CodecOptions

options = CodecOptions(tz_aware=True).with_options(even_days=True)
assert CodecOptions() != CodecOptions(even_days=True)
assert pickle.loads(pickle.dumps(options)) == options == options._replace(even_days=True)
assert decode(encode({"a": 1}), options) == {"a": 1}
print(options)
"""
STORE = '''\
"""Web sessions on a shelf."""

import msgspec


class BlockingShelf:
    """The four methods."""

    records = {}

    def get(self, key):
        return self.records.get(key)

    def put(self, record, expected):
        stored = self.records.get(record.key)
        if (stored.version if stored else 0) != expected:
            return False
        self.records[record.key] = record
        return True

    def touch(self, key, expires):
        stored = self.records.get(key)
        if stored:
            self.records[key] = msgspec.structs.replace(stored, expires=expires)
        return stored is not None

    def delete(self, *keys):
        return sum(self.records.pop(key, None) is not None for key in keys)


class Shelf:
    """The same on an event loop."""

    blocking = BlockingShelf()

    async def get(self, key):
        return self.blocking.get(key)

    async def put(self, record, expected):
        return self.blocking.put(record, expected)

    async def touch(self, key, expires):
        return self.blocking.touch(key, expires)

    async def delete(self, *keys):
        return self.blocking.delete(*keys)


def from_url(url):
    url.finish()
    return Shelf()


def blocking_from_url(url):
    url.finish()
    return BlockingShelf()
'''
RUN_STORE = """\
from mangonel.websessions import WebSessions
from mangonel.websessions.stores.urls import open_blocking, open_store
from mangonel.websessions.testing import FakeClock, login_cookie, store_contract

shelf = open_store("shelf://")
asyncio.run(store_contract(shelf))
shelf.blocking.records.clear()
print(open_blocking("shelf://").get(bytes(32)))

async def main():
    sessions = WebSessions("shelf://", clock=FakeClock())
    print(bool(await login_cookie(sessions, "ada")), len(shelf.blocking.records))

asyncio.run(main())
"""


class Scratch:
    """A copy of the sources, changed only in the places that one row of CONTRIBUTING names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(
            ROOT / "python", folder / "python", ignore=shutil.ignore_patterns("__pycache__", "*.so")
        )
        for library in (ROOT / "python").rglob("*.so"):
            (folder / library.relative_to(ROOT)).symlink_to(library)
        self.changed: list[str] = []
        self.take("tools")

    def take(self, path: str) -> None:
        """Copy a folder of the sources too."""
        shutil.copytree(ROOT / path, self.folder / path, ignore=shutil.ignore_patterns("__pycache__"))

    def change(self, path: str, *replacements: tuple[str, str]) -> None:
        """Replace each text, which must occur in the file once."""
        text = (self.folder / path).read_text()
        for old, new in replacements:
            assert text.count(old) == 1, f"expected once in {path}: {old!r}"
            text = text.replace(old, new)
        self.write(path, text)

    def write(self, path: str, text: str) -> None:
        """Write a file, old or new."""
        (self.folder / path).parent.mkdir(exist_ok=True)
        (self.folder / path).write_text(text)
        self.changed.append(path)

    def add(self, path: str, text: str) -> None:
        """Append to a file."""
        self.write(path, (self.folder / path).read_text() + text)

    def python(self, *arguments: str, status: int = 0) -> str:
        """Run the interpreter on the copy; return what it printed."""
        found = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder / "python")},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert found.returncode == status, found.stdout + found.stderr
        return found.stdout

    def run(self, program: str, uri: str = "") -> str:
        """Run a program on the copy."""
        package = self.folder / "python" / "mangonel"
        preface = f"import asyncio\nimport mangonel\nassert mangonel.__path__ == [{str(package)!r}]\nURI = {uri!r}\n"
        return self.python("-c", preface + program)

    def by_row_alone(self, name: str) -> bool:
        """Return whether the row names each changed file, by itself or by its folder."""
        places = re.findall(r"`([\w./]+[/.][\w./]+)`", row(name))
        return all(
            any(path == place or path.startswith(f"{place}/") for place in places) for path in self.changed
        )


def row(name: str) -> str:
    """Return CONTRIBUTING's instructions for adding this."""
    rows = re.findall(rf"^\| {re.escape(name)} \| (.*) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert len(rows) == 1, f"expected one row for {name!r}, got {len(rows)}"
    found: str = rows[0]
    return found


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path)


def test_a_command_is_one_method(scratch: Scratch, scripted_server: ScriptedServer) -> None:
    scratch.change(
        "python/mangonel/_shared/collection/aggregation.py",
        ("    def distinct(\n", f"{COMMAND}    def distinct(\n"),
    )
    assert scratch.by_row_alone("a command")
    scratch.python("tools/stubs.py")
    stub = (scratch.folder / "python/mangonel/api.pyi").read_text()
    assert stub.count("    def data_size(self, comment: object = None) -> dict[str, Any]: ...") == 1
    assert stub.count("    async def data_size(self, comment: object = None) -> dict[str, Any]: ...") == 1

    scripted_server.on("dataSize", Reply({"ok": 1, "size": 7}))
    assert scratch.run(RUN_COMMAND, scripted_server.uri) == "7\n7\n"
    asked = [request.command for request in scripted_server.received("dataSize")]
    assert [(command["dataSize"], command.get("comment")) for command in asked] == [
        ("shop.orders", "here"),
        ("shop.orders", None),
    ]


def test_an_option_of_a_command_is_its_argument_and_one_line(
    scratch: Scratch, scripted_server: ScriptedServer
) -> None:
    scratch.change(
        "python/mangonel/_shared/collection/aggregation.py",
        (
            "        timeout_ms: float | None = None,\n        **kwargs: Any,\n    ) -> FaceResult[list[Any]]:",
            "        timeout_ms: float | None = None,\n        read_once: bool = False,\n        **kwargs: Any,\n"
            "    ) -> FaceResult[list[Any]]:",
        ),
        (
            '        command = {"distinct": self._name, "key": key, **kwargs}\n',
            '        command = {"distinct": self._name, "key": key, **kwargs}\n'
            '        command |= {"readOnce": True} if read_once else {}\n',
        ),
    )
    assert scratch.by_row_alone("an option of a command")
    scratch.python("tools/stubs.py")
    stub = (scratch.folder / "python/mangonel/api.pyi").read_text()
    assert stub.count(" read_once: bool = False,") == 2

    def answer(request: Request) -> Reply:
        return Reply({"ok": 1, "values": [request.command.get("readOnce")]})

    scripted_server.on("distinct", answer)
    assert scratch.run(RUN_OPTION, scripted_server.uri) == "[None] [True]\n[True]\n"


def test_a_terminal_of_the_mapper_is_one_method(scratch: Scratch, scripted_server: ScriptedServer) -> None:
    scratch.change(
        "python/mangonel/odm/query/reads.py",
        ("    @terminal\n    def count(", f"{TERMINAL}    @terminal\n    def count("),
    )
    assert scratch.by_row_alone("a terminal of the mapper, such as `save`")
    scratch.python("tools/stubs.py")
    stub = (scratch.folder / "python/mangonel/odm/_twins.pyi").read_text()
    assert "    def aoldest(self) -> Coroutine[Any, Any, T | None]: " in stub

    found = [{"_id": ObjectId(), "customer": "ada"}]
    scripted_server.on("find", Reply({"ok": 1, "cursor": {"id": 0, "ns": "shop.order", "firstBatch": found}}))
    assert scratch.run(RUN_TERMINAL, scripted_server.uri) == "ada\nada\n"
    asked = [request.command for request in scripted_server.received("find")]
    assert [(command["sort"], command["limit"]) for command in asked] == [({"_id": 1}, 1)] * 2


def test_a_type_that_no_signature_can_express_is_a_row_of_a_table(scratch: Scratch) -> None:
    scratch.change(
        "python/mangonel/_shared/collection/aggregation.py",
        ("    def distinct(\n", f"{COMMAND}    def distinct(\n"),
    )
    scratch.changed.clear()
    scratch.change("tools/stubs.py", ("WRITTEN_OUT = {\n", f"WRITTEN_OUT = {{\n{WRITTEN_OUT}"))
    assert scratch.by_row_alone("a type that no signature can express")
    scratch.python("tools/stubs.py")
    stub = (scratch.folder / "python/mangonel/api.pyi").read_text()
    assert stub.count("def data_size(self, comment: Any | None = None) -> dict[str, int]: ...") == 2
    assert stub.count("async def data_size(") == 1


@pytest.mark.no_sample
def test_a_package_above_the_driver_has_its_flows_checked_and_its_floor(scratch: Scratch) -> None:
    scratch.write("python/mangonel/shelf/__init__.py", FLOW.replace("port.arun(", "socket.send("))
    scratch.changed.clear()
    scratch.change("tools/flows.py", ('FLOORS = ("_shared", ', 'FLOORS = ("_shared", "shelf", '))
    contracts = scratch.folder / "pyproject.toml"
    contracts.write_text((ROOT / "pyproject.toml").read_text())
    scratch.change(
        "pyproject.toml",
        ('    "mangonel.gridfs | mangonel', '    "mangonel.shelf | mangonel.gridfs | mangonel'),
    )
    assert scratch.by_row_alone("a package above the driver")
    assert "shelf/__init__.py:6: expected await of a port" in scratch.python("tools/flows.py", status=1)
    scratch.write("python/mangonel/shelf/__init__.py", FLOW)
    scratch.python("tools/flows.py")
    scratch.write("python/mangonel/shelf/__init__.py", f"{FLOW}\nimport mangonel.odm\n")
    # Each check reads all files: one call shows that only this import breaks a rule.
    said = scratch.python(str(Path(sys.executable).with_name("lint-imports")), "--no-cache", status=1)
    assert re.findall(r" (\d+) broken\.", said) == ["1"], said
    assert re.findall(r"^-\s+(\S+ -> \S+) \(l\.", said, re.M) == ["mangonel.shelf -> mangonel.odm"], said


def test_a_planted_fault_is_an_entry_that_has_its_place(scratch: Scratch) -> None:
    scratch.take("crates/proto/src")
    (scratch.folder / "crates/simulation").mkdir()
    faults = "crates/simulation/planted.toml"
    shutil.copy(ROOT / faults, scratch.folder / faults)
    place = (ROOT / "crates/proto/src/codes.rs").read_text().splitlines()[0]
    scratch.add(faults, FAULT.replace("FIND", place))
    assert scratch.by_row_alone("a planted fault")
    scratch.python("tools/planted.py", "--check")
    scratch.change("crates/proto/src/codes.rs", (place, "//! Another line."))
    told = scratch.python("tools/planted.py", "--check", status=1)
    assert told.startswith("a code that is forgotten: expected `find` once in codes.rs, got it 0 times")


def test_an_experiment_is_a_table_and_its_task_and_a_contender_is_a_row(scratch: Scratch) -> None:
    experiments = "python/mangonel/lab/experiments"
    scratch.add(f"{experiments}/experiments.toml", EXPERIMENT)
    scratch.write(f"{experiments}/shelf.py", TASK)
    assert scratch.by_row_alone("an experiment of the lab")
    scratch.changed.clear()
    scratch.add("python/mangonel/lab/contenders/drivers.toml", CONTENDER)
    assert scratch.by_row_alone("a contender of the lab")
    assert scratch.run(RUN_EXPERIMENT) == "['shelf'] 2 True 2\n"


def test_a_bson_option_is_a_field_in_python_and_one_in_rust(scratch: Scratch) -> None:
    scratch.change(
        "python/mangonel/bson/codec_options.py",
        (
            '            "datetime_conversion",\n',
            '            "datetime_conversion",\n            "even_days",\n',
        ),
        (
            "        @property\n        def datetime_conv",
            "        even_days = _tuplegetter(7, None)\n\n        @property\n        def datetime_conv",
        ),
        (
            "        datetime_conversion: DatetimeConversion | None = _DATETIME,\n",
            "        datetime_conversion: DatetimeConversion | None = _DATETIME,\n        even_days: bool = False,\n",
        ),
        (
            "                datetime_conversion,\n            ),",
            "                datetime_conversion,\n                even_days,\n            ),",
        ),
    )
    # The binding's half is only searched for, since its build takes minutes: the option is read beside the others.
    binding = "crates/py/src/codec/options.rs"
    assert 'options.getattr("tz_aware")?' in (ROOT / binding).read_text()
    scratch.changed.append(binding)
    assert scratch.by_row_alone("a BSON option")
    assert "even_days=True" in scratch.run(RUN_BSON_OPTION)


def test_a_web_session_store_is_its_module_and_its_schemes(scratch: Scratch) -> None:
    scratch.write("python/mangonel/websessions/stores/shelf.py", STORE)
    scratch.change(
        "python/mangonel/websessions/stores/urls.py",
        ('    "cookie": "cookie",\n', '    "cookie": "cookie",\n    "shelf": "shelf",\n'),
    )
    assert scratch.by_row_alone("a web-session store")
    assert scratch.run(RUN_STORE) == "None\nTrue 1\n"
