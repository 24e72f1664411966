"""Runs the Python blocks of one page: in a process of its own, since a page may patch, register and connect.

    python program.py PAGE URI   (the blocks as JSON on stdin)

Tracebacks name the page and its line. `localhost` in a page is the deployment of the tests.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import re
import sys
import traceback
from pathlib import Path

# Helpers of the other tests that a page may assume: certificates, scripted servers.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs.pages import here

PAGE, ADDRESS = sys.argv[1:3]


def main() -> int:
    blocks = json.load(sys.stdin)
    names: dict[str, object] = {}
    # Clients of a page live as long as the page; those of asyncio on this loop.
    with asyncio.Runner() as runner:
        for block in blocks:
            if block["is_afresh"] or not names:
                names = {"__name__": "page", "__builtins__": __builtins__}
                # Annotations of classes are resolved in the module of the class.
                sys.modules["page"] = module = type(sys)("page")
                names = vars(module)
            printed = io.StringIO()
            for line, code in block["before"]:
                run(code, line, names, runner)
            with contextlib.redirect_stdout(printed):
                try:
                    run(block["code"], block["line"], names, runner)
                except BaseException as error:
                    if block["raises"] != type(error).__name__:
                        raise
                    names["error"] = error
                else:
                    if block["raises"]:
                        raise AssertionError(f"{PAGE}:{block['line']}: expected {block['raises']}")
            names["printed"] = printed.getvalue()
            if block["prints"] is not None and not matches(block["prints"], printed.getvalue()):
                raise AssertionError(
                    f"{PAGE}:{block['line']}: prints\n{printed.getvalue()}where the page says\n{block['prints']}"
                )
            for line, code in block["checks"]:
                run(code, line, names, runner)
    return 0


def run(code: str, line: int, names: dict[str, object], runner: asyncio.Runner) -> None:
    tree = compile(
        "\n" * (line - 1) + here(code, ADDRESS),
        PAGE,
        "exec",
        ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        dont_inherit=True,
    )
    if tree.co_flags & inspect.CO_COROUTINE:
        runner.run(suspended(tree, names))
    else:
        exec(tree, names)


async def suspended(tree: object, names: dict[str, object]) -> None:
    await eval(tree, names)


def matches(expected: str, printed: str) -> bool:
    pattern = ".*?".join(re.escape(part) for part in expected.rstrip().split("..."))
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


if __name__ == "__main__":
    try:
        status = main()
    except BaseException:
        # Frames of this file say nothing about the page.
        traceback.print_exc()
        status = 1
    sys.exit(status)
