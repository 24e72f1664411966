"""Compare PyMongo's public names with their counterparts; write `compat/_missing.py` and the list in the docs.

`python tools/compatibility.py` writes, `--check` compares. A public name is one of `__all__`; in a module without
`__all__`, it is a name without an underscore that the module defines. Modules whose name has an underscore are left
out.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "python/mangonel/compat/_missing.py"
PAGE = ROOT / "docs/compatibility.md"
START = "<!-- written by tools/compatibility.py -->\n"
PACKAGES = ("pymongo", "bson", "gridfs")
# Names that only annotations bind: type checkers need them, programs do not.
IGNORED = {"TYPE_CHECKING", "T", "F"}

HEADER = '''"""PyMongo's public names without a counterpart. Written by `tools/compatibility.py`; do not edit."""

from __future__ import annotations

# A module, or two of the same names, in each line, and its names; an indented line continues the one above.
_TABLE = """
'''
FOOTER = '''
"""
MISSING: dict[str, tuple[str, ...]] = {
    module: tuple(names)
    for line, *names in map(str.split, _TABLE.replace("\\n    ", " ").strip().splitlines())
    for module in (line.replace("(a)", "a"), line.replace("(a)", ""))
}
'''


def modules() -> Iterator[str]:
    """Yield the public modules of the installed PyMongo."""
    for package in PACKAGES:
        yield package
        path = importlib.import_module(package).__path__
        for found in pkgutil.walk_packages(path, package + "."):
            if not any(part.startswith("_") for part in found.name.split(".")):
                yield found.name


def defined(statements: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that a module's statements bind, without imports."""
    for statement in statements:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
        elif isinstance(statement, ast.If | ast.Try):
            for part in ("body", "orelse", "finalbody"):
                yield from defined(getattr(statement, part, []))
            for handler in getattr(statement, "handlers", []):
                yield from defined(handler.body)


def public_names(module: str) -> list[str]:
    """Return the public names of one of PyMongo's modules."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return []
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in statement.targets
        ):
            return sorted(ast.literal_eval(statement.value))
    return sorted({name for name in defined(tree.body) if not name.startswith("_")} - IGNORED)


def gaps() -> dict[str, list[str]]:
    """Return, for each public module with a gap, the names without a counterpart."""
    from mangonel.compat._modules import COUNTERPARTS

    found: dict[str, list[str]] = {}
    for module in modules():
        sources = [
            importlib.import_module(f"mangonel.{source}" if source else "mangonel")
            for source in COUNTERPARTS.get(module, ())
        ]
        names = [
            name
            for name in public_names(module)
            if not any(hasattr(source, name) for source in sources) and f"{module}.{name}" not in COUNTERPARTS
        ]
        if names or module not in COUNTERPARTS:
            found[module] = names
    return found


def source_text(found: dict[str, list[str]]) -> str:
    """Return the source of the module that the shim reads: one line for each module, wrapped."""
    lines = []
    for module, names in found.items():
        both, twin = (
            module.replace(".asynchronous.", f".{kind}.") for kind in ("(a)synchronous", "synchronous")
        )
        if (
            ".synchronous." in module
            and found.get(module.replace(".synchronous.", ".asynchronous.")) == names
        ):
            continue
        words = [both if found.get(twin) == names else module, *names]
        lines.append(textwrap.fill(" ".join(words), 110, subsequent_indent="    ", break_long_words=False))
    return HEADER + "\n".join(lines) + FOOTER


def page_text(found: dict[str, list[str]]) -> str:
    """Return the section of the page that lists the gaps."""
    from mangonel.compat._modules import COUNTERPARTS

    partial = [module for module in found if COUNTERPARTS.get(module)]
    whole = [module for module in found if not COUNTERPARTS.get(module)]
    text = START + "\n## Modules with gaps\n\n| module | names without a counterpart |\n|---|---|\n"
    for module in partial:
        text += f"| `{module}` | {', '.join(f'`{name}`' for name in found[module])} |\n"
    text += "\n## Modules without any counterpart\n\nThey can be imported; each of their names raises.\n\n"
    text += "| module | names |\n|---|---|\n"
    for module in whole:
        text += f"| `{module}` | {', '.join(f'`{name}`' for name in found[module]) or 'none public'} |\n"
    return text


def main() -> int:
    """Write both files, or report which of them is out of date."""
    found = gaps()
    written = PAGE.read_text(encoding="utf-8")
    wanted = {TARGET: source_text(found), PAGE: written.partition(START)[0] + page_text(found)}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)}: not what the comparison finds; run tools/compatibility.py")
        return 1 if stale else 0
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
