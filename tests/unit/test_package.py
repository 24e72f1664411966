"""The public names of `import mangonel`, compared with `import pymongo`."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pymongo
import pytest

import mangonel

# PyMongo's context manager for deadlines comes with client-side operation timeouts.
LATER = {"timeout"}


def test_package_exports_what_pymongo_does() -> None:
    public = {name for name in pymongo.__all__ if not name.startswith("_")}

    assert public - LATER <= set(mangonel.__all__)
    assert len(set(mangonel.__all__)) == len(mangonel.__all__)


@pytest.mark.parametrize("name", mangonel.__all__)
def test_exported_name_is_there_and_listed(name: str) -> None:
    assert getattr(mangonel, name) is getattr(mangonel, name)
    assert name in dir(mangonel)


@pytest.mark.parametrize("module", sorted(mangonel._MODULES))
def test_module_is_reached_as_an_attribute_of_the_package(module: str) -> None:
    code = f"import mangonel; print(mangonel.{module}.__name__)"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert result.stdout.strip() == f"mangonel.{module}"


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        mangonel.nope  # noqa: B018


def test_type_checkers_see_every_exported_name() -> None:
    assert set(mangonel._HOMES) | {
        "__version__",
        "get_version_string",
        "has_c",
        "version",
        "version_tuple",
    } == set(mangonel.__all__)


def lazy_modules() -> list[str]:
    root = Path(mangonel.__file__).parent
    late = [path for path in sorted(root.rglob("*.py")) if "late_names(__name__" in path.read_text()]
    # If a module has a stub, the test reads the stub instead.
    paths = [path for path in late if not path.with_suffix(".pyi").exists()]
    return [
        ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in paths
    ]


@pytest.mark.parametrize("name", lazy_modules())
def test_names_that_are_loaded_late_are_imported_for_readers_of_the_source(name: str) -> None:
    # Type checkers and the reference's generator run no code: they see only names bound in the source.
    module = importlib.import_module(name)
    bound: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    # A private module may leave `__all__` to the modules that import from it.
    is_private = name.rpartition(".")[2].startswith("_")
    assert set(getattr(module, "__all__", ()) if is_private else module.__all__) - bound == set()


INTERPRETERS = """
try:
    import _interpreters as interpreters
    made = interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    made = interpreters.create(isolated=False)
"""
REFUSED = """
failure = interpreters.run_string(made, "try: import mangonel._core\\nexcept ImportError as error: print(error)")
assert failure is None, failure
interpreters.destroy(made)
from mangonel.bson import ObjectId
"""


@pytest.mark.parametrize("before", ["", "import mangonel._core"], ids=["first", "after the main one"])
def test_a_sub_interpreter_is_refused(before: str) -> None:
    program = f"{INTERPRETERS}{before}{REFUSED}"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=True
    )
    assert ended.stderr == ""
    assert re.fullmatch(
        r"expected the main interpreter, got sub-interpreter \d+; use a process in its place, and under mod_wsgi "
        r"WSGIApplicationGroup %\{GLOBAL\}\n",
        ended.stdout,
    )


IMPORT_ALL = """
import importlib, pkgutil, mangonel
for found in pkgutil.walk_packages(mangonel.__path__, "mangonel.", onerror=lambda name: None):
    if found.name.startswith("mangonel.lab") or found.name.endswith("__main__"):
        continue
    try:
        module = importlib.import_module(found.name)
    except Exception as error:
        # It needs a package that is not installed, or settings.
        print(found.name, type(error).__name__)
        continue
    # Not `isinstance`, which would make Django's lazy objects look for settings.
    classes = [value for value in vars(module).values() if issubclass(type(value), type)]
    print(found.name, sorted({f"{each.__module__}.{each.__qualname__}" for each in classes}))
"""


def test_every_module_has_the_same_classes_without_docstrings_and_asserts() -> None:
    plain, optimised = (
        subprocess.run([sys.executable, *flags, "-c", IMPORT_ALL], check=True, capture_output=True, text=True)
        for flags in ([], ["-OO"])
    )

    assert "mangonel.api.AsyncMongoClient" in plain.stdout
    assert optimised.stdout == plain.stdout
