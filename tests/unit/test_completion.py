"""`mangonel completion`: the scripts offer the possible next words, in the installed shells."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from mangonel._completion import SHELLS, script
from mangonel.cli import COMMANDS, main, parser_of

# The text up to the cursor, and the completions.
CASES = [
    ("mangonel gri", {"gridfs"}),
    ("mangonel gridfs ", {"put", "get", "ls", "rm"}),
    ("mangonel gridfs put mongodb://localhost/shop --na", {"--name"}),
    ("mangonel gridfs get --chu", set()),
    ("mangonel lab ru", {"run"}),
    ("mangonel completion ", set(SHELLS)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        (folder / shell).write_text(script(shell, parser_of(COMMANDS)))
    return folder


def ask(shell: str, program: str, folder: Path) -> list[set[str]]:
    """Run a shell's program and return the first words of its lines, in blocks that end with an empty line."""
    ran = subprocess.run(
        [shell, "--norc" if shell == "bash" else "--no-config", "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    blocks = ran.stdout.split("=\n")[:-1]
    return [{line.split("\t")[0] for line in block.splitlines()} for block in blocks]


def test_bash_completes_commands_options_and_choices(folder: Path) -> None:
    # As readline does it: the words, the index of the word at the cursor, the function that `complete` names.
    program = "source ./bash\n"
    for typed, _ in CASES:
        words = typed.split(" ")
        program += f"COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}\n"
        program += "_mangonel; for each in ${COMPREPLY[@]}; do echo $each; done; echo =\n"
    program += "complete -p mangonel | grep -q -- '-F _mangonel mangonel' || exit 3"
    assert ask("bash", program, folder) == [offered for _, offered in CASES]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_options_and_choices(folder: Path) -> None:
    program = "source ./fish\n" + "".join(f"complete -C '{typed}'; echo =\n" for typed, _ in CASES)
    assert ask("fish", program, folder) == [offered for _, offered in CASES]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_its_script(folder: Path) -> None:
    subprocess.run(["zsh", "-f", "-n", folder / "zsh"], check=True, timeout=60)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_or_written(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    assert main(["completion", shell, "-o", str(tmp_path / "script")]) == 0
    assert (tmp_path / "script").read_text() == capsys.readouterr().out
