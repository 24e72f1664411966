"""The command `mangonel`: its version, its help, and its few imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mangonel import cli
from mangonel._version import __version__


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert (caught.value.code, capsys.readouterr().out) == (0, f"mangonel {__version__}\n")


def test_the_help_lists_every_sub_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = capsys.readouterr().out
    for name in cli.COMMANDS:
        assert f"\n    {name}" in shown


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_sub_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([name, "--help"])
    assert caught.value.code == 0
    assert f"usage: mangonel {name}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["serve", "--help"]])
def test_what_is_not_asked_for_is_not_imported(arguments: list[str]) -> None:
    program = f"""
import sys
from mangonel.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
loaded = sorted(name for name in sys.modules if name.startswith("mangonel."))
assert not any(".cli" in name[9:] for name in loaded), loaded
assert "mangonel._core" not in sys.modules
assert "asyncio" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)
