"""`from pymongo.operations import *` imports the same names as with PyMongo."""

from __future__ import annotations

import bson
import pymongo
import pytest

import gridfs


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("pymongo.operations", "InsertOne"),
        ("bson.binary", "PYTHON_LEGACY"),
        ("pymongo.errors", "BulkWriteError"),
    ],
)
def test_star_import_binds_names_that_nobody_has_used_yet(program, module, name):
    assert (
        program(
            f"""
            import mangonel.compat
            mangonel.compat.install_as_pymongo()
            from {module} import *
            print({name}.__class__.__name__ != "")
            """
        )
        == "True"
    )


@pytest.mark.parametrize("package", [bson, gridfs, pymongo])
def test_star_import_of_a_package_binds_what_it_binds_in_pymongo(program, package):
    assert program(
        f"""
            import mangonel.compat
            mangonel.compat.install_as_pymongo()
            import {package.__name__}
            given = {package.__name__}.__all__
            from {package.__name__} import *
            assert all(name in globals() for name in given)
            assert set(given) <= set(dir({package.__name__}))
            print(*sorted(given))
            """
    ).split() == sorted(package.__all__)
