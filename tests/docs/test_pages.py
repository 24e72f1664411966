"""Pages are correct: their Python blocks run against a real mongod, and their commands exist."""

from __future__ import annotations

import ast
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import LANGUAGES, ROOT, PageError, blocks, name_of, pages, read

PAGES = pages()
PROGRAM = Path(__file__).with_name("program.py")


# trio-asyncio 0.16 cannot be imported on 3.14.
IS_WITHOUT_TRIO = sys.version_info >= (3, 14)


def is_played(block):
    return (
        block.skipped is None
        and block.needs is None
        and not (IS_WITHOUT_TRIO and "import trio_asyncio" in block.code)
    )


def python_blocks(page):
    return [block for block in blocks(page) if block.language == "python"]


@pytest.mark.enough(4)
@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=name_of)
def test_code_of_a_page_runs(page, server, databases, tmp_path):
    code = [dataclasses.asdict(block) for block in python_blocks(page) if is_played(block)]
    member = server.members[0]
    done = subprocess.run(
        [sys.executable, PROGRAM, name_of(page), f"{member.host}:{member.port}"],
        input=json.dumps(code),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_of_a_page_name_their_language(page):
    for block in blocks(page):
        assert not block.language or block.language in LANGUAGES, f"{name_of(page)}:{block.line}"
        if block.language == "python":
            # Blocks that cannot run here must still be Python.
            compile(block.code, name_of(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize(
    "text",
    [
        "<!-- run: something -->\n```python\n```",
        "<!-- run: skip -->\n```python\n```",
        "<!-- run: before -->\n```python\n```",
        "<!-- run: prints -->\n```text\n```",
        "<!-- run: afresh -->",
        "```python\nunfinished",
    ],
)
def test_a_comment_that_says_nothing_about_a_block_is_an_error(text):
    with pytest.raises(PageError):
        read(text, "page")


def test_skipped_blocks_are_few():
    """Skipped blocks need a hosted cluster, DNS or a cloud. All others must run."""
    every = [block for page in PAGES for block in python_blocks(page)]
    skipped = [block for block in every if block.skipped is not None]

    assert len(skipped) <= len(every) // 10, [block.skipped for block in skipped]
    assert ROOT.exists()
