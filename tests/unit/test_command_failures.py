"""No command ends in a traceback when a package, a mongod or a deployment is missing: each names a remedy."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mangonel
from mangonel._command_line import children, explain, parsers
from mangonel.cli import COMMANDS, main, parser_of
from mangonel.errors import PyMongoError

DEAD = "mongodb://127.0.0.1:1/shop?serverSelectionTimeoutMS=50"
NOWHERE = "/nonexistent/file"
NO_MONGOD = "MANGONEL_MONGOD names '/nonexistent', which is not an executable file"
UNREACHED = "Connection refused); `mangonel doctor URI` says what is in the way"

# Command line -> exit status, message.
LINES: dict[str, tuple[int, str]] = {
    "serve --port 0": (1, NO_MONGOD),
    f"doctor {DEAD} --timeout 0.2": (5, "connection refused: "),
    "doctor mongodb+srv://a.invalid/": (4, 'pip install "mangonel[srv]"'),
    f"gridfs ls {DEAD}": (1, UNREACHED),
    f"gridfs put {DEAD} {NOWHERE}": (2, f"mangonel gridfs put: No such file or directory: {NOWHERE}\n"),
    f"gridfs get {DEAD} x": (1, UNREACHED),
    f"gridfs rm {DEAD} x": (1, UNREACHED),
    "gridfs ls mongodb+srv://a.invalid/": (1, "install mangonel[srv]"),
    "gridfs ls mongodb://a:b:c@d": (2, "must be escaped"),
    "gridfs ls mongodb://a:b/c@d": (2, "must be escaped"),
    "export mongodb://d:1:2/shop orders": (2, "got several ':'"),
    "export mongodb://a:b/c@d orders": (2, "must be escaped"),
    f"import {DEAD} {NOWHERE}": (2, f"mangonel import: No such file or directory: {NOWHERE}\n"),
    f"import {DEAD} orders.jsonl": (1, UNREACHED),
    f"export {DEAD} orders": (1, UNREACHED),
    f"export {DEAD} orders -o orders.parquet --mode plain": (2, "--mode is for JSON lines; leave it out"),
    f"import {DEAD} orders.parquet": (1, 'pyarrow is not installed; pip install "mangonel[arrow]"'),
    f"advise {DEAD}": (1, UNREACHED),
    f"schema {DEAD} orders": (1, UNREACHED),
    f"schema {DEAD} orders --check {NOWHERE}": (
        2,
        f"mangonel schema: No such file or directory: {NOWHERE}\n",
    ),
    f"odm diff {DEAD} shop_models": (1, UNREACHED),
    f"odm pull {DEAD}": (1, UNREACHED),
    f"odm migrate {DEAD} migrations": (1, UNREACHED),
    f"odm migrate {DEAD} {NOWHERE}": (2, f"mangonel odm migrate: No such file or directory: {NOWHERE}\n"),
    f"odm migrate {DEAD} orders.jsonl": (2, "mangonel odm migrate: Not a directory: orders.jsonl\n"),
    f"odm migrate {DEAD} migrations --to 99": (
        2,
        "argument --to: expected 0 or the number of a migration, 1 to 1, as the version to have, got 99",
    ),
    f"schema {DEAD} orders --check empty.json": (
        2,
        "empty.json: expected the schema of a collection, a mapping",
    ),
    f"export {DEAD} orders -o - --resume": (2, "expected the name of a file after -o with --resume, got -"),
    f"odm indexes {DEAD} shop_models": (1, UNREACHED),
    f"odm check {DEAD} shop_models": (1, UNREACHED),
    "odm check mongodb://localhost shop_models": (2, "expected the name of a database"),
    "odm schema shop_models": (0, ""),
    "odm schema no_such": (2, "got none called 'no_such'"),
    "admin shop_models": (1, 'pip install "mangonel[websessions]"'),
    **{
        "websessions {0} {2} {1}".format(*action.partition(" ")[::2], uri).strip(): (
            1,
            'pip install "mangonel[websessions]"',
        )
        for action in ("setup", "purge", "stats", "list x", "revoke x", "export x")
        for uri in (DEAD, "redis://127.0.0.1:1/0")
    },
    "lab first": (1, NO_MONGOD),
    "lab run find-one --quick": (1, NO_MONGOD),
    "lab aa find-one": (1, NO_MONGOD),
    "lab profile find-one": (1, NO_MONGOD),
    f"lab doctor {DEAD}": (1, "cannot be reached"),
    "lab doctor": (1, NO_MONGOD),
    "lab up": (1, NO_MONGOD),
    "lab down": (0, "no servers are running"),
    "lab list": (0, ""),
    **{
        f"lab {name}": (2, f"cannot read {NOWHERE}: No such file or directory\n")
        for name in (
            f"show {NOWHERE}",
            f"report {NOWHERE}",
            f"marks {NOWHERE}",
            f"compare {NOWHERE} {NOWHERE}",
            f"guard {NOWHERE}",
            f"aa --from {NOWHERE}",
        )
    },
    "demo --port 0": (1, 'tornado is not installed; pip install "mangonel[demo]"'),
    f"demo {DEAD} --port 0": (1, 'tornado is not installed; pip install "mangonel[demo]"'),
    "lab run find-one --plugin bad.json": (2, "bad.json; expected a .py file or a module"),
    "lab list --plugin none.py": (2, "none.py; expected a .py file or a module"),
    "lab list --plugin shop_models.py": (2, "shop_models.py, got none"),
    "completion bash": (0, ""),
}

MIGRATION = "COLLECTION = 'orders'\ndef forward(document):\n    return document\n"
MODELS = "from mangonel.odm import Document\nclass Order(Document):\n    number: int\n"

# Runs all lines in one process, which has no package but this one. The message about an absent server depends on the
# findings within a short limit: on a busy machine there may be none at first.
WALK = """
import contextlib, io, json, sys, traceback
from mangonel.cli import main
told = {}
for line, (_, expected) in json.load(sys.stdin).items():
    for attempt in range(20):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                status = main(line.split())
            except SystemExit as exit:
                status = exit.code
            except BaseException:
                status = traceback.format_exc()
        told[line] = status, out.getvalue()
        if expected in out.getvalue() or "127.0.0.1:1" not in line:
            break
