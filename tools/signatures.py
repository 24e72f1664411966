"""The text of signatures in stubs, for `stubs.py` and `twins.py`."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable

WIDTH = 110

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Defect(Exception):
    """A definition that no stub can be written for."""


def parameters(
    arguments: ast.arguments, shown: Callable[[ast.arg, ast.expr | None], tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return the name and the text of each parameter, `/` and `*` among them.

    Args:
        arguments: those of a definition.
        shown: returns the name and the text of one, given its default or None.
    """
    found: list[tuple[str, str]] = []
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for place, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        found.append(shown(argument, default))
        if place + 1 == len(arguments.posonlyargs):
            found.append(("/", "/"))
    if arguments.vararg:
        name, text = shown(arguments.vararg, None)
        found.append((f"*{name}", f"*{text}"))
    elif arguments.kwonlyargs:
        found.append(("*", "*"))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(shown(argument, default))
    if arguments.kwarg:
        name, text = shown(arguments.kwarg, None)
        found.append((f"**{name}", f"**{text}"))
    return found


def default_of(argument: ast.arg, default: ast.expr) -> str:
    """Return the text of a parameter's default, as it follows its name; names are not resolved."""
    # `...` may stand for any value.
    value = shown_default(default) if is_literal(default) else "..."
    return f" = {value}" if argument.annotation is not None else f"={value}"


def is_literal(node: ast.expr) -> bool:
    """Return whether a default may stand in a stub as it is."""
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
    )


def shown_default(node: ast.expr) -> str:
    """Return the source of a literal, a string in double quotes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return json.dumps(node.value)
    return ast.unparse(node)


def layout(head: str, shown: list[str], returns: str, body: str = "...") -> list[str]:
    """Return the lines of a signature: one, or as few as hold its parameters."""
    line = f"{head}({', '.join(shown)}) -> {returns}: {body}"
    if len(line) + 4 <= WIDTH:
        return [line]
    rows = [""]
    for place, parameter in enumerate(shown, 1):
        text = f"{parameter}," if place < len(shown) else parameter
        if rows[-1] and len(rows[-1]) + len(text) + 9 > WIDTH:
            rows.append("")
        rows[-1] += f" {text}" if rows[-1] else text
    return [f"{head}(", *(f"    {row}" for row in rows), f") -> {returns}: {body}"]
