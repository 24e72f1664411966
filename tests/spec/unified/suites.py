"""The cases in the specifications' folder, and the deployments where each can run. Starts nothing and runs nothing.

Spec: unified-test-format, "runOnRequirements".
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec.unified.driver import load_driver
from spec.unified.encryption import entities_of, missing_for_encryption, missing_library, numbers_of
from tools import official

__all__ = [
    "DEPLOYMENTS",
    "NO_FOLDER",
    "Case",
    "Facts",
    "find_cases",
    "folder",
    "parameters",
    "started",
    "suites",
    "where_it_runs",
]

NO_FOLDER = official.NO_FOLDER

# Parts of the format that this runner implements.
NEWEST_SCHEMA = (1, 28)


@dataclass(frozen=True)
class Facts:
    """The properties of a deployment that requirements refer to."""

    name: str
    topology: str
    has_auth: bool = False
    parameters: tuple[tuple[str, Any], ...] = ()


# The deployments that tests/spec/conftest.py starts.
DEPLOYMENTS = ("standalone", "replica set", "replica set with users")
# A declared API, and servers that require one, came with this version.
API_VERSION = (5,)


def parameters(version: tuple[int, ...]) -> dict[str, Any]:
    """Return the start options of a mongod of this version."""
    return {"enableTestCommands": True, **({"acceptApiVersion2": True} if version >= API_VERSION else {})}


def started(version: tuple[int, ...]) -> Iterator[Facts]:
    """Yield the deployments of this version that the tests start."""
    known = parameters(version) | ({"requireApiVersion": False} if version >= API_VERSION else {})
    for name in DEPLOYMENTS:
        topology = "single" if name == "standalone" else "replicaset"
        yield Facts(name, topology, name.endswith("users"), tuple(known.items()))


_FAIL_POINTS = ("failPoint", "targetedFailPoint")

# Methods that the API with PyMongo's names lacks.
_NO_METHOD = {
    "count": "Collection.count",
    "listCollectionObjects": "Database.list_collection_objects",
    "listDatabaseObjects": "MongoClient.list_database_objects",
    "mapReduce": "Collection.map_reduce",
}

_NO_ARGUMENT = {"rawData": "rawData of an operation"}


@dataclass(frozen=True, eq=False)
class Case:
    """One test of a file, with the file's shared parts."""

    suite: str
    file: str
    test: Mapping[str, Any]
    shared: Mapping[str, Any]

    @property
    def description(self) -> str:
        """Return the specification's description."""
        return str(self.test["description"])

    @property
    def key(self) -> str:
        """Return the name of the case in lists and reports."""
        return f"{self.suite}/{self.file}: {self.description}"


def folder() -> Path | None:
    """Return the folder of the specifications, if there is one."""
    return official.FOLDER


@functools.cache
def suites() -> dict[str, tuple[Path, ...]]:
    """Return the files of the unified format, by specification."""
    root = folder()
    assert root is not None, NO_FOLDER
    found: dict[str, list[Path]] = {}
    for path in sorted(root.glob("*/tests/**/*.json")):
        # Those are for schema validators; valid-fail has a test of its own.
        if path.parent.name in ("invalid", "valid-fail"):
            continue
        if b'"schemaVersion"' in path.read_bytes()[:400]:
            found.setdefault(path.relative_to(root).parts[0], []).append(path)
    return {suite: tuple(paths) for suite, paths in found.items()}


def find_cases(suite: str) -> Iterator[Case]:
    """Yield the cases of a specification."""
    for path in suites()[suite]:
        yield from read_cases(suite, path)


def read_cases(suite: str, path: Path) -> Iterator[Case]:
    """Yield the cases of a file; raises when its version of the format is unknown."""
    data = _load(path)
    version = tuple(int(part) for part in data["schemaVersion"].split(".")[:2])
    assert version[0] == 1, f"{path}: version {data['schemaVersion']} of the format is not supported"
    assert version <= NEWEST_SCHEMA, f"{path}: version {data['schemaVersion']} of the format is not supported"
    for test in data["tests"]:
        yield Case(suite, path.stem, test, data)


@functools.cache
def _load(path: Path) -> Any:
    return load_driver().bson("json_util").loads(path.read_text())


