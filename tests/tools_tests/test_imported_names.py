"""`tools/imported_names.py`: the names that it reads from a program, and those that it calls missing."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools.programs import load_program

imported_names = load_program(Path(__file__).parents[2] / "tools/imported_names.py")


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import pymongo.errors", {("pymongo.errors", "")}),
        ("from bson import ObjectId as Id", {("bson", "ObjectId")}),
        ("from pymongo import *", {("pymongo", "")}),
        (
            "import pymongo\npymongo.collection.Collection",
            {("pymongo", ""), ("pymongo", "collection"), ("pymongo.collection", "Collection")},
        ),
        (
            "import pymongo.common as c\ndef f(): return c.validate(1)",
            {("pymongo.common", ""), ("pymongo.common", "validate")},
        ),
        (
            "from pymongo import common\ncommon.validate",
            {("pymongo", "common"), ("pymongo.common", "validate")},
        ),
        ("from .pymongo import x\nfrom pymongoarrow import y\nimport bsonic\nother.pymongo.z", set()),
    ],
)
def test_names_are_those_that_a_program_imports_or_reads(source: str, names: set[tuple[str, str]]) -> None:
    assert set(imported_names.names_in(source)) == names


def test_a_wheel_is_read_past_what_is_no_python(tmp_path: Path) -> None:
    wheel = tmp_path / "shop-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("shop/a.py", "import gridfs")
        packed.writestr("shop/template.py", "import {{ module }}")
        packed.writestr("shop/data.txt", "import motor")
    assert imported_names.names_of(wheel) == {("gridfs", "")}


def test_a_source_distribution_is_read_but_for_its_tests(tmp_path: Path) -> None:
    package = tmp_path / "shop-1.tar.gz"
    with tarfile.open(package, "w:gz") as packed:
        sources = {
            "shop/a.py": b"import gridfs",
            "tests/b.py": b"import bson",
            "shop/test_c.py": b"import motor",
        }
        for name, source in sources.items():
            member = tarfile.TarInfo(f"shop-1/{name}")
            member.size = len(source)
            packed.addfile(member, io.BytesIO(source))
    assert imported_names.names_of(package) == {("gridfs", "")}


@pytest.mark.parametrize(
    "file", ["Shop_Base-1.2-py3-none-any.whl", "shop_base-1.2.tar.gz", "shop.base-1.2.tar.gz"]
)
def test_a_package_is_found_under_any_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setattr(imported_names, "WHEELS", tmp_path)
    (tmp_path / file).touch()
    assert imported_names._fetched("shop-base==1.2") == tmp_path / file
    assert imported_names._fetched("shop-base==1.3") is None


def test_a_name_is_missing_if_pymongo_has_it_and_compat_has_not() -> None:
    names = [
        ("pymongo", "MongoClient"),
        ("pymongo.lock", "Lock"),
        ("pymongo.nothing", ""),
        ("pymongo", "collection"),
    ]
    peer, ours = imported_names.had(names, "peer"), imported_names.had(names, "ours")
    assert [peer[name] for name in names] == [True, True, False, True]
    assert [ours[name] for name in names] == [True, False, False, True]


def test_the_table_has_the_counts_and_the_missing_names() -> None:
    text = imported_names.table(3, 20, {("pymongo.lock", "Lock"): ["b", "a"]})
    assert "| 3 | 20 | 1 |" in text
    assert "| `pymongo.lock.Lock` | a, b |" in text
