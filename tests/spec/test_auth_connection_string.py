"""The auth suite of connection strings: the user that a client authenticates as, without any server."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from mangonel.client_options import ClientOptions
from mangonel.errors import ConfigurationError
from tools.official import FOLDER, NO_FOLDER

SKIPPED = {
    # Two cases of one file contradict the others about a name and a password; PyMongo accepts these too.
    "should throw an exception if username and password provided (MONGODB-AWS)": "contradicts the case before it",
}


def _cases() -> list[Any]:
    if FOLDER is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason=NO_FOLDER))]
    cases = []
    for path in sorted(Path(FOLDER, "auth", "tests", "legacy").glob("*.json")):
        for case in json.loads(path.read_text())["tests"]:
            reason = SKIPPED.get(case["description"])
            marks = [pytest.mark.skip(reason=reason)] if reason else []
            cases.append(pytest.param(case, id=case["description"], marks=marks))
    return cases


def _credential(uri: str) -> Any:
    with warnings.catch_warnings():
        # Where a URI only warns, the specification wants an error or a warning.
        warnings.simplefilter("error")
        return ClientOptions.from_arguments(uri, None, None, None, None, None, {})._credentials


@pytest.mark.each_once("case")
@pytest.mark.parametrize("case", _cases())
def test_auth_connection_string_spec(case: dict[str, Any]) -> None:
    if not case["valid"]:
        with pytest.raises((ConfigurationError, ValueError, UserWarning)):
            _credential(case["uri"])
        return
    if "MONGODB-AWS" in case["uri"]:
        pytest.importorskip("botocore")
    credential, expected = _credential(case["uri"]), case.get("credential")
    if expected is None:
        assert credential is None
        return
    found = {
        "username": credential.username,
        "password": credential.password,
        "source": credential.source,
        "mechanism": None if credential.mechanism == "DEFAULT" else credential.mechanism,
    }
    properties = expected.pop("mechanism_properties", None) or {}
    assert found == expected
    if "AWS_SESSION_TOKEN" in properties:
        assert credential.responder._given[2] == properties.pop("AWS_SESSION_TOKEN")
    assert credential.mechanism_properties == properties
