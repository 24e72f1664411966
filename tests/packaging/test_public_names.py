"""The names that programs import: `public-names.txt` lists them, so that none goes, or comes, unnoticed.

When a name is added or taken away on purpose: `python tests/packaging/test_public_names.py` writes the list again.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import mangonel

LIST = Path(__file__).with_name("public-names.txt")
# Stand-alone programs, which are not imported.
PROGRAMS = {"mangonel.demo", "mangonel.doctor", "mangonel.engines", "mangonel.lab", "mangonel.server.serve"}


def public_modules() -> Iterator[ModuleType]:
    yield mangonel
    for found in pkgutil.walk_packages(mangonel.__path__, "mangonel."):
        parts = found.name.split(".")
        is_program = parts[-1] == "cli" or not PROGRAMS.isdisjoint({".".join(parts[:2]), found.name})
        if not is_program and not any(part.startswith("_") for part in parts):
            yield importlib.import_module(found.name)


def public_names(module: ModuleType) -> list[str]:
    """Return `__all__`; without it what `dir` shows, but what is private and what others made."""
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
