"""Type checkers report nothing about the documentation's pages and the examples."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docs.pages import blocks, pages
from tools.type_checkers import ROOT, basedpyright, mypy_reports, pyright, pyright_reports

PAGES = [page for page in pages() if page.is_relative_to(ROOT / "docs" / "odm")]


def program(page: Path) -> str:
    """Return a page as a module: its imports and classes, and a coroutine function with everything else."""
    imports: list[str] = []
    classes: list[str] = []
    steps: list[str] = []
    for block in blocks(page):
        if block.language != "python":
            continue
        for code in [text for _, text in block.before] + [block.code] + [text for _, text in block.checks]:
            lines = code.splitlines()
            for node in compile(
                code, str(page), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            ).body:
                first: Any = node
                start = min([first.lineno, *(mark.lineno for mark in getattr(first, "decorator_list", []))])
                text = "\n".join(lines[start - 1 : node.end_lineno])
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    imports.append(text)
                elif isinstance(node, ast.ClassDef):
                    classes.append(text)
                else:
                    steps.append(text)
    future = "from __future__ import annotations"
    body = re.sub("^(?=.)", "    ", "\n".join(steps or ["pass"]), flags=re.MULTILINE)
    others = "\n".join(line for line in dict.fromkeys(imports) if line != future)
    return (
        f"{future}\n\n{others}\n\n\n" + "\n\n\n".join(classes) + f"\n\n\nasync def page() -> None:\n{body}\n"
    )


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = []
    for page in PAGES:
        code = program(page)
        if any(block.language == "python" for block in blocks(page)):
            path = folder / (page.stem.replace("-", "_") + "_page.py")
            path.write_text(code)
            made.append(path)
    for name in ("odm_shop", "odm_blog"):
        path = folder / f"{name}.py"
        path.write_text((ROOT / "examples" / name / "app.py").read_text())
        made.append(path)
    return made


def test_every_block_of_the_pages_is_in_a_program(programs: list[Path]) -> None:
    names = {path.name for path in programs}
    for page in (ROOT / "docs" / "odm").rglob("*.md"):
        # Counted from the fences alone, independently of the code that reads the blocks.
        fences = re.findall(r"^[ >]*(?:`{3,}|~{3,}) *(\w*)", page.read_text(), re.MULTILINE)
        languages = [name for name in fences[::2] if name.lower() in ("python", "py", "python3", "pycon")]
        taken = [block for block in blocks(page) if block.language == "python"]
        assert len(taken) == len(languages), page
        if not taken:
            continue
        assert page.stem.replace("-", "_") + "_page.py" in names
        kept = {line.strip() for line in program(page).splitlines()}
        for block in taken:
            tree = compile(block.code, str(page), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            lines = block.code.splitlines()
            for node in tree.body:
                for line in lines[node.lineno - 1 : node.end_lineno]:
                    assert line.strip() in kept, (page, line)


@pytest.mark.no_sample
def test_mypy_accepts_every_block_of_the_pages(programs: list[Path]) -> None:
    assert programs
    assert mypy_reports(*programs) == []


def reports(programs: list[Path], tmp_path: Path, checker: Callable[[], list[str]]) -> list[tuple[str, int]]:
    """Return the files and lines in which a checker finds errors."""
    # A page may define names for its reader without using them.
    unused = dict.fromkeys((f"reportUnused{what}" for what in ("Variable", "Import", "Function")), False)
    return pyright_reports(tmp_path, *programs, checker=checker, **unused)


@pytest.mark.no_sample
def test_basedpyright_accepts_every_block_of_the_pages(programs: list[Path], tmp_path: Path) -> None:
    assert reports(programs, tmp_path, basedpyright) == []


@pytest.mark.no_sample
@pytest.mark.timeout(900)
def test_pyright_accepts_every_block_of_the_pages(programs: list[Path], tmp_path: Path) -> None:
    assert reports(programs, tmp_path, pyright) == []
