"""A missing program is unpacked into an environment, and nothing else of the system changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mangonel.engines import programs
from tools.programs import load_program

TOOL = Path(__file__).parents[2] / "tools/unpacked.py"

# Stand-ins for Debian's programs: apt-get "downloads" a name, from which dpkg-deb makes files.
APT = """#!/bin/sh
case "$*" in
*update*) exit ${UPDATE:-0} ;;
*simulate*) echo "Inst redis-server (7)"; echo "Inst liblzf1 (3)"; echo "Conf redis-server (7)" ;;
*download*) touch redis-server.deb liblzf1.deb ;;
esac
"""
DPKG = """#!/bin/sh
case "$2" in
*redis-server.deb)
  mkdir -p "$3/usr/bin"
  printf '#!/bin/sh\\necho "$LD_LIBRARY_PATH $*"\\n' > "$3/usr/bin/redis-server"
  chmod +x "$3/usr/bin/redis-server" ;;
*) mkdir -p "$3/usr/lib" && touch "$3/usr/lib/liblzf.so.1" ;;
esac
"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", list(sys.path))
    return load_program(TOOL)


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    (tmp_path / "env/bin").mkdir(parents=True)
    return tmp_path / "env"


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "debian"
    folder.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-deb", DPKG)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


@pytest.fixture
def without_redis(monkeypatch: pytest.MonkeyPatch, environment: Path) -> None:
    """Act as if the system had no such program: only the environment's own is looked for."""
    monkeypatch.setattr(programs, "FOLDERS", ())
    monkeypatch.setattr(programs.shutil, "which", lambda name: None)
    monkeypatch.setattr(programs.sys, "prefix", str(environment))
    monkeypatch.delenv(programs.WISH, raising=False)


@pytest.mark.usefixtures("debian")
def test_a_program_comes_with_its_libraries_and_is_found(
    tool: ModuleType, environment: Path, request: pytest.FixtureRequest
) -> None:
    launcher = tool.unpack("redis-server", environment)
    said = subprocess.run([launcher, "--port", "1 2"], capture_output=True, text=True, check=True).stdout
    assert said == f"{environment}/debian/redis-server/usr/lib --port 1 2\n"
    request.getfixturevalue("without_redis")
    assert programs.find_program("redis-server") == str(launcher)


@pytest.mark.usefixtures("debian")
def test_a_mirror_that_does_not_answer_leaves_nothing_and_is_told_with_the_remedy(
    tool: ModuleType,
    environment: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("UPDATE", "100")
    monkeypatch.setattr(tool, "has_program", lambda name: False)
    monkeypatch.setattr(sys, "argv", ["unpacked.py", "redis-server", str(environment)])
    tool.main()
    said = capsys.readouterr().out
    assert "redis-server is not installed and cannot be downloaded here: apt-get: exit status 100" in said
    assert "install Debian's package redis-server" in said
    assert list((environment / "bin").iterdir()) == []


@pytest.mark.usefixtures("debian")
@pytest.mark.parametrize(("status", "is_kept"), [(1, True), (127, False)])
def test_a_program_that_lacks_a_library_is_not_kept_and_one_that_knows_no_version_is(
    tool: ModuleType, environment: Path, tmp_path: Path, status: int, is_kept: bool
) -> None:
    (tmp_path / "debian/dpkg-deb").write_text(DPKG.replace("echo", f"exit {status} #"))
    if is_kept:
        assert tool.unpack("redis-server", environment).exists()
        return
    with pytest.raises(tool.Unavailable):
        tool.unpack("redis-server", environment)
    assert list((environment / "bin").iterdir()) == []


def test_a_system_without_apt_get_is_told_so(
    tool: ModuleType, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(environment))
    with pytest.raises(tool.Unavailable, match="no apt-get"):
        tool.unpack("redis-server", environment)


def test_what_is_installed_is_not_unpacked(
    tool: ModuleType, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "has_program", lambda name: True)
    monkeypatch.setattr(sys, "argv", ["unpacked.py", "redis-server", str(environment)])
    tool.main()
    assert list((environment / "bin").iterdir()) == []


@pytest.mark.usefixtures("without_redis")
def test_what_is_nowhere_is_missing_with_its_package() -> None:
    with pytest.raises(programs.Missing, match="Debian's package is redis-server"):
        programs.find_program("redis-server")
