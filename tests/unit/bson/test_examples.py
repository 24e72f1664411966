"""The examples in the docstrings give what they show."""

from __future__ import annotations

import datetime
import decimal
import doctest
import importlib
from decimal import Decimal
from fractions import Fraction

import pytest

import mangonel.bson

MODULES = "binary code codec_options datetime_ms dbref decimal128 int64 json_util raw_bson regex son timestamp tz_util"
NAMES = {name: getattr(mangonel.bson, name) for name in mangonel.bson.__all__}
NAMES |= {"datetime": datetime, "decimal": decimal, "Decimal": Decimal, "Fraction": Fraction}


@pytest.mark.parametrize("name", ["mangonel.bson", *(f"mangonel.bson.{name}" for name in MODULES.split())])
def test_examples_give_what_they_show(name: str) -> None:
    module = importlib.import_module(name)
    names = {**NAMES, **vars(importlib.import_module("mangonel.bson.decimal128")), **vars(module)}
    names |= {"Fraction": Fraction, "datetime": datetime, "decimal": decimal}

    failed, tried = doctest.testmod(module, extraglobs=names)

    assert tried > 0
    assert failed == 0
