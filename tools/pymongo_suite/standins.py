"""Replacements of PyMongo's internals that its test helpers need on this driver. The product has none of it.

An internal name that a test module imports becomes a `Standin`: the import succeeds, and using the name raises
`PrivateName`. The few that the helpers need for setting up a test have a value here.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import re
import sys
import threading
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

from mangonel._observe import command_events, deployment_events, pool_events
from pymongo_suite.inside import TransactionState, within_timeout


class PrivateName(NotImplementedError):
    """A test used an internal name of PyMongo."""


class _Inside(type):
    """The type of stand-ins: any use of one raises with its name."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return standin(f"{cls.__qualname__}.{name}")

    def __call__(cls, *arguments: object, **keywords: object) -> Any:
        raise PrivateName(f"{cls.__qualname__} is a name from inside PyMongo")

    def __iter__(cls) -> Any:
        # Test modules make tables of such names at import.
        return iter(())


def standin(name: str) -> Any:
    """Return the stand-in for an internal name."""
    return _Inside(name, (), {"__qualname__": name})


class Version(tuple[int, ...]):
    """A server's version, comparable."""

    def __new__(cls, *parts: int) -> Version:
        return super().__new__(cls, [*parts, 0, 0, 0, 0][: max(4, len(parts))])

    @classmethod
    def from_string(cls, text: str) -> Version:
        """Return the version in `text`; a pre-release sorts below its release."""
        found = re.match(r"[\d.]+", text)
        parts = [int(part) for part in (found.group() if found else "0").strip(".").split(".")]
        return cls(*([*parts, 0, 0][:3]), -1 if "-" in text else 0)

    @classmethod
    def from_version_array(cls, parts: list[int]) -> Version:
        """Return the version of a server's `versionArray`."""
        return cls(*parts[:3], -1 if len(parts) > 3 and parts[3] < 0 else 0)

    def at_least(self, *parts: int) -> bool:
        """Return whether this is `parts` or newer."""
        return self >= Version(*parts)

    def __str__(self) -> str:
        return ".".join(map(str, self))


async def _wait(condition: asyncio.Condition, timeout: float | None) -> bool:
    try:
        return await asyncio.wait_for(condition.wait(), timeout)
    except TimeoutError:
        return False


# Commands that listeners are not told about.
_SENSITIVE = {
    "authenticate",
    "copydb",
    "copydbgetnonce",
    "copydbsaslstart",
    "createuser",
    "getnonce",
    "saslcontinue",
    "saslstart",
    "updateuser",
}

VALUES: dict[str, Any] = {
    # The runner of the unified specification tests.
    "pymongo._csot.apply": within_timeout,
    "pymongo.client_session_shared._TxnState": TransactionState,
    "pymongo.monitoring._CommandEvent": command_events._CommandEvent,
    "pymongo.monitoring._ConnectionEvent": pool_events._ConnectionEvent,
    "pymongo.monitoring._PoolEvent": pool_events._AddressEvent,
    "pymongo.monitoring._ServerEvent": deployment_events._ServerEvent,
    "pymongo.monitoring._ServerHeartbeatEvent": deployment_events._ServerHeartbeatEvent,
    "pymongo.common.EVENTS_QUEUE_FREQUENCY": 1,
    "pymongo.common.Version": Version,
    "pymongo.common.has_c": lambda: False,
    "pymongo.encryption_options._HAVE_PYMONGOCRYPT": importlib.util.find_spec("pymongocrypt") is not None,
    "pymongo.hello.HelloCompat": type(
        "HelloCompat",
        (),
        {
            "CMD": "hello",
            "LEGACY_CMD": "ismaster",
            "LEGACY_ERROR": "not master",
            "LEGACY_PRIMARY": "ismaster",
            "PRIMARY": "isWritablePrimary",
        },
    ),
    "pymongo.helpers_shared._SENSITIVE_COMMANDS": _SENSITIVE,
    "pymongo.monitoring._SENSITIVE_COMMANDS": _SENSITIVE,
    "pymongo.lock._async_cond_wait": _wait,
    "pymongo.lock._async_create_condition": asyncio.Condition,
    "pymongo.lock._async_create_lock": asyncio.Lock,
    "pymongo.lock._cond_wait": threading.Condition.wait,
    "pymongo.lock._create_condition": threading.Condition,
    "pymongo.lock._create_lock": threading.Lock,
    "pymongo.message._FIELD_MAP": {
        "bulkWrite": "ops",
        "delete": "deletes",
        "insert": "documents",
        "update": "updates",
    },
    "pymongo.ssl_support.HAVE_SSL": True,
    "pymongo.ssl_support._ssl": SimpleNamespace(IS_PYOPENSSL=False),
    "pymongo.asynchronous.helpers.anext": anext,
    "pymongo.asynchronous.helpers.aiter": aiter,
    "pymongo.synchronous.helpers.next": next,
    "pymongo.synchronous.helpers.iter": iter,
}


