"""The programs of the language comparison do the same work and follow PROTOCOL.md; their sources lint.

Those in other languages are built only where their tools are installed and a test asks for it: that takes minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangonel.lab import documents, registry
from mangonel.lab.contenders import languages
from mangonel.lab.contenders.languages import _build, _program
from mangonel.lab.digest import digest, digest_documents
from mangonel.lab.experiment import Size

pymongo = pytest.importorskip("pymongo", reason="the answers are compared with PyMongo's")

SOURCES = Path(languages.__file__).parent
ROWS = [row for row in languages.CONTENDERS if row.language == "python" and "program-reads" in row.offers]
FLOOR = next(row for row in languages.CONTENDERS if row.row == "raw")
PAGES = [row for row in languages.CONTENDERS if row.language == "python" and "program-page" in row.offers]
STORED = 100


@pytest.fixture
def collection(server: Any, database_name: str) -> Iterator[Any]:
    """A collection with the first documents of the data set, and an empty one."""
    with pymongo.MongoClient(server.uri) as client:
        members = client[database_name]["members"]
        members.insert_many([{"_id": number, **documents.member(number)} for number in range(STORED)])
        yield members


@pytest.fixture(params=ROWS, ids=[row.row for row in ROWS])
def program(request: Any, server: Any, collection: Any) -> Iterator[_program.Program]:
    if reason := request.param.missing():
        pytest.skip(reason)
    started = _program.Program(request.param.command())
    try:
        started.ask("open", server.uri, collection.database.name, collection.name, "scratch")
        yield started
    finally:
        started.close()


@pytest.mark.enough(3)
def test_every_program_reads_and_stores_what_pymongo_does(program: Any, collection: Any) -> None:
    def same(verb: str, expected: Any) -> None:
        assert digest(program.documents(verb)) == digest(expected)

    same("find_one", [collection.find_one({"_id": 77})])
    same("find_30", list(collection.find().limit(30)))
    program.ask("run", "iterate", STORED, 0)
    told = program.ask("run", "find_30", 2, 0)
    assert told["wall_ns"] > 0
    assert {"user_us", "system_us"} <= told.keys()


def test_the_lower_bound_of_many_at_once_reads_what_pymongo_does(server: Any, collection: Any) -> None:
    program = _program.Program(FLOOR.command())
    try:
        program.ask("open", server.uri, collection.database.name, collection.name, "scratch")
        assert digest(program.documents("find_100")) == digest(list(collection.find().limit(100)))
        program.ask("run", "find_100_threads_32", 64, 0)
        collection.delete_one({"_id": 99})
        with pytest.raises(_program.ProgramError, match="Refused: expected a reply of"):
            program.ask("run", "find_100_threads_32", 64, 0)
    finally:
        program.close()


def test_a_verb_that_writes_stores_the_same_documents_as_the_data_set_has(
    server: Any, collection: Any
) -> None:
    program = _program.Program(ROWS[0].command())
    try:
        program.ask("open", server.uri, collection.database.name, collection.name, "scratch")
        program.ask("clear", "insert_many_10", 1)
        program.ask("run", "insert_many_10", 1, 0)
    finally:
        program.close()
    stored = collection.database["scratch"].find()

    assert digest_documents(stored) == digest_documents(documents.member(number) for number in range(10))


def test_a_wrong_answer_ends_the_row(server: Any, collection: Any) -> None:
    collection.update_one({"_id": 3}, {"$set": {"n": 4}})
    program = _program.Program(ROWS[0].command())
    try:
        program.ask("open", server.uri, collection.database.name, collection.name, "scratch")
        with pytest.raises(_program.ProgramError, match="expected n 3, got 4"):
            program.ask("run", "find_one", 5, 0)
        with pytest.raises(_program.ProgramError, match="expected sum of n 435, got 436"):
            program.ask("run", "find_30", 1, 0)
    finally:
        program.close()


def test_a_planted_slowdown_costs_the_program_processor_time(server: Any, collection: Any) -> None:
    program = _program.Program(ROWS[0].command())
    try:
        program.ask("open", server.uri, collection.database.name, collection.name, "scratch")
        program.ask("run", "find_one", 50, 0)
        plain, slowed = (_cpu(program, plant) for plant in (0, 20))
    finally:
        program.close()

    # Twenty times as much on top: far beyond the difference between two runs.
    assert slowed > 5 * plain


def _cpu(program: Any, plant: float) -> int:
    before = program.cpu_ns()
    program.ask("run", "find_one", 50, plant)
    return int(program.cpu_ns() - before)


def test_a_whole_process_inserts_one_document_of_the_data_set(server: Any, collection: Any) -> None:
    database = collection.database
    _program.run_once(ROWS[0].command("once", server.uri, database.name, "scratch"))

    assert digest_documents(database["scratch"].find()) == digest_documents([documents.member(0)])


@pytest.mark.enough(2)
@pytest.mark.parametrize("row", PAGES, ids=[row.row for row in PAGES])
def test_a_page_is_the_first_documents_as_json_with_its_length(
    row: Any, server: Any, collection: Any
) -> None:
    if reason := row.missing():
        pytest.skip(reason)
    site = _program.Site(row.command("page", server.uri, collection.database.name, collection.name))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{site.port}/", timeout=60) as answer:
            body = answer.read()
    finally:
        site.close()
    found = json.loads(body)

    assert answer.headers["Content-Length"] == str(len(body))
    assert [each["_id"] for each in found] == list(range(30))
    assert {**found[7], "created": found[7]["created"][:19]} == {
        "_id": 7,
        **documents.member(7),
        "created": "2026-01-01T00:07:00",
    }
    assert site._process.returncode == 0


def test_a_program_that_ends_is_told_with_its_last_words() -> None:
    program = _program.Program(["sh", "-c", "echo broken >&2; exit 3"])
    try:
        with pytest.raises(_program.ProgramError, match=r"exit status 3 broken"):
            program.ask("open", "x")
    finally:
        program.close()


def test_the_experiments_are_played_only_by_name_and_every_verb_is_there() -> None:
    known = registry.experiments()
    for name in ("languages", "languages-control", "languages-one-core", "languages-idle", "crowd"):
        assert known[name].only_named
    verbs = {part.id.replace("-", "_") for part in known["languages"].parts(Size())} - {"process", "page"}
    for source in ("c/program.c", "rust/src/main.rs", "go/main.go", "node/program.js"):
        text = (SOURCES / source).read_text()
        assert [verb for verb in verbs if verb not in text] == [], source
    java = (SOURCES / "java/src/main/java/Program.java").read_text()
    assert [verb for verb in verbs if f'case "{verb}"' not in java] == []


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    absent = {row.id: row.missing() for row in languages.CONTENDERS if row.language != "python"}

    assert absent["rust-program"] == "not installed: cargo"
    assert absent["java-program"] == "not installed: java, javac, mvn"
    assert all(absent.values())


def test_a_program_is_built_once_for_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Path] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(_build._STEPS, "c", built.append)
    _build.build("c")
    _build.build("c")

    assert len(built) == 1
    assert (built[0] / "program.c").exists()
    assert built[0].is_relative_to(tmp_path)
    assert _build.command("c") == [str(built[0] / "program")]


def test_lock_files_pin_and_name_no_host() -> None:
    lock = json.loads((SOURCES / "node/package-lock.json").read_text())
    assert not [name for name, each in lock["packages"].items() if "resolved" in each]
    assert lock["packages"]["node_modules/mongodb"]["version"] == "7.9.0"
    crates = tomllib.loads((SOURCES / "rust/Cargo.lock").read_text())["package"]
    indexes = {each["source"] for each in crates if "source" in each}
    assert indexes == {"registry+https://github.com/rust-lang/crates.io-index"}


LINTERS = {
    "c": ["gcc", "-fsyntax-only", "-std=gnu11", *_build.WARNINGS, "program.c"],
    # Without its wish for functions of Annex K, such as snprintf_s, which glibc does not have.
    "clang-tidy": [
        "clang-tidy",
        "--quiet",
        "--checks=-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling",
        "--warnings-as-errors=*",
        "program.c",
        "--",
        "-std=gnu11",
    ],
    "go": ["go", "vet", "./..."],
    "golangci-lint": ["golangci-lint", "run", "./..."],
    "gofmt": ["gofmt", "-l", "."],
    "node": ["node", "--check", "program.js"],
    "node-page": ["node", "--check", "page.js"],
    "rustfmt": ["rustfmt", "--check", "--edition", "2024", "src/main.rs", "build.rs"],
    "rust": ["cargo", "clippy", "--quiet", "--locked", "--", "-D", "warnings"],
}
FOLDERS = {"clang-tidy": "c", "gofmt": "go", "golangci-lint": "go", "node-page": "node", "rustfmt": "rust"}
QUICK = ("c", "gofmt", "node", "node-page", "rustfmt")


@pytest.mark.timeout(1800)  # clippy compiles a hundred crates the first time
@pytest.mark.parametrize("name", LINTERS)
def test_sources_pass_their_linters(name: str) -> None:
    """Run the linters that need no driver. MANGONEL_LINT_LANGUAGES=1 adds clippy and vet, which fetch and compile it.

    javac -Xlint:all -Werror and the C compiler's warnings are part of the builds.
    """
    if name not in QUICK and not os.environ.get("MANGONEL_LINT_LANGUAGES"):
        pytest.skip("takes minutes: make bench-languages does it")
    command = LINTERS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    folder = SOURCES / FOLDERS.get(name, name)
    if folder.name == "c":
        if _build.lacking("c", ["gcc", "pkg-config"]):
            pytest.skip("libmongoc is not installed")
        command = [*command, *_build._flags()[0]]
    # Beside the built programs, so that only the first time takes minutes.
    environment = {**os.environ, "CARGO_TARGET_DIR": str(_build._folder(folder.name).parent / "rust-target")}
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)

    assert (told.returncode, told.stdout.strip().removeprefix("0 issues.")) == (0, ""), (
        told.stdout + told.stderr
    )
