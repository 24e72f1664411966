"""`mangonel completion bash|zsh|fish`: scripts made from the parsers, so they know every command and option.

A script runs no program when you press TAB: it is a table from the typed words to the words that may follow.
"""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from mangonel._command_line import Parser, add_command, add_output, children, parsers, write_output

# Shell -> the path of its script.
SHELLS = {
    "bash": "~/.local/share/bash-completion/completions/mangonel",
    "zsh": "a folder of $fpath, as _mangonel",
    "fish": "~/.config/fish/completions/mangonel.fish",
}


class Place(NamedTuple):
    """The words that may follow some typed words.

    Args:
        words: the typed command and sub-commands, without options.
        offers: each word that may follow, with its description.
        options: each option that may follow, with its description.
        valued: the options that take a value.
        commands: the offers that lead to another place.
    """

    words: str
    offers: dict[str, str]
    options: dict[str, str]
    valued: list[str]
    commands: list[str]


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="Where nothing is known that may follow, files are offered. The script goes to: "
        + "; ".join(f"{place} ({shell})" for shell, place in SHELLS.items())
        + ".",
        example="""
        source <(mangonel completion bash)
        mangonel completion fish -o ~/.config/fish/completions/mangonel.fish
        """,
    )
    parser.add_argument("shell", choices=list(SHELLS), metavar="SHELL", help="bash, zsh or fish")
    add_output(parser, "write it there (default: standard output)")
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Print the script."""
    from mangonel.cli import COMMANDS, parser_of

    known = []
    for name in COMMANDS:
        # A command with missing dependencies is offered without its own words.
        with contextlib.suppress(ImportError):
            parser_of([name])
            known.append(name)
    write_output(script(options.shell, parser_of(known)), options.output)
    return 0


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the completion script for a shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](list(_places(parser)))


def _places(parser: argparse.ArgumentParser) -> Iterator[Place]:
    for each in parsers(parser):
        place = Place(_words(each.prog), {}, {}, [], list(children(each)))
        for action in each._actions:
            if isinstance(action, argparse._SubParsersAction):
                place.offers.update({choice.dest: choice.help or "" for choice in action._choices_actions})
            elif not action.option_strings:
                place.offers.update(dict.fromkeys(map(str, action.choices or ()), action.help or ""))
            for option in action.option_strings:
                place.options[option] = (action.help or "").replace("%%", "%")
                if action.nargs != 0:
                    place.valued.append(option)
        yield place


def _words(prog: str) -> str:
    # argparse includes the positional arguments of a parser in the `prog` of its sub-parsers.
    return " ".join(re.findall(r"[a-z0-9-]+", prog))


# The same `case` for bash and zsh: it finds the place from the words before the cursor.
WALK = """\
    local place=mangonel each
    for each in {before}; do
        case "$place $each" in
            {commands}) place="$place $each" ;;
        esac
    done
    case "$place $previous" in
        {valued}) {files} ;;
    esac
"""


def _walk(places: list[Place], before: str, files: str) -> str:
    commands = [f"{place.words} {name}" for place in places for name in place.commands]
    valued = [f"{place.words} {option}" for place in places for option in place.valued]
    return WALK.format(before=before, commands=_patterns(commands), valued=_patterns(valued), files=files)


def _patterns(texts: list[str]) -> str:
    return " | \\\n            ".join(f'"{text}"' for text in texts)


def _bash(places: list[Place]) -> str:
    cases = "".join(
        f'        "{place.words}") offers="{" ".join(place.offers)}" options="{" ".join(place.options)}" ;;\n'
        for place in places
    )
    return f"""\
# bash completion for mangonel; made by `mangonel completion bash`
_mangonel() {{
    local offers= options= word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD - 1]}}"
    COMPREPLY=()
{_walk(places, '"${COMP_WORDS[@]:1:COMP_CWORD - 1}"', "return")}\
    case "$place" in
{cases}\
    esac
    [[ $word == -* ]] && offers="$options"
    # With no match, `-o default` offers files.
    mapfile -t COMPREPLY < <(compgen -W "$offers" -- "$word")
}}
complete -o default -F _mangonel mangonel
"""


def _zsh(places: list[Place]) -> str:
    cases = "".join(
        f'        "{place.words}")\n'
        f"            offers=({_described(place.offers)})\n"
        f"            options=({_described(place.options)}) ;;\n"
        for place in places
    )
    return f"""\
#compdef mangonel
# zsh completion for mangonel; made by `mangonel completion zsh`
_mangonel() {{
    local -a offers options
    local previous="${{words[CURRENT - 1]}}"
{_walk(places, '"${(@)words[2,CURRENT - 1]}"', "_files; return")}\
    case "$place" in
{cases}\
    esac
    if [[ $PREFIX == -* ]]; then _describe option options
    elif (( $#offers )); then _describe command offers
    else _files
    fi
}}
# Loaded by its name from $fpath, or read by `source`.
if [[ $funcstack[1] == _mangonel ]]; then _mangonel "$@"; else compdef _mangonel mangonel; fi
"""


def _described(offers: dict[str, str]) -> str:
    return " ".join(_quoted(f"{word}:{text}") for word, text in offers.items())


def _fish(places: list[Place]) -> str:
    lines = []
    for place in places:
        begin = f"complete -c mangonel -n '__mangonel_is_at \"{place.words}\"'"
        for word, text in place.offers.items():
            lines.append(f"{begin} -f -a {word} -d {_quoted(text)}")
        for option, text in place.options.items():
            named = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            lines.append(f"{begin} {named}{' -r' if option in place.valued else ''} -d {_quoted(text)}")
    steps = "".join(
        f'            case "{place.words} {name}"\n                set place "$place $each"\n'
        for place in places
        for name in place.commands
    )
    return f"""\
# fish completion for mangonel; made by `mangonel completion fish`
function __mangonel_is_at
    set -l place mangonel
    for each in (commandline -opc)[2..-1]
        switch "$place $each"
{steps}\
        end
    end
    test "$place" = "$argv[1]"
end
""" + "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    """Quote a text as one word for all three shells."""
    return "'" + text.replace("'", "'\\''").replace("\n", " ") + "'"