class _Rest:
    """Finds modules of PyMongo that the shim does not know."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return a spec for any module of PyMongo."""
        if fullname.partition(".")[0] in ("pymongo", "bson", "gridfs") and "." in fullname:
            return ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make a module in which every name is a stand-in."""
        return _Unknown(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: there is no code to run."""


def promised_elsewhere(name: str) -> Any:
    """Return the public object of a name that a test imports from a module where it is not defined, or None."""
    if name.startswith("_"):
        return None
    for place in (
        "mangonel",
        "mangonel.errors",
        "mangonel.options",
        "mangonel.results",
        "mangonel.operations",
    ):
        value = getattr(importlib.import_module(place), name, None)
        if value is not None and not isinstance(value, ModuleType):
            return value
    return None


class _Unknown(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        return VALUES.get(full) or promised_elsewhere(name) or standin(full)


def _set_heartbeat_frequency(seconds: float) -> None:
    from mangonel.options import DEFAULTS

    DEFAULTS["heartbeatfrequencyms"] = seconds


def _set_least_heartbeat(seconds: float) -> None:
    from mangonel import client_options

    client_options.MIN_HEARTBEAT_INTERVAL = seconds


# The suite's helper `client_knobs` sets these inside PyMongo, to speed tests up.
_KNOBS = {"HEARTBEAT_FREQUENCY": _set_heartbeat_frequency, "MIN_HEARTBEAT_INTERVAL": _set_least_heartbeat}


def take_defaults_back() -> None:
    """Let clients find the default host again; one test overrides it on the class."""
    from mangonel import AsyncMongoClient, MongoClient

    for client in (AsyncMongoClient, MongoClient):
        client.HOST, client.PORT = "localhost", 27017


def install() -> None:
    """Map PyMongo's names to this driver, with stand-ins for the internals that tests import."""
    from mangonel.compat import install_as_pymongo
    from mangonel.compat._alias import AliasModule
    from mangonel.gridfs import _opening

    install_as_pymongo()
    # On a busy machine the server seems far away, and a download from far is one command, not PyMongo's two.
    _opening.LEAST_DISTANCE = float("inf")
    promised = AliasModule.__getattr__

    def find(module: AliasModule, name: str) -> object:
        full = f"{module.__name__}.{name}"
        if full in VALUES:
            return VALUES[full]
        try:
            return promised(module, name)
        except (NotImplementedError, AttributeError) as error:
            if name.startswith("__") or name == "_cbson":
                raise
            if isinstance(error, NotImplementedError) or name.startswith("_") or not module._sources:
                return promised_elsewhere(name) or standin(full)
            try:
                return importlib.import_module(full)
            except ImportError:
                raise error from None

    class Knobs(AliasModule):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name in _KNOBS:
                _KNOBS[name](value)

    AliasModule.__getattr__ = find  # type: ignore[method-assign, assignment]
    importlib.import_module("pymongo.common").__class__ = Knobs
    sys.meta_path.append(_Rest())  # type: ignore[arg-type]
