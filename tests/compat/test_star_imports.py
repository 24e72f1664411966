"""`from pymongo.operations import *` finds what it finds in PyMongo."""

from __future__ import annotations

import pytest


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
