"""The command `mangonel`: its version, its help, and its few imports."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from mangonel import cli
from mangonel._command_line import write_output
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


# Nothing listens there, and DNS is not asked.
UNREACHED = "mongodb://127.0.0.1:1/shop?serverSelectionTimeoutMS=1"


def run(words: str, *, encoding: str = "utf-8") -> tuple[int, bytes, bytes]:
    """Run Python by a shell, which redirects its streams; return its status and its outputs."""
    line = f"'{sys.executable}' {words}".encode("utf-8", "surrogateescape")
    variables = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "1"}
    ended = subprocess.run([b"/bin/sh", b"-c", line], capture_output=True, timeout=60, env=variables)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell of POSIX")
@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_command_needs_no_open_standard_stream(stream: int) -> None:
    status, _, shown = run(f"-m mangonel doctor --timeout 1 '{UNREACHED}' {stream}>&-")
    assert (status, shown) == (5, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell of POSIX")
@pytest.mark.parametrize(
    ("words", "stream"),
    [
        ("doctor - <&-", "input"),
        (f"gridfs put '{UNREACHED}' - <&-", "input"),
        (f"gridfs get '{UNREACHED}' name -o - >&-", "output"),
        (f"export '{UNREACHED}' orders -o - >&-", "output"),
    ],
)
def test_a_closed_standard_stream_that_is_named_is_refused(words: str, stream: str) -> None:
    status, _, shown = run(f"-m mangonel {words}")
    assert status == 2
    assert shown.decode().endswith(f"error: expected an open standard {stream} for -, got a closed one\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell of POSIX")
def test_characters_that_the_terminal_lacks_are_escaped() -> None:
    program = "from mangonel import cli; cli.prepare_streams(); print('größe 日')"
    _, shown, _ = run(f'-c "{program}"', encoding="ascii")
    assert shown == b"gr\\xf6\\xdfe \\u65e5\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell of POSIX")
def test_a_word_that_is_no_text_is_refused() -> None:
    status, _, shown = run(f"-m mangonel schema '{UNREACHED}' gr\udcf6sse")
    assert status == 2
    assert shown.endswith(b"error: expected words in utf-8, got 'gr\\udcf6sse'\n")


def test_a_file_on_standard_output_is_whole_where_the_terminal_lacks_characters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    print("before")
    write_output('{"größe": 1}\n', None)
    print("behind", flush=True)
    assert written.getvalue().decode() == 'before\n{"größe": 1}\nbehind\n'
