"""Arguments of `mangonel export`, `import` and `schema`: a namespace, a file, a database."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangonel import MongoClient, cli
from mangonel.server import Server

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def database(standalone: Server) -> Iterator[Any]:
    with MongoClient[Any](standalone.uri) as client:
        database = client[f"commands_{uuid.uuid4().hex[:8]}"]
        database["rows.old"].insert_many([{"_id": number, "n": number} for number in range(3)])
        yield database
        client.drop_database(database.name)


def ids_of(path: Path) -> list[int]:
    return [json.loads(line)["_id"] for line in path.read_text().splitlines()]


def test_a_collection_is_named_with_its_database_where_the_uri_names_none(
    database: Any, standalone: Server, tmp_path: Path, capsys: Capture
) -> None:
    path, full = tmp_path / "rows.jsonl", f"{database.name}.rows.old"

    assert cli.main(["export", standalone.uri, full, str(path), "--mode", "relaxed"]) == 0
    assert ids_of(path) == [0, 1, 2]
    assert cli.main(["import", standalone.uri, str(path), "--collection", f"{database.name}.copies"]) == 0
    assert database.copies.count_documents({}) == 3
    capsys.readouterr()
    assert cli.main(["schema", standalone.uri, full]) == 0
    assert capsys.readouterr().out.startswith("3 documents\n")


@pytest.mark.parametrize("by", ["uri", "option"])
def test_a_name_with_a_dot_is_of_the_database_that_is_named(
    database: Any, standalone: Server, tmp_path: Path, by: str
) -> None:
    path = tmp_path / "rows.jsonl"
    uri = f"{standalone.uri.rstrip('/')}/{database.name}" if by == "uri" else standalone.uri
    more = [] if by == "uri" else ["--database", database.name]

    assert cli.main(["export", uri, "rows.old", str(path), "--mode", "relaxed", *more]) == 0
    assert ids_of(path) == [0, 1, 2]


@pytest.mark.parametrize("name", [".rows", "rows.", "a b.rows"])
def test_what_is_no_namespace_is_refused(standalone: Server, name: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["schema", standalone.uri, name])
    assert ended.value.code == 2
    assert "expected DATABASE.COLLECTION" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{uri}", "a.rows", "x.jsonl", "-o", "y.jsonl"], "expected one file, got x.jsonl and -o y.jsonl"),
        # A mistyped URI does not count as a collection, nor the collection as a file.
        (["localhost:27017", "rows"], "unrecognized arguments: rows"),
        (["rows", "x.jsonl"], "unrecognized arguments: x.jsonl"),
        (["{uri}"], "expected COLLECTION after the URI"),
    ],
)
def test_words_of_an_export_that_make_no_sense_are_refused(
    standalone: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    said: str,
    capsys: Capture,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(["export", *(word.format(uri=standalone.uri) for word in words)])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_a_collection_the_schemas_of_the_whole_database_are_shown(
    database: Any, standalone: Server, tmp_path: Path, capsys: Capture
) -> None:
    database.users.insert_one({"_id": 1, "name": "Ada"})
    database.create_collection("empty")
    database.command({"create": "young", "viewOn": "users", "pipeline": []})
    uri, path = f"{standalone.uri.rstrip('/')}/{database.name}", tmp_path / "schemas.txt"

    assert cli.main(["schema", uri]) == 0
    shown = capsys.readouterr().out
    assert shown == (
        f"{database.name}.empty: 0 documents\n\n"
        f"{database.name}.rows.old: 3 documents\n  _id  int\n  n    int\n\n"
        f"{database.name}.users: 1 documents\n  _id   int\n  name  string\n"
    )
    assert cli.main(["schema", standalone.uri, "--database", database.name, "-o", str(path)]) == 0
    assert path.read_text() == shown
    assert cli.main(["schema", uri, "--sample", "2"]) == 0
    assert f"{database.name}.rows.old: a sample of 2 documents\n" in capsys.readouterr().out

    for more in (["--as", "model"], ["--check", str(path)], ["--filter", "{}"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(["schema", uri, *more])
        assert ended.value.code == 2
        assert f"{more[0]} is for one collection; name it after the URI" in capsys.readouterr().err


def test_a_database_without_collections_is_told(standalone: Server, capsys: Capture) -> None:
    assert cli.main(["schema", f"{standalone.uri.rstrip('/')}/no_such_database"]) == 1
    assert capsys.readouterr() == ("", "mangonel schema: no collections in no_such_database\n")
