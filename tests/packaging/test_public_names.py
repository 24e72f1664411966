"""The names that programs import: `public-names.txt` lists them, so that none is added or removed unnoticed.

When a name is added or taken away on purpose: `python tests/packaging/test_public_names.py` writes the list again.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import mangonel

LIST = Path(__file__).with_name("public-names.txt")
# Their engines are not in this environment; see tools/data_engines.py.
APART = {"mangonel.ray", "mangonel.spark"}
# Stand-alone programs, which are not imported.
PROGRAMS = {"mangonel.demo", "mangonel.doctor", "mangonel.engines", "mangonel.lab", "mangonel.server.serve"}


def public_modules() -> Iterator[ModuleType]:
    yield mangonel
    for found in pkgutil.walk_packages(mangonel.__path__, "mangonel."):
        parts = found.name.split(".")
        is_program = parts[-1] == "cli" or not PROGRAMS.isdisjoint({".".join(parts[:2]), found.name})
        if not is_program and not any(part.startswith("_") for part in parts):
            if ".".join(parts[:2]) in APART:
                yield read_module(found)
            else:
                yield importlib.import_module(found.name)


def read_module(found: pkgutil.ModuleInfo) -> ModuleType:
    """Return a module that has only its `__all__`, read from its source."""
    module = ModuleType(found.name)
    spec = found.module_finder.find_spec(found.name, None)  # type: ignore[call-arg]  # a finder of paths
    assert spec is not None
    assert spec.origin is not None
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            vars(module)["__all__"] = ast.literal_eval(node.value)
    return module


def public_names(module: ModuleType) -> list[str]:
    """Return `__all__`; without it the names in `dir`, except private and imported ones."""
    if (declared := getattr(module, "__all__", None)) is not None:
        return sorted(declared)
    return [
        name
        for name in dir(module)
        if not name.startswith("_")
        and name not in ("TYPE_CHECKING", "annotations")
        and not isinstance(value := getattr(module, name), ModuleType)
        and str(getattr(value, "__module__", "mangonel")).startswith("mangonel")
    ]


def listed() -> str:
    found = {module.__name__: public_names(module) for module in public_modules()}
    return "".join(
        textwrap.fill(" ".join((f"{name}:", *names)), 120, subsequent_indent="  ", break_long_words=False)
        + "\n"
        for name, names in sorted(found.items())
    )


def test_public_modules_have_the_names_that_are_listed():
    assert listed() == LIST.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.stdout.write(f"{LIST.name}: {LIST.write_text(listed(), encoding='utf-8')} characters\n")
