"""A codemod: changes imports of PyMongo, bson, gridfs and Motor to imports of this package, and nothing else.

Needs LibCST, the extra `mangonel[rewrite]`.
"""

from __future__ import annotations

import os
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
# Modules only for programs that run with the aliases: they change the driver's classes, or replace PyMongo's internals.
_ALIAS_ONLY = frozenset(
    [
        "compat._extras",
        "compat._gridfs",
        "compat._internals",
        "compat._private_names",
        "compat._server_selectors",
    ]
)


_INSTALLED = frozenset(["__pycache__", "node_modules", "site-packages"])


class Unchanged(Exception):
    """A statement stays unchanged; the message gives the reason."""


def rewrite(path: Path) -> list[str]:
    """Rewrite the imports of a file, or of all `*.py` below a folder; return unchanged places as `file:line: reason`.

    Installed packages are not part of the program: folders that begin with a dot, virtual environments, `site-packages`
    and `node_modules` below the folder stay unchanged.

    Raises:
        OSError: a file cannot be read or written.
    """
    left: list[str] = []
    for file in _files(path) if path.is_dir() else [path]:
        # Bytes, since LibCST honours a file's own encoding and line endings.
        source = file.read_bytes()
        try:
            text, reasons = rewritten(source)
        except cst.ParserSyntaxError as error:
            left.append(f"{file}:{error.raw_line}: expected Python source, got a syntax error")
            continue
        except (LookupError, SyntaxError, ValueError) as error:
            # The file's encoding is unknown, or the file declares the wrong one.
            left.append(f"{file}:1: expected Python source, got {error}")
            continue
        if text != source:
            file.write_bytes(text)
        left += [f"{file}:{line}: {reason}" for line, reason in reasons]
    return left


def _files(folder: Path) -> Iterator[Path]:
    """Return the Python files of the program below a folder, in order."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _INSTALLED
            and not os.path.exists(f"{place}/{name}/pyvenv.cfg")
        )
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def rewritten(source: bytes) -> tuple[bytes, list[tuple[int, str]]]:
    """Return a module's source with its imports changed, and the places left unchanged: lines and reasons.

    Raises:
        libcst.ParserSyntaxError: `source` is not valid Python.
    """
    wrapper = MetadataWrapper(cst.parse_module(source))
    imports = _Imports()
    module = wrapper.visit(imports)
    imports.look_at_attributes()
    return module.bytes, sorted(set(imports.left))


class _Imports(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.left: list[tuple[int, str]] = []
        # The program's names for modules -> the modules; and the attributes that it reads.
        self._bound: dict[str, str] = {}
        self._read: list[tuple[int, list[str]]] = []

    def leave_SimpleStatementLine(  # noqa: N802  # LibCST's name
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """Change an import on its own line; report one that shares its line with other statements."""
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

    def visit_SimpleStatementSuite(self, node: cst.SimpleStatementSuite) -> None:  # noqa: N802  # LibCST's name
        """Report an import behind a colon, which two statements cannot replace."""
        if any(_is_ours(each) for each in node.body if isinstance(each, cst.Import | cst.ImportFrom)):
            self._leave(node, "the import shares its line with `if`, `try` or the like")

    def visit_Import(self, node: cst.Import) -> None:  # noqa: N802  # LibCST's name
        """Record the modules' names."""
        for alias in node.names:
            module = _name(alias.name)
            if module.partition(".")[0] in _ROOTS:
                bound = alias.evaluated_alias
                if bound is None:
                    bound = module = module.partition(".")[0]
                self._bound[bound] = module

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:  # noqa: N802  # LibCST's name
        """Record the imported names that are modules."""
        if not isinstance(node.names, cst.ImportStar) and not node.relative:
            for alias in node.names:
                module = f"{_name(node.module)}.{_name(alias.name)}"
                if module in _SOURCES:
                    self._bound[alias.evaluated_alias or _name(alias.name)] = module

    def visit_Attribute(self, node: cst.Attribute) -> None:  # noqa: N802  # LibCST's name
        """Record the attributes that the program reads from a name."""
        names: list[str] = []
        inner: cst.BaseExpression = node
        while isinstance(inner, cst.Attribute):
            names.insert(0, inner.attr.value)
            inner = inner.value
        if isinstance(inner, cst.Name):
            line = self.get_metadata(PositionProvider, node).start.line
            self._read.append((line, [inner.value, *names]))

    def look_at_attributes(self) -> None:
        """Report attributes of modules that the program reads and that have no counterpart."""
        for line, (bound, *names) in self._read:
            module = self._bound.get(bound)
            while module is not None and names and f"{module}.{names[0]}" in _SOURCES:
                module = f"{module}.{names.pop(0)}"
            if module is None or not names:
                continue
            try:
                home = import_module(f"mangonel.{_module_of(module)}".removesuffix("."))
            except Unchanged:
                # The import itself was reported.
                continue
            if not hasattr(home, names[0]):
                self.left.append((line, f"{module}.{names[0]} has no counterpart in mangonel"))

    def visit_SimpleString(self, node: cst.SimpleString) -> None:  # noqa: N802  # LibCST's name
        """Report names in strings, as `mock.patch` and `import_module` take them."""
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
    """Return the lines that replace an import."""
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
    # The statement binds the root's name, and later code reads the other modules as attributes of it.
    yield f"import {f'mangonel.{_module_of(root)}'.removesuffix('.')} as {root}"
    if module != root:
        expected = f"mangonel.{_module_of(root)}".removesuffix(".") + module.removeprefix(root)
        if home != expected:
            raise Unchanged(f"{module} is {home} here; write `from ... import`")
        yield f"import {home}"


def _module_of(module: str) -> str:
    """Return the module below `mangonel` that replaces one of PyMongo's or Motor's."""
    sources = [source for source in _SOURCES.get(module, ()) if source not in _ALIAS_ONLY]
    if not sources:
        raise Unchanged(f"{module} has no counterpart in mangonel")
    return sources[0]


def _home(module: str, name: str) -> str:
    """Return the module of this package that has the name `name` of PyMongo's or Motor's `module`."""
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
