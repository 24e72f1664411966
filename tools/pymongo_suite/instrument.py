"""Rewrites PyMongo's test files in the cache so that they report their use of private names. Runs no test.

Private is every name that PyMongo does not document: one with an underscore, or one of an undocumented module. An
access becomes `touch.attribute(value, "_name")._name`, an internal name `touch.imported(name, ...)`, and the target of
a mock `touch.patched(target)`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pymongo_suite.touch import PUBLIC, ROOTS

F = TypeVar("F", ast.FunctionDef, ast.AsyncFunctionDef)

# Internals that say nothing about behaviour: locks, versions, build features. The runner has stand-ins for them.
HARMLESS = frozenset(
    [
        "Version",
        "HelloCompat",
        "HAVE_SSL",
        "_HAVE_PYMONGOCRYPT",
        "_SENSITIVE_COMMANDS",
        "_async_create_lock",
        "_create_lock",
        "_ssl",
        "anext",
        "has_c",
        "next",
    ]
)
# pytest settings from PyMongo's own: its markers, and the warnings that are errors.
TAKEN_OVER = ("markers", "filterwarnings", "xfail_strict")
# Test modules that consist of mocks of PyMongo's internals.
MOCKS = frozenset(["test.pymongo_mocks", "test.asynchronous.pymongo_mocks"])


def documented(pages: Path) -> dict[str, frozenset[str]]:
    """Return the public names of each module that PyMongo's documentation lists.

    Args:
        pages: the folder `doc/api` of the source distribution.
    """
    modules: dict[str, frozenset[str]] = {}
    for page in sorted(pages.rglob("*.rst")):
        name = ".".join(page.relative_to(pages).with_suffix("").parts).removesuffix(".index")
        if name == "index":
            continue
        modules[name] = public_names(name)
        # The blocking twin, which PyMongo's own tests name.
        package, _, last = name.rpartition(".")
        if package in ("pymongo", "gridfs"):
            twin = f"{package}.synchronous.{last}"
            modules[twin] = modules[name]
    modules["gridfs.asynchronous.grid_file"] = public_names("gridfs.asynchronous.grid_file")
    return modules


def public_names(module: str) -> frozenset[str]:
    """Return a module's `__all__`, or its own names without an underscore."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None)
    if names is not None:
        return frozenset(names)
    return frozenset(
        name
        for name, value in vars(found).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", module).partition(".")[0] in ROOTS
    )


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__")) and name not in PUBLIC


def private_names(packages: Path) -> frozenset[str]:
    """Return each name with an underscore that PyMongo's own source binds or reads.

    Args:
        packages: the folder that holds `pymongo`, `bson` and `gridfs`.
    """
    names: set[str] = set()
    for root in ROOTS:
        for path in (packages / root).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute):
                    names.add(node.attr)
                elif isinstance(node, ast.Name):
                    names.add(node.id)
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    names.add(node.name)
    return frozenset(name for name in names if _is_private(name))


class Instrument(ast.NodeTransformer):
    """Inserts the calls of `touch` into one module.

    Args:
        modules: the documented modules with their names.
        private: PyMongo's names with an underscore; a test has its own too.
    """

    def __init__(self, modules: Mapping[str, frozenset[str]], private: frozenset[str]) -> None:
        self._modules = modules
        self._private = private
        self._names = frozenset(name for names in modules.values() for name in names)
        # Local name -> its origin.
        self._inside: dict[str, str] = {}

    def run(self, tree: ast.Module) -> ast.Module:
        """Return the instrumented module."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                self._imports(node)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id in self._inside for base in node.bases
            ):
                self._inside[node.name] = f"a subclass of {ast.unparse(node.bases[0])}"
        tree = self.visit(tree)
        at = 1 if tree.body and isinstance(tree.body[0], ast.Expr) else 0
        while at < len(tree.body) and isinstance(future := tree.body[at], ast.ImportFrom):
            if future.module != "__future__":
                break
            at += 1
        tree.body.insert(at, ast.parse("import pymongo_suite.touch as __touch__").body[0])
        return ast.fix_missing_locations(tree)

    def _imports(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if module in MOCKS:
            for alias in node.names:
                self._inside[alias.asname or alias.name] = f"{module}.{alias.name}"
        if module.partition(".")[0] not in ROOTS:
            return
        for alias in node.names:
            name = alias.name
            full = f"{module}.{name}"
            if name in HARMLESS or full in self._modules:
                continue
            if _is_private(name) or (
                name not in self._names and (module not in self._modules or name not in self._modules[module])
            ):
                self._inside[alias.asname or name] = full

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Skip annotations, which are not evaluated."""
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        """Skip the annotation."""
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Skip annotations; disable the suite's check for unclosed clients, which reads internals."""
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        """Treat it as a plain function."""
        return self._function(node)

    def _function(self, node: F) -> F:
        if node.name == "print_running_clients":
            node.body = [ast.Pass()]
            return node
        returns, node.returns = node.returns, None
        # Decorators run during the import, but their patches count for the test.
        patches = [
            self._call("patched", ast.Constant(target))
            for decorator in node.decorator_list
            if isinstance(decorator, ast.Call)
            and ast.unparse(decorator.func).removeprefix("mock.") == "patch"
            and decorator.args
            and isinstance(target := ast.literal_eval(decorator.args[0]), str)
        ]
        self.generic_visit(node)
        node.returns = returns
        node.body[:0] = [ast.Expr(patch) for patch in patches]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        """Report the use of a private attribute."""
        self.generic_visit(node)
        if node.attr in self._private:
            node.value = self._call("attribute", node.value, ast.Constant(node.attr))
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Report the use of an internal name."""
        if isinstance(node.ctx, ast.Load) and node.id in self._inside:
            return self._call("imported", node, ast.Constant(self._inside[node.id]))
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Report the target of a patch."""
        called = ast.unparse(node.func)
        self.generic_visit(node)
        if node.args and called.removeprefix("mock.").removeprefix("unittest.mock.") in (
            "patch",
            "patch.object",
        ):
            node.args[0] = self._call("patched", node.args[0])
        return node

    def _call(self, function: str, *arguments: ast.expr) -> ast.Call:
        return ast.Call(
            ast.Attribute(ast.Name("__touch__", ast.Load()), function, ast.Load()), list(arguments), []
        )


def instrument(tests: Path, pages: Path, packages: Path) -> None:
    """Rewrite every module below `tests` in place, and remove its `conftest.py`: the plugin replaces it."""
    modules = documented(pages)
    private = private_names(packages)
    for path in sorted(tests.rglob("*.py")):
        if path.name == "conftest.py":
            path.unlink()
            continue
        if path.parent != tests and path.parent.name != "asynchronous":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        path.write_text(ast.unparse(Instrument(modules, private).run(tree)) + "\n", encoding="utf-8")


def settings(project: Path) -> str:
    """Return pytest's settings for the suite, from PyMongo's own `pyproject.toml`."""
    own = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    # Markers that its helpers set without declaring them.
    own["markers"] = [*own["markers"], "mod_wsgi", "async", "asyncio"]
    lines = ["[pytest]", "addopts = --strict-markers"]
    for name in TAKEN_OVER:
        value = own[name]
        listed = value if isinstance(value, list) else [str(value).lower()]
        lines += [f"{name} =", *(f"    {entry}" for entry in listed)]
    return "\n".join(lines) + "\n"
