"""The read-write-concern suites: concerns in connection strings, and concerns as documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mangonel.client_options import ClientOptions
from mangonel.errors import ConfigurationError
from mangonel.read_concern import ReadConcern
from mangonel.write_concern import WriteConcern
from tools.official import FOLDER, NO_FOLDER

# The suite's names of WriteConcern's arguments.
ARGUMENTS = {"w": "w", "wtimeoutMS": "wtimeout", "journal": "j"}


def _cases(part: str) -> list[Any]:
    if FOLDER is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason=NO_FOLDER))]
    folder = Path(FOLDER, "read-write-concern", "tests", part)
    return [
        pytest.param(case, id=f"{path.stem}: {case['description']}")
        for path in sorted(folder.glob("*.json"))
        for case in json.loads(path.read_text())["tests"]
    ]


def _write_concern(document: dict[str, Any]) -> WriteConcern:
    return WriteConcern(**{ARGUMENTS[name]: value for name, value in document.items()})


@pytest.mark.parametrize("case", _cases("connection-string"))
def test_concern_in_connection_string_spec(case: dict[str, Any]) -> None:
    if case["valid"]:
        assert not case["warning"]
        options = _options(case["uri"])
    elif case["warning"] is None:
        # An invalid value is left out with a warning, as in PyMongo.
        with pytest.warns(UserWarning, match="must be a non negative integer"):
            options = _options(case["uri"])
        assert options.write_concern == WriteConcern()
    else:
        with pytest.raises(ConfigurationError, match="w=0"):
            _options(case["uri"])
        return

    if "readConcern" in case:
        assert options.read_concern == ReadConcern(**case["readConcern"])
    if "writeConcern" in case:
        assert options.write_concern == _write_concern(case["writeConcern"])


def _options(uri: str) -> ClientOptions:
    return ClientOptions.from_arguments(uri, None, None, None, None, None, {})


@pytest.mark.parametrize("case", _cases("document"))
def test_concern_document_spec(case: dict[str, Any]) -> None:
    if not case["valid"]:
        with pytest.raises((ConfigurationError, ValueError)):
            _write_concern(case["writeConcern"])
        return
    if "readConcern" in case:
        concern: Any = ReadConcern(**case["readConcern"])
        assert concern.document == case["readConcernDocument"]
        assert (not concern.level) == case["isServerDefault"]
    else:
        concern = _write_concern(case["writeConcern"])
        assert concern.document == case["writeConcernDocument"]
        assert concern.is_server_default == case["isServerDefault"]
        assert concern.acknowledged == case["isAcknowledged"]
