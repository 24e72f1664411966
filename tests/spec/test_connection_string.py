"""The connection string and URI option suites of the specifications, at the level of the parser.

Options that the client does not have yet must still be parsed correctly, so no client is made here.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dns.name
import dns.resolver
import pytest

from mangonel._options import srv
from mangonel.errors import ConfigurationError
from mangonel.uri_parser import parse_uri
from tools.official import FOLDER, NO_FOLDER

# Options that the specification leaves to each driver and that this one, like PyMongo, does not have.
NOT_SUPPORTED = ("serverselectiontryonce", "tlsdisablecertificaterevocationcheck")


def _cases(folder: str) -> list[Any]:
    if FOLDER is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason=NO_FOLDER))]
    return [
        pytest.param(case, id=f"{path.stem}: {case['description']}", marks=_marks(case))
        for path in sorted(Path(FOLDER, folder, "tests").glob("*.json"))
        for case in json.loads(path.read_text())["tests"]
    ]


def _marks(case: dict[str, Any]) -> list[pytest.MarkDecorator]:
    missing = [name for name in NOT_SUPPORTED if name in case["uri"].lower()]
    if missing:
        return [pytest.mark.skip(reason=f"{missing[0]} is not supported, as in PyMongo")]
    if case["description"].startswith("Subdelimiters in user/pass don't need escaping"):
        # Existing programs escape with quote_plus, which writes a space as "+"; reading it otherwise would change their
        # passwords.
        return [pytest.mark.xfail(reason="'+' in user and password is a space, as in PyMongo", strict=True)]
    return []


@pytest.fixture(autouse=True)
def _dns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer SRV queries with one host in the requested domain, without any network."""

    def query(name: str, record: str, timeout: float) -> list[Any]:
        if record == "TXT":
            raise dns.resolver.NoAnswer
        domain = name.split(".", 3)[3]
        return [SimpleNamespace(target=dns.name.from_text(f"host.{domain}."), port=27017)]

    monkeypatch.setattr(srv, "query", query)


def _check(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The suites name certificate files that they do not include; the check only opens them.
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
        assert [host for host, _ in parsed["nodelist"]] == [_name(host) for host in case["hosts"]]
        ports = zip(parsed["nodelist"], case["hosts"], strict=True)
        assert all(found[1] == host["port"] for found, host in ports if host["port"] is not None)
    if case["auth"]:
        # A dot splits off a collection, as in PyMongo.
        path = [part for part in (parsed["database"], parsed["collection"]) if part is not None]
        assert (".".join(path) or None) == case["auth"]["db"]
        assert parsed["username"] == case["auth"]["username"]
        assert (parsed["password"] or "") == (case["auth"]["password"] or "")
    for name, expected in (case["options"] or {}).items():
        assert _option(parsed["options"], name) == _internal(name, expected), name


def _name(host: dict[str, Any]) -> str:
    name: str = host["host"]
    return name if host["type"] == "unix" else name.lower()


def _option(options: dict[str, Any], name: str) -> Any:
    found = {key.lower(): value for key, value in options.items()}
    # `ssl` and `tlsInsecure` have been replaced by the options that they imply.
    lower = {"ssl": "tls", "tlsinsecure": "tlsallowinvalidhostnames"}.get(name.lower(), name.lower())
    return found[lower]


def _internal(name: str, expected: Any) -> Any:
    """Return the value in the parser's form: time-outs in seconds."""
    seconds = name.lower().endswith("ms") and name.lower() not in ("localthresholdms", "wtimeoutms")
    return expected / 1000 if seconds else expected


@pytest.mark.each_once("case")
@pytest.mark.parametrize("case", _cases("connection-string"))
def test_connection_string_spec(case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _check(case, tmp_path, monkeypatch)


@pytest.mark.each_once("case")
@pytest.mark.parametrize("case", _cases("uri-options"))
def test_uri_options_spec(case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _check(case, tmp_path, monkeypatch)
