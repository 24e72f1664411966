"""The official bson-binary-vector tests: vectors inside a Binary of subtype 9, both ways."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from mangonel.bson import Binary, decode, encode
from mangonel.bson.binary import BinaryVector, BinaryVectorDtype
from mangonel.bson.json_util import loads
from tools.official import FOLDER, NO_FOLDER

if FOLDER is None:
    pytest.skip(NO_FOLDER, allow_module_level=True)


def _cases(*, valid: bool, needed: str) -> list[Any]:
    cases = []
    for path in sorted(Path(FOLDER or "", "bson-binary-vector", "tests").glob("*.json")):
        file = json.loads(path.read_text(encoding="utf-8"))
        cases += [
            pytest.param(file["test_key"], case, id=f"{path.stem}: {case['description']}")
            for case in file["tests"]
            if case["valid"] is valid and case.get(needed) is not None
        ]
    assert cases, "the folder holds no test"
    return cases


def _dtype(case: dict[str, Any]) -> BinaryVectorDtype:
    return BinaryVectorDtype(bytes([int(case["dtype_hex"], 16)]))


def _numbers(case: dict[str, Any]) -> list[Any]:
    # The file has infinities as extended JSON.
    numbers = loads(json.dumps(case["vector"]))
    if _dtype(case) is BinaryVectorDtype.FLOAT32:
        # The file shows decimals; stored values have 32 bits.
        return [struct.unpack("<f", struct.pack("<f", number))[0] for number in numbers]
    return numbers


@pytest.mark.parametrize(("key", "case"), _cases(valid=True, needed="canonical_bson"))
def test_numbers_are_written_as_a_vector(key: str, case: dict[str, Any]) -> None:
    binary = Binary.from_vector(_numbers(case), _dtype(case), case["padding"])

    assert encode({key: binary}).hex() == case["canonical_bson"].lower()


@pytest.mark.parametrize(("key", "case"), _cases(valid=True, needed="canonical_bson"))
def test_vector_is_read_as_numbers(key: str, case: dict[str, Any]) -> None:
    vector = decode(bytes.fromhex(case["canonical_bson"]))[key].as_vector()

    assert vector == BinaryVector(_numbers(case), _dtype(case), case["padding"])


@pytest.mark.parametrize(("key", "case"), _cases(valid=True, needed="canonical_bson"))
def test_vector_is_read_as_an_array(key: str, case: dict[str, Any]) -> None:
    vector = decode(bytes.fromhex(case["canonical_bson"]))[key].as_vector(return_numpy=True)

    assert vector.data.tolist() == _numbers(case)


@pytest.mark.parametrize(("key", "case"), _cases(valid=False, needed="vector"))
def test_invalid_numbers_are_refused(key: str, case: dict[str, Any]) -> None:
    with pytest.raises((ValueError, OverflowError, struct.error)):
        Binary.from_vector(case["vector"], _dtype(case), case["padding"])


@pytest.mark.parametrize(("key", "case"), _cases(valid=False, needed="canonical_bson"))
def test_invalid_bytes_are_refused(key: str, case: dict[str, Any]) -> None:
    binary = decode(bytes.fromhex(case["canonical_bson"]))[key]

    with pytest.raises(ValueError, match="expected"):
        binary.as_vector()