json.dump(told, sys.stdout)
"""


def test_what_is_missing_is_named_with_what_helps(tmp_path: Path) -> None:
    (tmp_path / "shop_models.py").write_text(MODELS)
    (tmp_path / "orders.jsonl").write_text("{}\n")
    (tmp_path / "empty.json").write_text("{}")
    (tmp_path / "orders.parquet").write_bytes(b"")
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations/0001_first.py").write_text(MIGRATION)
    environment = {
        "PATH": NOWHERE,
        "PYTHONPATH": str(Path(mangonel.__file__).parent.parent),
        "MANGONEL_MONGOD": "/nonexistent",
        "XDG_STATE_HOME": str(tmp_path),
        "HOME": os.environ.get("HOME", "/"),
    }
    # -S: nothing of site-packages, so no extra.
    ran = subprocess.run(
        [sys.executable, "-S", "-c", WALK],
        input=json.dumps(LINES),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    told: dict[str, tuple[int | str, str]] = json.loads(ran.stdout)
    wrong = {
        line: (status, text)
        for line, (status, text) in told.items()
        if status != LINES[line][0] or LINES[line][1] not in text or "Traceback" in text
    }
    assert wrong == {}
    assert list(told) == list(LINES)


def test_a_slip_of_ours_keeps_its_traceback() -> None:
    assert explain(ImportError("cannot import name 'x' from 'mangonel'"), "lab") == ("", 1)
    slip = TypeError("expected a str")
    slip.__cause__ = PyMongoError("refused")
    assert explain(slip, "lab") == ("", 1)
    assert explain(PyMongoError("refused"), "lab") == ("refused", 1)
    elsewhere = ModuleNotFoundError("No module named 'fcntl'", name="fcntl")
    assert explain(elsewhere, "lab") == ("expected Linux or macOS: Python has fcntl there alone", 1)


@pytest.mark.parametrize("action", ["setup", "purge", "stats"])
@pytest.mark.parametrize(
    "store", [DEAD, "postgresql://u:secret@127.0.0.1:1/x", "mysql://u:secret@127.0.0.1:1/x", "sqlite:///no/x"]
)
def test_a_store_that_is_away_is_named_without_its_password(
    action: str, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from mangonel.cli import main

    pytest.importorskip("msgspec")
    assert main(["websessions", action, store]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"mangonel websessions {action}: {store.partition(':')[0]}:")
    assert "secret" not in said


LEAVES = [parser for parser in parsers(parser_of(COMMANDS)) if not children(parser)]
# Its findings have exit statuses of their own.
JUDGES = "mangonel doctor"


def test_every_command_was_tried_without_what_it_needs() -> None:
    lines = [f"mangonel {line} " for line in LINES]
    assert [leaf.prog for leaf in LEAVES if not any(line.startswith(f"{leaf.prog} ") for line in lines)] == []


def typed(leaf: argparse.ArgumentParser, uri: str = "") -> list[str]:
    """Return a command line of this command, with a value for each required argument."""
    words = leaf.prog.split()[1:]
    for action in leaf._actions:
        if action.metavar == "URI":
            words += [uri] if uri else []
        elif not action.option_strings and action.nargs in (None, "+"):
            words.append(next(iter(action.choices or ["x"])))
    return words


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.prog)
def test_an_option_that_does_not_exist_is_wrong_use(
    leaf: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*typed(leaf, DEAD), "--no-such-option"])
    assert ended.value.code == 2
    assert f"{leaf.prog}: error: unrecognized arguments: --no-such-option\n" in capsys.readouterr().err


@pytest.mark.parametrize("parser", list(parsers(parser_of(COMMANDS))), ids=lambda parser: parser.prog)
def test_help_fits_a_terminal_of_80_columns(
    parser: argparse.ArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    wide = [line for line in parser.format_help().splitlines() if len(line) > 80]
    assert wide == []


NUMBERS = {
    (leaf.prog, action.option_strings[-1]): leaf
    for leaf in LEAVES
    for action in leaf._actions
    # Types other than files are numbers.
    if action.option_strings
    and action.type not in (None, Path)
    and getattr(action.type, "__annotations__", {}).get("return") != "Path"
}


@pytest.mark.parametrize("given", ["many", "", "nan", "1e999", "-1e999", "9" * 30])
def test_an_option_with_a_number_refuses_other_values(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {}
    for (prog, option), leaf in NUMBERS.items():
        with pytest.raises(SystemExit) as ended:
            main([*typed(leaf, DEAD), f"{option}={given}"])
        said = capsys.readouterr().err.splitlines()[-1]
        if ended.value.code != 2 or f"{option}: expected " not in said or not said.endswith(f"got {given!r}"):
            wrong[prog, option] = ended.value.code, said
    assert wrong == {}
    assert len(NUMBERS) > 20


@pytest.mark.parametrize(
    "leaf",
    [
        leaf
        for leaf in LEAVES
        if leaf.prog != JUDGES and any(action.metavar == "URI" for action in leaf._actions)
    ],
    ids=lambda leaf: leaf.prog,
)
@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("mongodb://ada:pencil@a,b/shop?directConnection=true", "Cannot specify multiple hosts"),
        ("mongodb://ada:pencil@a:pencil/shop", "Port"),
        ("mongodb://ada:pencil@a/shop?tls=true&ssl=false", "conflicting"),
    ],
)
def test_a_uri_that_cannot_be_used_is_wrong_use(
    leaf: argparse.ArgumentParser, uri: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(typed(leaf, uri))
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"{leaf.prog}: error: " in said
    assert told.lower() in said.lower()
    assert "ada:pencil" not in said


def test_a_warning_is_one_line_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gridfs", "ls", f"{DEAD}&maxPoolSize=many"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "mangonel gridfs ls: warning: maxPoolSize must be an integer, not 'many'"
    assert len(said) == 2


@pytest.mark.parametrize("name", ["lab", "demo"])
def test_a_command_that_is_not_in_everybodys_wheel_says_what_brings_it(name: str) -> None:
    missing = ModuleNotFoundError(f"No module named 'mangonel.{name}'", name=f"mangonel.{name}")
    said, status = explain(missing, name)
    assert (said, status) == (
        f'the command {name} is not installed; pip install "mangonel[{name}]"',
        1,
    )


@pytest.mark.parametrize(
    "line",
    [
        "URI",
        "gridfs ls x URI",
        "gridfs get URI",
        "export orders URI",
        "doctor URI more",
        "odm check shop_models URI",
        "lab run find-one URI",
        "lab compare URI x",
        "lab show URI",
        "websessions stats x URI",
    ],
)
def test_a_uri_in_the_wrong_place_is_refused_without_its_login(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([word.replace("URI", "mongodb://ada:pen@cil@127.0.0.1:1/shop") for word in line.split()])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "error: " in said
    assert "ada" not in said
    assert "cil" not in said
