"""Every name of Motor exists here, or raises an error that names it."""

from __future__ import annotations

import importlib

import pytest

from mangonel.compat import _motor_encryption

# Motor's own way of making coroutines of another class's methods.
GIVEN_UP = {"wrap"}


@pytest.mark.parametrize("module", ["motor_asyncio", "motor_tornado"])
def test_every_class_of_motor_has_a_counterpart_with_its_attributes(module):
    motor = importlib.import_module(f"motor.{module}")
    ours = importlib.import_module(f"mangonel.compat.{module}")
    lacking = {
        f"{name}.{attribute}"
        for name in motor.__all__
        for attribute in dir(getattr(motor, name))
        if not attribute.startswith("_")
        and not hasattr(getattr(_motor_encryption if "Encryption" in name else ours, name), attribute)
    }
    assert {name for name in lacking if name.rpartition(".")[2] not in GIVEN_UP} == set()
