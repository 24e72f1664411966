"""Every name of Motor exists here, or raises an error that names it."""

from __future__ import annotations

import importlib

import pytest

from mangonel.compat._modules import MOTOR_MISSING

# Motor's own way of making coroutines of another class's methods.
GIVEN_UP = {"wrap"}


@pytest.mark.parametrize("module", ["motor_asyncio", "motor_tornado"])
def test_every_class_of_motor_has_a_counterpart_with_its_attributes(module):
    motor = importlib.import_module(f"motor.{module}")
    ours = importlib.import_module(f"mangonel.compat.{module}")
    lacking = {
        f"{name}.{attribute}"
        for name in motor.__all__
        if name not in MOTOR_MISSING[f"motor.{module}"]
        for attribute in dir(getattr(motor, name))
        if not attribute.startswith("_") and not hasattr(getattr(ours, name), attribute)
    }
    assert {name for name in lacking if name.rpartition(".")[2] not in GIVEN_UP} == set()
