"""What `import mangonel` offers, compared with `import pymongo`."""

from __future__ import annotations

import subprocess
import sys

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
