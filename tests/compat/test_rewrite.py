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
