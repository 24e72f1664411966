"""Reads the pages: their fenced blocks, and the comments that say how a block is tested.

A page is one program: its Python blocks run one after the other with the same names, `await` and `async for` at the top
level included. Comments of HTML, which no reader sees, say what else is needed:

    <!-- run: before             code that runs before the next block: what the page takes for granted
    ...
    -->
    <!-- run: check              code that runs after the block above it: what the page claims
    ...
    -->
    <!-- run: afresh -->         a new program begins with the next block
    <!-- run: raises NAME -->    the next block ends in this exception
    <!-- run: prints -->         the next block is what the Python block above it has printed; `...` stands for anything
    <!-- run: skip, REASON -->   the next block cannot run here
    <!-- run: with NAME -->      the next block needs Ray, Dask or Spark; tests/data_engines plays those of a name

Blocks of other languages are left alone, but for shell, whose commands are checked by name and option.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = {"python", "sh", "text", "json", "toml", "ini", "nginx", "yaml", "html", "dockerfile"}

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[^\n`]*)$")
COMMENT = re.compile(r"^<!-- run: *(?P<text>.*?)(?P<end> *-->)?$")


class PageError(Exception):
    """A comment or a fence without a meaning."""


@dataclass
class Block:
    """One fenced block and how to test it. `line` is the first line inside of the fence, counted from 1."""

    language: str
    code: str
    line: int
    before: list[tuple[int, str]] = field(default_factory=list)
    checks: list[tuple[int, str]] = field(default_factory=list)
    is_afresh: bool = False
    raises: str | None = None
    prints: str | None = None
    skipped: str | None = None
    needs: str | None = None


def pages() -> list[Path]:
    """Return every page whose code is tested."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def here(code: str, address: str) -> str:
    """Return the code with the address that every page uses replaced by the deployment's."""
    code = re.sub(r"(mongodb://(?:[\w:-]+@)?)localhost(:27017)?(?=[/\"'])", rf"\g<1>{address}", code)
    return re.sub(
        r"MongoClient\((?=\)|event_listeners|tracing)", f'MongoClient("mongodb://{address}", ', code
    )


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in their order."""
    return read(page.read_text(), name_of(page))


def read(text: str, name: str) -> list[Block]:
    """Return the blocks of a text.

    Raises:
        PageError: a fence that does not end, or a comment that is none of the known ones or has no block.
    """
    lines = text.splitlines()
    found: list[Block] = []
    waiting = Block("", "", 0)
    asked = takes_output = False
    number = 0
    while number < len(lines):
        where = f"{name}:{number + 1}"
        fence, comment = FENCE.match(lines[number]), COMMENT.match(lines[number])
        number += 1
        if comment:
            word, _, rest = comment["text"].partition(" ")
            body = number
            if not comment["end"]:
                while lines[number].strip() != "-->":
                    number += 1
                code = "\n".join(lines[body:number])
                number += 1
            elif word in ("before", "check"):
                raise PageError(f"{where}: expected code below {word!r}")
            if word == "check":
                if not found:
                    raise PageError(f"{where}: there is no block above")
                found[-1].checks.append((body + 1, code))
                continue
            asked = True
            if word == "before":
                waiting.before.append((body + 1, code))
            elif word == "afresh":
                waiting.is_afresh = True
            elif word == "raises" and rest:
                waiting.raises = rest
            elif word == "prints":
                takes_output = True
            elif word == "with" and rest:
                waiting.needs = rest
            elif word == "skip," and len(rest) > 10:
                waiting.skipped = rest
            else:
                raise PageError(f"{where}: {comment['text']!r} says nothing about a block")
        elif fence:
            first, end = number, fence["indent"] + fence["ticks"]
            while number < len(lines) and lines[number].rstrip() != end:
                number += 1
            if number == len(lines):
                raise PageError(f"{where}: the block does not end")
            cut = len(fence["indent"])
            code = "\n".join(line[cut:] for line in lines[first:number])
            number += 1
            if takes_output:
                ran = [block for block in found if block.language == "python"]
                if not ran:
                    raise PageError(f"{where}: nothing above it prints")
                ran[-1].prints = code
            waiting.language, waiting.code, waiting.line = fence["language"].strip(), code, first + 1
            found.append(waiting)
            waiting, asked, takes_output = Block("", "", 0), False, False
    if asked:
        raise PageError(f"{name}: a comment at the end has no block")
    return found
