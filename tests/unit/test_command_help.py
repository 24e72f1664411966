"""Every command of `mangonel` has the same structure and explains itself: all parsers are visited."""

from __future__ import annotations

import argparse
import re
import shlex

import pytest

from mangonel._command_line import children, parsers
from mangonel.cli import COMMANDS, parser_of

ALL = {parser.prog: parser for parser in parsers(parser_of(COMMANDS))}
LEAVES = {name: parser for name, parser in ALL.items() if not children(parser)}

# Commands that talk to a deployment or a store; the others need none.
WITH_URI = {
    "mangonel advise",
    "mangonel doctor",
    "mangonel demo",
    "mangonel import",
    "mangonel export",
    "mangonel schema",
    *(f"mangonel gridfs {name}" for name in ("put", "get", "ls", "rm")),
    *(f"mangonel odm {name}" for name in ("indexes", "check", "diff", "pull", "migrate")),
    *(f"mangonel websessions {name}" for name in ("setup", "purge", "stats", "list", "revoke", "export")),
    *(f"mangonel lab {name}" for name in ("first", "run", "guard", "aa", "profile", "doctor")),
}
# Commands that write a file or a folder of files.
WITH_OUTPUT = {
    "mangonel gridfs get",
    "mangonel odm pull",
    "mangonel odm schema",
    "mangonel export",
    "mangonel schema",
    "mangonel completion",
    *(f"mangonel lab {name}" for name in ("first", "run", "report", "aa", "profile")),
}


def arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]


@pytest.mark.parametrize("name", ALL)
def test_a_command_says_what_it_does_with_an_example_and_its_exit_statuses(name: str) -> None:
    parser = ALL[name]
    assert parser.description is not None
    assert re.fullmatch(r"[A-Z].*[.?]", parser.description), parser.description
    epilog = parser.epilog or ""
    assert re.match(rf"example:\n  .*{name}\b", epilog), epilog
    statuses = epilog[epilog.index("exit status: 0 ") :]
    assert all(f"; {status} " in statuses for status in (1, 2, 130)), statuses


@pytest.mark.parametrize("name", ALL)
def test_every_argument_says_what_it_is_for(name: str) -> None:
    for action in arguments(ALL[name]):
        assert action.help, action
        assert action.help != argparse.SUPPRESS, action
        # A value's placeholder is in capitals, and not derived from the option's name.
        if action.nargs != 0 and not isinstance(action, argparse._VersionAction | argparse._HelpAction):
            assert action.metavar is not None, action


@pytest.mark.parametrize("name", LEAVES)
def test_the_uri_is_the_first_word(name: str) -> None:
    words = [action for action in arguments(LEAVES[name]) if not action.option_strings]
    assert [action.metavar == "URI" for action in words] == [
        index == 0 and name in WITH_URI for index in range(len(words))
    ]
    options = {option for action in arguments(LEAVES[name]) for option in action.option_strings}
    assert not options & {"--uri", "--url"}
    assert (name in WITH_URI) == ("URI" in LEAVES[name].format_usage())


@pytest.mark.parametrize("name", LEAVES)
def test_output_goes_to_o(name: str) -> None:
    options = {option for action in arguments(LEAVES[name]) for option in action.option_strings}
    assert ({"-o", "--output"} <= options) == (name in WITH_OUTPUT)
    assert "--out" not in options


@pytest.mark.parametrize("name", ALL)
def test_an_example_can_be_typed(name: str) -> None:
    epilog = re.sub(r" \\\n +", " ", ALL[name].epilog or "")
    lines = re.findall(r"mangonel .*", epilog[: epilog.index("exit status")])
    assert lines
    for line in lines[: len(re.findall(r"^  .*", epilog, re.MULTILINE))]:
        words = shlex.split(re.split(r" [|<>] |\)$", line)[0])
        if words[1] in COMMANDS:
            parser_of([words[1]]).parse_args(words[1:])


@pytest.mark.parametrize(
    ("line", "uri", "rest"),
    [
        ("gridfs put a b", "mongodb://localhost:27017", ["a", "b"]),
        ("gridfs put mongodb://h/x a b", "mongodb://h/x", ["a", "b"]),
        ("gridfs put - --name x", "mongodb://localhost:27017", ["-"]),
        ("gridfs ls mongodb://h/x", "mongodb://h/x", None),
        ("gridfs ls photo.jpg", "mongodb://localhost:27017", "photo.jpg"),
        ("lab run mongodb://h --quick find-one web", "mongodb://h", ["find-one", "web"]),
        ("lab run find-one --quick web", None, ["find-one", "web"]),
        ("lab run --quick", None, []),
        ("doctor localhost:27018 --json", "localhost:27018", None),
    ],
)
def test_a_uri_may_be_left_out_where_a_usual_one_is_known(
    line: str, uri: str | None, rest: list[str] | str | None
) -> None:
    words = line.split()
    options = vars(parser_of([words[0]]).parse_args(words))
    assert options["uri"] == uri
    names = ("files", "name", "experiments") if "put" not in words else ("files",)
    assert next((options[name] for name in names if name in options), None) == rest


@pytest.mark.parametrize("line", ["export mongodb://h/x", "gridfs get mongodb://h/x", "import mongodb://h/x"])
def test_a_uri_is_not_taken_for_the_word_that_is_missing(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = line.split()
    with pytest.raises(SystemExit) as refused:
        parser_of([words[0]]).parse_args(words)
    assert refused.value.code == 2
    assert "after the URI mongodb://h/x" in capsys.readouterr().err
