"""The addresses that a package index shows: `[project.urls]` and absolute links, from one setting of pyproject.toml."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/addresses.py"
REPOSITORY, PAGES = "https://git.example/ada/mangonel", "https://docs.example/mangonel"


def write(out: Path, *more: str) -> tuple[str, dict[str, str]]:
    subprocess.run([sys.executable, TOOL, "--repository", f"{REPOSITORY}/", "--out", out, *more], check=True)
    project = tomllib.loads((out / "pyproject.toml").read_text())["project"]
    return (out / "README.md").read_text(), project["urls"]


def targets(text: str) -> list[str]:
    return [*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r'(?:href|src|srcset)="([^"]+)"', text)]


def test_every_link_of_the_readme_becomes_absolute_and_leads_to_a_file(tmp_path):
    text, _ = write(tmp_path)

    for target in targets(text):
        assert target.startswith(("https://", "http://", "#")), target
        if target.startswith(REPOSITORY):
            path = re.fullmatch(rf"{REPOSITORY}/(?:blob|raw)/v[\d.]+/([^#]+)(?:#.*)?", target)
            assert path, target
            assert (ROOT / path[1]).exists(), target


def test_links_to_pages_lead_to_the_published_ones_when_there_are_any(tmp_path):
    text, urls = write(tmp_path, "--documentation", PAGES)

    assert not re.search(rf"{REPOSITORY}/blob/[^/]+/docs/.*\.md", text)
    assert urls["Documentation"] == PAGES


def test_the_index_shows_source_documentation_changelog_and_issues(tmp_path):
    _, urls = write(tmp_path)

    assert set(urls) == {"Homepage", "Documentation", "Changelog", "Issues", "Source"}
    assert all(url.startswith(REPOSITORY) for url in urls.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/auth.md#aws)", "[a](https://r/blob/v1/docs/auth.md#aws)"),
        ("![a](docs/images/a.svg)", "![a](https://r/raw/v1/docs/images/a.svg)"),
        ('<source srcset="docs/a.svg">', '<source srcset="https://r/raw/v1/docs/a.svg">'),
        ("[a](#below) [b](https://x/y)", "[a](#below) [b](https://x/y)"),
    ],
)
def test_links_are_made_absolute(text, expected, monkeypatch):
    monkeypatch.syspath_prepend(TOOL.parent)
    import addresses

    assert addresses.absolute(text, "https://r", "", "v1") == expected


def test_without_a_setting_nothing_is_written(monkeypatch):
    monkeypatch.syspath_prepend(TOOL.parent)
    import addresses

    if addresses.setting():
        pytest.skip("the project has an address")
    done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=True)
    assert "nothing is written" in done.stdout


def test_the_index_is_told_to_install_and_the_checkout_to_build(tmp_path):
    text, _ = write(tmp_path)

    assert "pip install mangonel\n" in text
    assert "There is no release yet" not in text
    assert "released" not in text
    assert "There is no release yet" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(("address", "status"), [("", 1), (REPOSITORY, 0)])
def test_a_release_without_a_repository_is_refused(tmp_path, address, status):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/addresses.py").write_text(TOOL.read_text())
    (tmp_path / "pyproject.toml").write_text(f'[tool.mangonel]\nrepository = "{address}"\n')

    ended = subprocess.run(
        [sys.executable, tmp_path / "tools/addresses.py", "--require"], capture_output=True, text=True
    )

    assert ended.returncode == status
    assert ("expected [tool.mangonel]" in ended.stderr) == bool(status)
