"""The server that a run of the tests is against: a mongod by its path, or, with MANGONEL_URI, one that runs already.

`tests/servers` lists each server's limitations in a file of its own: `fails` is a test that is tried and must fail,
`chance` one that is tried and may fail, `skips` one that is not tried, each with its reason.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from mangonel import MongoClient
from mangonel.server import MongodNotFound, Server, find_mongod
from mangonel.server.find import mongod_version

__all__ = [
    "URI",
    "Line",
    "RunningServer",
    "lines_of",
    "mark",
    "name",
    "refuse_to_start",
    "running",
    "shared",
    "standalone",
    "version",
]

URI = os.environ.get("MANGONEL_URI", "")
FOLDER = Path(__file__).parent.parent / "servers"
# Without a server, the lists and ids of the tests are those of the version that they were written for.
USUAL = (6, 0, 99)
KINDS = ("fails", "chance", "skips")
# Only requests for one of these contact the running server; other tests learn nothing about it.
FIXTURES = frozenset({"server", "standalone", "find_deployment"})
SELECTION_MS = 30_000


class RunningMember:
    """One address of a running server, with as much of `mangonel.server.Member` as works without a process."""

    def __init__(self, number: int, address: str, uri: str) -> None:
        self.number = number
        self.address = address
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.uri = uri
        self.is_running = True

    def run_command(self, command: dict[str, Any], *, timeout: float = 5.0) -> dict[str, Any]:
        """Run a command on `admin`."""
        wanted = {name: value for name, value in command.items() if name != "$db"}
        with MongoClient[dict[str, Any]](self.uri, timeoutMS=int(timeout * 1000)) as client:
            return client[command.get("$db", "admin")].command(wanted)

    @property
    def state(self) -> str:
        """`primary`, `secondary` or `other`."""
        reply = self.run_command({"hello": 1})
        if reply.get("isWritablePrimary"):
            return "primary"
        return "secondary" if reply.get("secondary") else "other"

    def __getattr__(self, name: str) -> NoReturn:
        _needs_own(name)


class RunningServer:
    """A server that others started, with as much of `mangonel.server.Server` as works without a process."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        with MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=SELECTION_MS) as client:
            hello = client.admin.command("hello")
            told = client.admin.command("buildInfo")
            self.parameters = _parameters(client)
        self.is_mongod = "ferretdb" not in told
        self.version = tuple(int(part) for part in re.findall(r"\d+", told["version"])[:3])
        self.product = "mongod" if self.is_mongod else f"ferretdb-{_number(told['ferretdb']['version'])}"
        self.replica_set_name: str | None = hello.get("setName")
        self.has_users = "@" in uri
        parts = urlsplit(uri)
        users, at, hosts = parts.netloc.rpartition("@")
        options = {key: value for key, value in parse_qsl(parts.query) if key != "replicaSet"}
        query = urlencode({**options, "directConnection": "true"})
        self.members = [
            RunningMember(number, address, f"mongodb://{users}{at}{address}/?{query}")
            for number, address in enumerate(hello.get("hosts", hosts.split(",")))
        ]

    @property
    def primary(self) -> RunningMember | None:
        """Return the member that takes writes now, if any."""
        return next((member for member in self.members if member.state == "primary"), None)

    def wait_for_primary(self) -> RunningMember:
        """Return the member that takes writes now."""
        primary = self.primary
        assert primary is not None, "expected a server with a primary, got one without"
        return primary

    @property
    def secondaries(self) -> list[RunningMember]:
        """The members that are secondaries now."""
        return [member for member in self.members if member.state == "secondary"]

    def __getattr__(self, name: str) -> NoReturn:
        _needs_own(name)


def _number(text: str) -> str:
    found = re.search(r"\d+", text)
    assert found, f"expected a version with a number, got {text!r}"
    return found[0]


def _parameters(client: MongoClient[dict[str, Any]]) -> dict[str, Any]:
    try:
        return client.admin.command("getParameter", "*")
    except Exception:  # a server without getParameter has none of those that tests ask for
        return {}


def _needs_own(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    pytest.skip(f"needs a mongod of its own ({name}); MANGONEL_URI names one that runs")


def refuse_to_start(*args: object, **options: object) -> NoReturn:
    """Replaces `mangonel.server.start`, since a test must use only this run's server."""
    pytest.skip("starts a mongod of its own; MANGONEL_URI names one that runs")


@functools.cache
def running() -> RunningServer:
    """Return the server that MANGONEL_URI names."""
    return RunningServer(URI)


def shared() -> Server:
    """Return the running server for tests that ask for any."""
    return cast(Server, running())


def standalone() -> Server:
    """Return the running server for tests that ask for one that is in no set."""
    if running().replica_set_name:
        pytest.skip("needs a standalone; MANGONEL_URI names a replica set")
    return shared()


@functools.cache
def version() -> tuple[int, ...]:
    """Return the version of the server of this run."""
    if URI:
        return running().version
    try:
        return mongod_version(find_mongod())
    except MongodNotFound:
        return USUAL


def name() -> str:
    """Return the name of the server's list: the product, or the version of a mongod."""
    if URI and not running().is_mongod:
        return running().product
    return ".".join(map(str, version()[:2]))


@dataclass(frozen=True)
class Line:
    """A line of a list: which tests, and why."""

    kind: str
    tests: str
    reason: str

    def is_about(self, nodeid: str) -> bool:
        """Return whether the line covers a test; `*` matches anything."""
        return re.fullmatch(".*".join(map(re.escape, self.tests.split("*"))), nodeid) is not None


def lines_of(path: Path) -> list[Line]:
    """Return the lines of a list.

    Raises:
        ValueError: a row is not of that form; the message quotes it.
    """
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        if not line or line.startswith("#"):
            continue
        parts = line.split(" | ")
        if len(parts) != 3 or parts[0] not in KINDS or not all(part.strip() for part in parts):
            raise ValueError(f"expected KIND | TESTS | REASON, KIND one of {', '.join(KINDS)}, got: {line}")
        found.append(Line(*parts))
    return found


def mark(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that need no running server, and mark those that this server cannot pass."""
    # On Windows this is the only run.
    if URI and sys.platform != "win32":
        left = [item for item in items if FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))]
        items[:] = [item for item in items if item not in set(left)]
        config.hook.pytest_deselected(items=left)
    lines = lines_of(FOLDER / f"{name()}.txt")
    if sys.platform == "win32":
        lines += lines_of(FOLDER / "windows.txt")
    for item in items if lines else ():
        if line := _first(lines, item.nodeid.removeprefix("tests/")):
            item.add_marker(_marker(line))


def _first(lines: Sequence[Line], nodeid: str) -> Line | None:
    return next((line for line in lines if line.is_about(nodeid)), None)


def _marker(line: Line) -> pytest.MarkDecorator:
    if line.kind == "skips":
        return pytest.mark.skip(reason=line.reason)
    return pytest.mark.xfail(reason=line.reason, strict=line.kind == "fails")