def where_it_runs(
    case: Case, version: tuple[int, ...], deployments: Sequence[Facts] | None = None
) -> tuple[list[str], str]:
    """Return the names of the deployments that a case runs on, and the reason if there are none.

    Args:
        version: of the server.
        deployments: those there are. None: what the tests start of this version.
    """
    reason = case.test.get("skipReason") or _what_the_api_lacks(case)
    if reason:
        return [], reason
    names = []
    reasons: list[str] = []
    for facts in started(version) if deployments is None else deployments:
        shared = _unmet(case.shared.get("runOnRequirements"), facts, version)
        own = _unmet(case.test.get("runOnRequirements"), facts, version)
        unmet = [*shared, *own, *_unmet_by_test_commands(case, facts)]
        if not unmet:
            # Users cost a handshake each time; only cases that ask for them get them.
            if not facts.has_auth or not names:
                names.append(facts.name)
        else:
            reasons.extend(unmet)
    return names, "" if names else _main_reason(reasons)


def _unmet_by_test_commands(case: Case, facts: Facts) -> list[str]:
    """Return the missing test commands of a server; no requirement of the format covers them."""
    names = {operation["name"] for operation in case.test["operations"]}
    is_met = dict(facts.parameters).get("enableTestCommands") or names.isdisjoint(_FAIL_POINTS)
    return [] if is_met else ["needs fail points"]


def _unmet(requirements: Any, facts: Facts, version: tuple[int, ...]) -> list[str]:
    """Return nothing when one of the alternatives is met; otherwise the unmet parts of each."""
    if not requirements:
        return []
    reasons = [_unmet_alternative(one, facts, version) for one in requirements]
    return [] if None in reasons else [reason for reason in reasons if reason is not None]


def _unmet_alternative(asked: Mapping[str, Any], facts: Facts, version: tuple[int, ...]) -> str | None:
    topologies = asked.get("topologies")
    if topologies is not None and not {facts.topology} & {
        "sharded" if name == "sharded-replicaset" else name for name in topologies
    }:
        return "needs mongos" if "sharded" in topologies else f"needs {_TOPOLOGIES[topologies[0]]}"
    if version < numbers_of(asked.get("minServerVersion", "0")):
        return f"needs server {asked['minServerVersion']} or newer"
    highest = asked.get("maxServerVersion")
    if highest is not None and version[: highest.count(".") + 1] > numbers_of(highest):
        return f"needs server {highest} or older"
    if asked.get("serverless") == "require":
        return "needs Atlas"
    if "authMechanism" in asked:
        return f"needs a server with {asked['authMechanism']}"
    if "auth" in asked and asked["auth"] != facts.has_auth:
        return "needs users" if asked["auth"] else "needs no users"
    lacking = missing_library(asked.get("csfle"), _library_version())
    if lacking is not None:
        return lacking
    parameters = dict(facts.parameters)
    for name, value in asked.get("serverParameters", {}).items():
        if parameters.get(name) != value:
            return f"needs a server with {name}={value}"
    return None


_TOPOLOGIES = {
    "single": "a standalone",
    "replicaset": "a replica set",
    "load-balanced": "a load balancer",
}


@functools.cache
def _library_version() -> tuple[int, ...] | None:
    try:
        from pymongocrypt import libmongocrypt_version
    except ImportError:
        return None
    return numbers_of(libmongocrypt_version())


def _main_reason(reasons: list[str]) -> str:
    # The reason for the nearest deployment says the most.
    for start in (
        "needs automatic",
        "needs a key",
        "needs fail points",
        "needs a server with",
        "needs server",
        "needs Atlas",
        "needs mongos",
        "needs a load",
    ):
        for reason in reasons:
            if reason.startswith(start):
                return reason
    return reasons[0]


def _what_the_api_lacks(case: Case) -> str | None:
    lacking = missing_for_encryption(case.shared, case.test)
    if lacking is not None:
        return lacking
    for _, wanted in entities_of(case.shared, case.test):
        if "snapshotTime" in wanted.get("sessionOptions", {}):
            return "not in PyMongo's API: snapshot_time of a session"
        if "waitQueueSize" in wanted.get("uriOptions", {}):
            return "not in PyMongo's API: waitQueueSize of a client"
    for operation in case.test["operations"]:
        if operation["name"] in _NO_METHOD:
            return f"not in PyMongo's API: {_NO_METHOD[operation['name']]}()"
        arguments = operation.get("arguments", {})
        for name, what in _NO_ARGUMENT.items():
            if name in arguments:
                return f"not in PyMongo's API: {what}"
    return None
