"""The distributions: the wheel of this machine in a clean environment, the source distribution, the extras, the lists.

The wheel uses the result of `make build`, so it takes seconds. Without a fitting build everything would be compiled
again; then the tests that need a wheel are skipped, unless MANGONEL_REQUIRE_SERVERS is set as in continuous
integration.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
LAB = tomllib.loads((ROOT / "packaging" / "mangonel-lab" / "pyproject.toml").read_text())
MATURIN = Path(sys.executable).parent / "maturin"

builds = pytest.mark.skipif(
    not os.environ.get("MANGONEL_REQUIRE_SERVERS") and not os.environ.get("MANGONEL_BUILD_WHEEL"),
    reason="may compile everything again: set MANGONEL_BUILD_WHEEL=1",
)
needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")


def run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=580,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(MATURIN, "build", "--release", "--locked", "--interpreter", sys.executable, "--out", out)
    (path,) = out.glob("*.whl")
    return path


def test_pip_builds_without_debug_information_and_make_with_it() -> None:
    profiles = tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]
    installed = profiles[PYPROJECT["tool"]["maturin"]["profile"]]

    assert (installed["inherits"], installed["strip"], installed["debug"]) == ("release", True, False)
    assert profiles["release"]["debug"] == 1


@builds
@pytest.mark.no_sample
@pytest.mark.timeout(600)
def test_the_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "clean", with_pip=True)
    programs = tmp_path / "clean" / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    # Outside the checkout, whose package would be found first.
    assert "works on" in run(programs / "python", ROOT / "tools" / "smoke.py", cwd=tmp_path)
    for command in ([programs / "mangonel"], [programs / "python", "-m", "mangonel"]):
        assert run(*command, "--version", cwd=tmp_path) == f"mangonel {version()}\n"
        assert "doctor" in run(*command, "--help", cwd=tmp_path)
    for name in ("lab", "demo"):
        refused = subprocess.run(
            [programs / "mangonel", name],
            cwd=tmp_path,
            env={key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert refused.returncode == 1
        expected = f'mangonel {name}: the command {name} is not installed; pip install "mangonel[{name}]"\n'
        assert refused.stderr == expected


@builds
@pytest.mark.no_sample
@pytest.mark.timeout(600)
def test_the_wheel_carries_the_licences_and_the_bill_of_materials(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("dist-info/METADATA"))
        text = archive.read(metadata).decode()
    for part in ("licenses/LICENSE", "licenses/THIRD-PARTY-LICENSES.md", "sboms/mangonel.cdx.json"):
        assert any(name.endswith(f".dist-info/{part}") for name in names), part
    assert "License-Expression: Apache-2.0" in text
    assert not [name for name in names if re.search(r"\.(rs|orig|pyc)$|__pycache__", name)]
    assert not [name for name in names if re.match(r"mangonel/(lab|engines|demo)/", name)]
    for extra in PROJECT["optional-dependencies"]:
        assert f"Provides-Extra: {extra}\n" in text


@builds
@pytest.mark.no_sample
@pytest.mark.timeout(600)
def test_an_installation_without_bytecode_takes_less_than_8_mb(wheel: Path, tmp_path: Path) -> None:
    if (strip := shutil.which("strip")) is None:
        pytest.skip("needs strip, of binutils")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    for library in tmp_path.rglob("*.so"):
        # As pip builds it.
        run(strip, library)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 8_000_000


@needs_cargo
def test_the_source_distribution_holds_what_building_takes(tmp_path: Path) -> None:
    run(MATURIN, "sdist", "--out", tmp_path)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "pyproject.toml", "PKG-INFO"}
    needed |= {
        "THIRD-PARTY-LICENSES.md",
        "mangonel.cdx.json",
        "python/mangonel/py.typed",
        ".cargo/config.toml",
    }
    tracked = (
        run("git", "-c", "safe.directory=*", "ls-files", "crates", "python").splitlines()
        if (ROOT / ".git").exists()
        else []
    )
    built_from = {
        path for path in tracked if re.search(r"(^crates/.*(src/.*|Cargo\.toml|build\.rs)$)|^python/", path)
    }
    # Simulates the core; no installed file is built from it.
    built_from = {path for path in built_from if not path.startswith("crates/simulation/")}
    assert (needed | built_from) - names == set()
    assert not [name for name in names if re.search(r"\.(so|pyd|pyc)$|^(target|\.venv)/", name)]


def test_the_lab_is_a_distribution_of_what_the_wheel_leaves_out_in_the_same_version() -> None:
    left_out = {rule["path"].removesuffix("/**/*") for rule in PYPROJECT["tool"]["maturin"]["exclude"]}
    assert {rule["format"] for rule in PYPROJECT["tool"]["maturin"]["exclude"]} == {"wheel"}
    taken_in = LAB["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {path.removeprefix("../../") for path in taken_in} == left_out
    assert {f"python/{path}" for path in taken_in.values()} == left_out
    assert LAB["project"]["version"] == version()
    assert LAB["project"]["dependencies"] == [f"mangonel=={version()}"]
    assert LAB["project"]["requires-python"] == PROJECT["requires-python"]
    for extra in ("lab", "demo"):
        assert f"mangonel-lab=={version()}" in PROJECT["optional-dependencies"][extra]


def test_each_extra_can_be_had_as_it_is_asked_for() -> None:
    # The development environment holds all of them, so pip resolved the requirements together there.
    installed = {
        dist.name.lower().replace("_", "-"): dist.version for dist in importlib.metadata.distributions()
    }
    # Engines that are too large for it have an environment of their own: tools/data_engines.py.
    for line in (ROOT / "requirements/data-engines.txt").read_text(encoding="utf-8").splitlines():
        name, _, pinned = line.partition("==")
        installed.setdefault(name.lower().replace("_", "-"), pinned)
    for extra, requirements in PROJECT["optional-dependencies"].items():
        for text in requirements:
            requirement = Requirement(text)
            name = requirement.name.lower().replace("_", "-").replace(".", "-")
            if name == "mangonel-lab":
                continue  # Our own too; the test before this one covers it.
            if name == "gssapi":
                continue  # Linux has no wheel of it; the tests use Debian's (tests/tools/kerberos.py).
            if name == "mangonel":
                assert requirement.extras <= PROJECT["optional-dependencies"].keys(), text
            elif requirement.marker is None or requirement.marker.evaluate():
                found = installed.get(name) or installed.get(requirement.name.lower())
                assert found is not None, f"{extra}: {text} is not in requirements/dev.in"
                assert requirement.specifier.contains(found, prereleases=True), (
                    f"{extra}: {text}, got {found}"
                )


@needs_cargo
def test_the_lists_of_others_code_are_current() -> None:
    run(sys.executable, "tools/third_party.py", "--check")


def test_every_crate_that_is_linked_in_has_its_licence_text() -> None:
    bill = json.loads((ROOT / "mangonel.cdx.json").read_text())
    text = (ROOT / "THIRD-PARTY-LICENSES.md").read_text()
    headings = "\n".join(line for line in text.splitlines() if line.startswith("### "))
    crates = [part for part in bill["components"] if part["purl"].startswith("pkg:cargo/")]
    assert len(crates) > 20
    for crate in crates:
        assert f"{crate['name']} {crate['version']}" in headings
        assert crate["hashes"][0]["alg"] == "SHA-256"
        assert crate["licenses"][0]["expression"]


def test_the_bill_of_materials_is_consistent() -> None:
    bill: dict[str, Any] = json.loads((ROOT / "mangonel.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    references = [part["bom-ref"] for part in bill["components"]]
    assert len(set(references)) == len(references)
    known = {*references, bill["metadata"]["component"]["bom-ref"]}
    for entry in bill["dependencies"]:
        assert {entry["ref"], *entry.get("dependsOn", ())} <= known
    assert bill["metadata"]["component"]["version"] == version()


def test_the_release_pins_every_action_by_commit_and_publishes_without_a_token() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    uses = re.findall(r"uses: (.*)", text)
    assert len(uses) >= 10
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action) for action in uses), uses
    assert "secrets." not in text
    assert "id-token: write" in text
    for minor in (11, 12, 13, 14):
        assert f'"3.{minor}"' in text
        assert f"Programming Language :: Python :: 3.{minor}" in PROJECT["classifiers"]


def version() -> str:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    found: str = workspace["package"]["version"]
    return found
