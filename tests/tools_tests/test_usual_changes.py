"""CONTRIBUTING's usual changes are true: each works in a scratch copy that is changed only where its row says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
        shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        self.changed: list[str] = []

    def change(self, path: str, *replacements: tuple[str, str]) -> None:
        """Replace each text, which must stand in the file once."""
        text = (self.folder / path).read_text()
        for old, new in replacements:
            assert text.count(old) == 1, f"expected once in {path}: {old!r}"
            text = text.replace(old, new)
        self.write(path, text)

    def write(self, path: str, text: str) -> None:
        """Write a file, old or new."""
        (self.folder / path).write_text(text)
        self.changed.append(path)

    def python(self, *arguments: str) -> str:
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
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout

    def run(self, program: str, uri: str = "") -> str:
        """Run a program on the copy."""
        package = self.folder / "python" / "mangonel"
        preface = f"import asyncio\nimport mangonel\nassert mangonel.__path__ == [{str(package)!r}]\nURI = {uri!r}\n"
        return self.python("-c", preface + program)

    def by_row_alone(self, name: str) -> bool:
        """Return whether the row names each file that was changed, by itself or by its folder."""
        places = re.findall(r"`([\w./]+/[\w./]+)`", row(name))
        return all(
            any(path == place or path.startswith(f"{place}/") for place in places) for path in self.changed
        )


def row(name: str) -> str:
    """Return what CONTRIBUTING says to change, to add this."""
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
    # The binding's half is only looked up here, for its build takes minutes: the option is read where the others are.
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
