"""The codemod: imports change, the rest of the source stays, and remaining uses are reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("libcst")

from mangonel.compat._rewrite import rewritten


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mangonel.compat", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from pymongo import MongoClient", "from mangonel import MongoClient"),
        ("from pymongo import MongoClient as Client", "from mangonel import MongoClient as Client"),
        ("from pymongo.errors import DuplicateKeyError", "from mangonel.errors import DuplicateKeyError"),
        ("from bson import ObjectId, json_util", "from mangonel.bson import ObjectId, json_util"),
        ("from bson.objectid import ObjectId", "from mangonel.bson.objectid import ObjectId"),
        ("from gridfs import GridFS", "from mangonel.gridfs import GridFS"),
        ("from pymongo import errors", "from mangonel import errors"),
        ("import pymongo", "import mangonel as pymongo"),
        ("import bson", "import mangonel.bson as bson"),
        ("import pymongo.errors", "import mangonel as pymongo\nimport mangonel.errors"),
        ("import pymongo.errors as e", "import mangonel.errors as e"),
        ("import os, pymongo", "import os\nimport mangonel as pymongo"),
        (
            "from motor.motor_asyncio import AsyncIOMotorClient",
            "from mangonel.compat.motor_asyncio import AsyncIOMotorClient",
        ),
        ("import os", "import os"),
    ],
)
def test_an_import_becomes_one_of_this_package(before: str, after: str) -> None:
    text, left = rewritten(f"{before}\n".encode())

    assert (text.decode(), left) == (f"{after}\n", [])
    exec(compile(text, "changed", "exec"), {"__name__": "mangonel.changed", "__package__": "mangonel"})


def test_a_relative_import_stays() -> None:
    assert rewritten(b"from . import pymongo\n") == (b"from . import pymongo\n", [])


def test_comments_and_layout_stay() -> None:
    source = (
        '"""Doc."""\r\n\r\n# The client.\r\nfrom pymongo import MongoClient  # blocking\r\n\r\nx = {  }\r\n'
    )

    text, left = rewritten(source.encode())

    assert text.decode() == source.replace("pymongo", "mangonel")
    assert left == []


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("from pymongo.common import BaseObject", "pymongo.common.BaseObject has no counterpart in mangonel"),
        ("from pymongo import *", "expected the names that are imported from pymongo, got *"),
        ("import pymongo.socket_checker", "pymongo.socket_checker has no counterpart in mangonel"),
        ("import pymongo; x = 1", "the import shares its line with other statements"),
        ("patch('pymongo.MongoClient')", "the text 'pymongo.MongoClient' may name a module"),
    ],
)
def test_what_cannot_be_changed_is_left_and_told(statement: str, reason: str) -> None:
    source = f"import os\n\n{statement}\n".encode()

    assert rewritten(source) == (source, [(3, reason)])


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("try: import pymongo\nexcept ImportError: pymongo = None\n", "the import shares its line with `if`"),
        ("if True: from bson import ObjectId\n", "the import shares its line with `if`"),
    ],
)
def test_an_import_behind_a_colon_is_told(source: str, left: str) -> None:
    text, ((line, reason),) = rewritten(source.encode())

    assert (text.decode(), line) == (source, 1)
    assert reason.startswith(left)


def test_a_name_that_is_read_of_a_module_and_is_not_there_is_told() -> None:
    source = (
        "import pymongo\nimport bson as b\nfrom pymongo import errors\n"
        "pymongo.MongoClient().db\npymongo.errors.PyMongoError\npymongo.has_snappy\n"
        "errors.Nothing\nb.ObjectId\nother.pymongo.nothing\nb.json_util.dumps\npymongo.cursor.Cursor\n"
    )

    _, left = rewritten(source.encode())

    assert left == [
        (6, "pymongo.has_snappy has no counterpart in mangonel"),
        (7, "pymongo.errors.Nothing has no counterpart in mangonel"),
    ]


def test_installed_packages_below_a_folder_stay(tmp_path: Path) -> None:
    source = b"from pymongo import ASCENDING\n"
    places = [".venv/lib/a.py", "env/lib/a.py", "lib/site-packages/a.py", "node_modules/a.py", "src/a.py"]
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_bytes(source)
    (tmp_path / "env/pyvenv.cfg").touch()

    assert run("--rewrite", tmp_path).returncode == 0

    changed = [place for place in places if (tmp_path / place).read_bytes() != source]
    assert changed == ["src/a.py"]


def test_a_file_of_another_encoding_than_it_says_is_told_and_the_others_are_changed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"name = '\xe9'\n")
    (tmp_path / "b.py").write_bytes(b"# coding: klingon\n")
    (tmp_path / "c.py").write_bytes(b"# coding: latin-1\nfrom pymongo import ASCENDING\nname = '\xe9'\n")

    finished = run("--rewrite", tmp_path)

    assert finished.returncode == 1
    assert [line.partition(": expected Python source, got ")[0] for line in finished.stdout.splitlines()] == [
        f"{tmp_path / 'a.py'}:1",
        f"{tmp_path / 'b.py'}:1",
    ]
    assert (tmp_path / "c.py").read_bytes().endswith(b"\nfrom mangonel import ASCENDING\nname = '\xe9'\n")


def test_a_folder_is_rewritten_in_place(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below/first.py").write_text("from pymongo import ASCENDING\n")
    (tmp_path / "second.py").write_text("from pymongo.common import BaseObject\n")
    (tmp_path / "third.py").write_text("def (:\n")

    finished = run("--rewrite", tmp_path)

    assert (tmp_path / "below/first.py").read_text() == "from mangonel import ASCENDING\n"
    assert finished.returncode == 1
    assert finished.stdout.splitlines() == [
        f"{tmp_path / 'second.py'}:1: pymongo.common.BaseObject has no counterpart in mangonel",
        f"{tmp_path / 'third.py'}:1: expected Python source, got a syntax error",
    ]
    assert run("--rewrite", tmp_path / "below").returncode == 0


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    finished = run("--rewrite", tmp_path / "nothing")

    assert finished.returncode == 2
    assert "no such file or folder" in finished.stderr
    assert run("--rewrite").returncode == 2
