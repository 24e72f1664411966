"""The types of the mapper's asyncio twins, `odm/_twins.pyi`; a part of `tools/stubs.py`.

A method under `@terminal` (`odm/_terminal.py`) gets its twin when its class is made. For each class with a base from
`odm._twins` this writes that base: the signatures of its twins, which differ from the terminals' only in the return
type. Nothing of the package is imported.
"""

from __future__ import annotations

import ast
import re
import runpy
from dataclasses import dataclass, field
from pathlib import Path

from signatures import WIDTH, Defect, default_of, layout, parameters

SOURCES = Path(__file__).resolve().parent.parent / "python"
MODULE = "mangonel.odm._twins"

on_asyncio = runpy.run_path(str(SOURCES / "mangonel/odm/_terminal.py"))["on_asyncio"]

# Twins whose arguments depend on the face too.
WRITTEN_OUT = {
    ("Connection", "run"): """\
@overload
def arun(
    self, function: Callable[[], Coroutine[Any, Any, T]], **options: Unpack[TransactionOptions]
) -> Coroutine[Any, Any, T]: ...
@overload
def arun(
    self, function: Callable[[], T], **options: Unpack[TransactionOptions]
) -> Coroutine[Any, Any, T]: ...
"""
}

KNOWN = {
    "Any": "typing",
    "AsyncCollection": "mangonel.api",
    "AsyncIterator": "collections.abc",
    "AsyncMongoClient": "mangonel.api",
    "Coroutine": "collections.abc",
    "datetime": "datetime",
    "Generic": "typing",
    "TypeVar": "typing",
    "overload": "typing",
}

# Otherwise the coroutine of the asyncio face is dropped, and no type checker reports it.
HOW_TO_END = "its twin returns the coroutine that port.flow() returns"

HEADER = "# Written by tools/stubs.py from the mapper's terminals; change those, then run `make stubs`.\n"


@dataclass
class Source:
    """A module with terminals: where its names come from, and its classes."""

    name: str
    origins: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    classes: list[ast.ClassDef] = field(default_factory=list)

    def read(self, body: list[ast.stmt]) -> None:
        """Read the statements of the module, including those in `if TYPE_CHECKING:`."""
        for node in body:
            if isinstance(node, ast.ClassDef):
                self.classes.append(node)
                self.origins[node.name] = self.name
            elif isinstance(node, ast.ImportFrom) and node.module:
                self.origins.update({alias.name: node.module for alias in node.names})
            elif isinstance(node, ast.If):
                self.read(node.body)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                self.origins[node.target.id] = self.name
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name, value = node.targets[0].id, ast.unparse(node.value).replace("'", '"')
                if value.startswith("TypeVar("):
                    self.variables[name] = f"{name} = {value}\n"


def text() -> str:
    """Return the stub's text."""
    classes: list[str] = []
    imports: dict[str, set[str]] = {"typing": {"TypeVar"}}
    variables: set[str] = set()
    for path in sorted((SOURCES / "mangonel/odm").rglob("*.py")):
        code = path.read_text()
        if f"from {MODULE} import" not in code:
            continue
        source = Source(".".join(path.relative_to(SOURCES).with_suffix("").parts))
        source.read(ast.parse(code).body)
        for node in source.classes:
            for base in map(ast.unparse, node.bases):
                if source.origins.get(base.partition("[")[0]) == MODULE:
                    classes.append(_base(base, node))
                    for name in re.findall(r"(?<![\w.\"`])[A-Za-z_]\w*", classes[-1]):
                        module = source.origins.get(name) or KNOWN.get(name)
                        if name in source.variables:
                            variables.add(source.variables[name])
                        elif module is not None and module != MODULE:
                            imports.setdefault(module, set()).add(name)
    head = [
        _import(module, sorted(names))
        for module, names in sorted(
            imports.items(), key=lambda item: (item[0].startswith("mangonel"), item[0])
        )
    ]
    return "\n".join((HEADER, "".join(head), "".join(sorted(variables)), "\n".join(classes)))


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}\n"
    return line if len(line) <= WIDTH else f"from {module} import (\n    " + ",\n    ".join(names) + ",\n)\n"


def _base(base: str, node: ast.ClassDef) -> str:
    """Return the base that has the twins of a class."""
    name, _, variables = base.rstrip("]").partition("[")
    methods = [method for method in node.body if isinstance(method, ast.FunctionDef)]
    marked = {method.name for method in methods if "terminal" in _decorators(method)}
    overloaded = {method.name for method in methods if "overload" in _decorators(method)}
    for method in methods:
        if "terminal" in _decorators(method) and not isinstance(method.body[-1], ast.Return):
            raise Defect(f"expected the terminal {node.name}.{method.name} to end in return: {HOW_TO_END}")
    lines = [f"class {name}(Generic[{variables}]):" if variables else f"class {name}:"]
    for method in methods:
        is_shown = method.name not in overloaded or "overload" in _decorators(method)
        if method.name in marked and is_shown:
            written_out = WRITTEN_OUT.get((node.name, method.name))
            twin = _twin(method) if written_out is None else written_out.splitlines()
            lines += [f"    {line}" for line in twin]
    return "\n".join(lines) + "\n"


def _decorators(method: ast.FunctionDef) -> list[str]:
    return list(map(ast.unparse, method.decorator_list))


def _twin(method: ast.FunctionDef) -> list[str]:
    """Return the lines of a twin's signature."""
    if method.returns is None:
        raise Defect(f"expected what the terminal {method.name} returns to be annotated, got no annotation")
    shown = [text for _, text in parameters(method.args, _parameter)]
    returns = on_asyncio(ast.unparse(method.returns))
    decorators = [f"@{decorator}" for decorator in _decorators(method) if decorator != "terminal"]
    docstring = f'"""As `{method.name}`, on asyncio."""'
    return [*decorators, *layout(f"def a{method.name}", shown, returns, docstring)]


def _parameter(argument: ast.arg, default: ast.expr | None) -> tuple[str, str]:
    shown = argument.arg
    if argument.annotation is not None:
        shown += f": {ast.unparse(argument.annotation)}"
    return argument.arg, shown if default is None else shown + default_of(argument, default)
