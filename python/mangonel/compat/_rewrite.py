"""A codemod: imports of PyMongo, bson, gridfs and Motor become imports of this package, and the source stays as it was.

Needs LibCST, the extra `mangonel[rewrite]`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from mangonel.compat._missing import MISSING
from mangonel.compat._modules import COUNTERPARTS, MOTOR_COUNTERPARTS, MOTOR_MISSING, ROOTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SOURCES = {**COUNTERPARTS, **MOTOR_COUNTERPARTS}
_ROOTS = frozenset([*ROOTS, "motor"])
# Modules for programs that run by an alias only: they change the driver's classes, or stand for PyMongo's inside.
_ALIAS_ONLY = frozenset(
    [
        "compat._extras",
        "compat._gridfs",
        "compat._internals",
        "compat._private_names",
        "compat._server_selectors",
    ]
)


class Unchanged(Exception):
    """A statement stays as it is; the message says why."""


def rewrite(path: Path) -> list[str]:
    """Rewrite the imports of a file, or of all `*.py` below a folder; return what was left, as `file:line: reason`.

    Raises:
        OSError: a file cannot be read or written.
    """
    left: list[str] = []
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        # Bytes, since LibCST honours a file's own encoding and line endings.
        source = file.read_bytes()
        try:
            text, reasons = rewritten(source)
        except cst.ParserSyntaxError as error:
            left.append(f"{file}:{error.raw_line}: expected Python source, got a syntax error")
            continue
        if text != source:
            file.write_bytes(text)
        left += [f"{file}:{line}: {reason}" for line, reason in reasons]
    return left


def rewritten(source: bytes) -> tuple[bytes, list[tuple[int, str]]]:
    """Return a module's source with its imports changed, and what was left: lines and reasons.

    Raises:
        libcst.ParserSyntaxError: it is no Python.
    """
    wrapper = MetadataWrapper(cst.parse_module(source))
    imports = _Imports()
    module = wrapper.visit(imports)
    return module.bytes, sorted(imports.left)


class _Imports(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.left: list[tuple[int, str]] = []

    def leave_SimpleStatementLine(  # noqa: N802  # LibCST's name
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """Change an import that stands by itself, and tell of one among other statements."""
        found = [each for each in updated_node.body if isinstance(each, cst.Import | cst.ImportFrom)]
        if not any(_is_ours(each) for each in found):
            return updated_node
        try:
            if len(updated_node.body) > 1:
                raise Unchanged("the import shares its line with other statements")
            lines = [cst.parse_statement(text) for text in _texts(found[0])]
        except Unchanged as reason:
            self._leave(original_node, str(reason))
            return updated_node
        first, last = lines[0], lines[-1]
        lines[0] = first.with_changes(leading_lines=updated_node.leading_lines)
        lines[-1] = (lines[0] if last is first else last).with_changes(
            trailing_whitespace=updated_node.trailing_whitespace
        )
        return cst.FlattenSentinel(cast("list[cst.BaseStatement]", lines))

    def visit_SimpleString(self, node: cst.SimpleString) -> None:  # noqa: N802  # LibCST's name
        """Tell of names in strings, as `mock.patch` and `import_module` take them."""
        value = node.evaluated_value
        if isinstance(value, str) and (value in _SOURCES or value.rpartition(".")[0] in _SOURCES):
            self._leave(node, f"the text {value!r} may name a module")

    def _leave(self, node: cst.CSTNode, reason: str) -> None:
        self.left.append((self.get_metadata(PositionProvider, node).start.line, reason))


def _name(node: cst.BaseExpression | None) -> str:
    return "" if node is None else cst.Module(()).code_for_node(node)


def _is_ours(statement: cst.Import | cst.ImportFrom) -> bool:
    if isinstance(statement, cst.ImportFrom):
        names = [] if statement.relative else [_name(statement.module)]
    else:
        names = [_name(alias.name) for alias in statement.names]
    return any(name.partition(".")[0] in _ROOTS for name in names)


def _texts(statement: cst.Import | cst.ImportFrom) -> list[str]:
    """Return the lines that take the place of an import."""
    if isinstance(statement, cst.Import):
        return list(dict.fromkeys(line for alias in statement.names for line in _module_lines(alias)))
    module = _name(statement.module)
    if isinstance(statement.names, cst.ImportStar):
        raise Unchanged(f"expected the names that are imported from {module}, got *")
    lines: dict[str, list[str]] = {}
    for alias in statement.names:
        name, bound = _name(alias.name), alias.evaluated_alias
        home = _home(module, name)
        lines.setdefault(home, []).append(name if bound is None else f"{name} as {bound}")
    return [f"from {home} import {', '.join(names)}" for home, names in lines.items()]


def _module_lines(alias: cst.ImportAlias) -> Iterator[str]:
    module, bound = _name(alias.name), alias.evaluated_alias
    root = module.partition(".")[0]
    if root not in _ROOTS:
        yield f"import {module}" + ("" if bound is None else f" as {bound}")
        return
    home = f"mangonel.{_module_of(module)}".removesuffix(".")
    if bound is not None:
        yield f"import {home} as {bound}"
        return
    # The statement binds the root's name, and later code reads the rest as attributes of it.
    yield f"import {f'mangonel.{_module_of(root)}'.removesuffix('.')} as {root}"
    if module != root:
        expected = f"mangonel.{_module_of(root)}".removesuffix(".") + module.removeprefix(root)
        if home != expected:
            raise Unchanged(f"{module} is {home} here; write `from ... import`")
        yield f"import {home}"


def _module_of(module: str) -> str:
    """Return the module below `mangonel` that stands for one of PyMongo's or Motor's."""
    sources = [source for source in _SOURCES.get(module, ()) if source not in _ALIAS_ONLY]
    if not sources:
        raise Unchanged(f"{module} has no counterpart in mangonel")
    return sources[0]


def _home(module: str, name: str) -> str:
    """Return the module of this package that has a name which PyMongo or Motor has in `module`."""
    if f"{module}.{name}" in _SOURCES:
        inner = _module_of(f"{module}.{name}")
        package, _, last = f"mangonel.{inner}".rpartition(".")
        if last == name:
            return package
    known: Sequence[str] = _SOURCES.get(module, ())
    gaps = {**MISSING, **MOTOR_MISSING}.get(module, ())
    if name not in gaps:
        for source in known:
            home = f"mangonel.{source}".removesuffix(".")
            if source not in _ALIAS_ONLY and hasattr(import_module(home), name):
                return home
    raise Unchanged(f"{module}.{name} has no counterpart in mangonel")
