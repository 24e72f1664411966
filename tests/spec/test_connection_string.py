"""The connection string and URI option suites of the specifications, at the level of the parser.

Options that the client does not have yet must be parsed rightly all the same, so no client is made here.
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dns.resolver
import pytest
from mangonel import _srv
from mangonel.errors import ConfigurationError
from mangonel.uri_parser import parse_uri

SPECIFICATIONS = os.environ.get("MONGODB_SPECIFICATIONS")

# Options that the specification leaves to each driver and that this one, like PyMongo, does not have.
NOT_SUPPORTED = ("proxy", "serverselectiontryonce", "tlsdisablecertificaterevocationcheck")


def _cases(folder: str) -> list[Any]:
    if SPECIFICATIONS is None:
        reason = "MONGODB_SPECIFICATIONS does not name a folder"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return [
        pytest.param(case, id=f"{path.stem}: {case['description']}", marks=_marks(case))
        for path in sorted(Path(SPECIFICATIONS, folder, "tests").glob("*.json"))
        for case in json.loads(path.read_text())["tests"]
    ]


def _marks(case: dict[str, Any]) -> list[pytest.MarkDecorator]:
    missing = [name for name in NOT_SUPPORTED if name in case["uri"].lower()]
    return [pytest.mark.skip(reason=f"{missing[0]} is not supported, as in PyMongo")] if missing else []


@pytest.fixture(autouse=True)
def _dns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer SRV questions with three hosts in the domain asked for, without any network."""

    def query(name: str, record: str, timeout: float) -> list[Any]:
        if record == "TXT":
            raise dns.resolver.NoAnswer
        domain = name.split(".", 3)[3]
        return [SimpleNamespace(target=f"host{n}.{domain}.", port=27017) for n in range(3)]

    monkeypatch.setattr(_srv, "query", query)


def _check(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The suites name certificate files that they do not bring along; the check only opens them.
    monkeypatch.chdir(tmp_path)
    for name in ("ca.pem", "cert.pem", "key.pem", "client.pem"):
        (tmp_path / name).touch()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if not case["valid"]:
            with pytest.raises((ConfigurationError, ValueError)):
                parse_uri(case["uri"], warn=True)
            return
        parsed = parse_uri(case["uri"], warn=True)

    assert bool(caught) == bool(case["warning"]), [str(warning.message) for warning in caught]
    if case["hosts"] is not None:
        assert parsed["nodelist"] == [_address(host) for host in case["hosts"]]
    if case["auth"]:
        assert parsed["database"] == case["auth"]["db"]
        assert parsed["username"] == case["auth"]["username"]
        assert (parsed["password"] or "") == (case["auth"]["password"] or "")
    for name, expected in (case["options"] or {}).items():
        assert _option(parsed["options"], name) == _internal(name, expected), name


def _address(host: dict[str, Any]) -> tuple[str, int | None]:
    is_socket = host["type"] == "unix"
    name = host["host"] if is_socket else host["host"].lower()
    return name, None if is_socket else host["port"] or 27017


def _option(options: dict[str, Any], name: str) -> Any:
    found = {key.lower(): value for key, value in options.items()}
    # `ssl` and `tlsInsecure` have become what they stand for.
    lower = {"ssl": "tls", "tlsinsecure": "tlsallowinvalidhostnames"}.get(name.lower(), name.lower())
    return found[lower]


def _internal(name: str, expected: Any) -> Any:
    """Return the value as the parser gives it: time-outs in seconds."""
    seconds = name.lower().endswith("ms") and name not in ("localThresholdMS", "wTimeoutMS", "wtimeoutMS")
    return expected / 1000 if seconds else expected


@pytest.mark.parametrize("case", _cases("connection-string"))
def test_connection_string_spec(case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _check(case, tmp_path, monkeypatch)


@pytest.mark.parametrize("case", _cases("uri-options"))
def test_uri_options_spec(case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _check(case, tmp_path, monkeypatch)
