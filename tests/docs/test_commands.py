"""Shell commands on pages exist: the program's sub-commands and options, make's targets, the extras."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shlex
import tomllib

import pytest

from docs.pages import ROOT, blocks, name_of, pages
from mangonel import cli

# Other programs, whose options are not checked.
OTHERS = {"cargo", "cd", "curl", "docker", "git", "gunicorn", "kinit", "sudo", "uvicorn"}
OURS = {"make", "mangonel", "pip", "python"}
# Placeholders in a synopsis, and a value that every option accepts.
PLACEHOLDERS = {"URI": "mongodb://localhost/app", "URL": "memory:", "SCRIPT": "x.py", "N": "3", "…": ""}

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TARGETS = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)) | {
    "soak",
    "lock",
}


def commands():
    for page in pages():
        for block in blocks(page):
            first = block.code.split(maxsplit=1)[:1]
            if block.language == "sh" or (not block.language and first and first[0] in OURS):
                for number, line in enumerate(block.code.splitlines()):
                    # After a pipe comes another program.
                    words = shlex.split(line.partition(" | ")[0], comments=True)
                    # Variables before a command, or alone.
                    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                        words.pop(0)
                    if words:
                        yield pytest.param(words, id=f"{name_of(page)}:{block.line + number}")


@pytest.mark.parametrize("words", list(commands()))
def test_command_exists(words):
    program, *arguments = words
    program = program.rpartition("/")[2]
    arguments = [PLACEHOLDERS.get(word, word) for word in arguments]
    if program == "make":
        assert {word for word in arguments if "=" not in word} <= TARGETS
    elif program == "mangonel":
        parse(arguments)
    elif program == "pip":
        for extras in re.findall(r"\[([\w,]+)\]", " ".join(arguments)):
            assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    elif program == "python":
        assert arguments[0] == "-m"
        assert importlib.util.find_spec(arguments[1]), arguments[1]
    else:
        assert program in OTHERS


def parse(arguments):
    """Parse as the program does, but run nothing."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            _, unknown = cli.parser_of(arguments[:1]).parse_known_args(arguments)
    except SystemExit:
        pytest.fail(f"{arguments}: {complaint.getvalue()}")
    assert unknown == []


def test_an_option_that_is_not_there_is_noticed():
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        parse(["serve", "--replica-sets", "3"])
