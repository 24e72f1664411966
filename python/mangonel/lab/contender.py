"""Contenders: a name, capabilities, and an adapter with few methods, written as a user of the driver would.

The scheduler also imports modules that define contenders, so they must import their drivers inside functions.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

Document: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """An adapter's target: the deployment, the names, and the write concern of all writes."""

    uri: str
    database: str
    collection: str
    write_concern: int | str = 1
    connections: int = 1


@dataclass(frozen=True)
class Batching:
    """How to read a cursor: documents per batch (0: the server's default), exhaust, or one batch ahead."""

    size: int = 0
    exhaust: bool = False
    prefetch: bool = False


class Adapter(Protocol):
    """The methods of a contender; on an event loop they are coroutine functions, and there is `open`.

    `iterate` reads the whole collection and returns the number of documents.
    """

    def insert_one(self, document: Document) -> Any: ...
    def insert_many(self, documents: list[Document]) -> Any: ...
    def find_one(self, key: int) -> Any: ...
    def find_list(self, limit: int) -> Any: ...
    def iterate(self, batching: Batching) -> Any: ...
    def documents(self, batching: Batching) -> Any: ...
    def to_list(self) -> Any: ...
    def decoded(self, result: Any) -> Any: ...
    def close(self) -> Any: ...


@dataclass(frozen=True)
class Codec:
    """The BSON functions of a contender, and the module with its types (`ObjectId`, `Binary`, ...)."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    decode_all: Callable[[bytes], list[Any]]
    types: Any


@dataclass(frozen=True)
class Contender:
    """One row of the tables."""

    id: str
    title: str
    # Capability flags, described in `contenders/drivers.toml`: a contender plays a part if it has all flags that the
    # part needs.
    offers: frozenset[str]
    packages: tuple[str, ...] = ()  # import names it needs; a missing one is the reason shown for its absence
    # Names that those packages must have, as "module:attribute", checked in the worker.
    names: tuple[str, ...] = ()
    loop: str = ""  # the event loop it runs on, "asyncio" or "uvloop"
    blocking: Callable[[Target], Adapter] | None = None
    asynchronous: Callable[[Target], Adapter] | None = None
    codec: Callable[[], Codec] | None = None
    program: Callable[[str, Target], str] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # variables its worker process gets
    copy_of: str = ""  # for the null control, the contender this one repeats under a second name
    unsuited: Callable[[str], str] | None = (
        None  # returns why a deployment is unsuitable, given its URI, or ""
    )

    @property
    def is_floor(self) -> bool:
        """Return whether it is a lower bound, not a choice: a raw socket, a page without a database."""
        return "floor" in self.offers or self.id.startswith(("raw-", "bare", "objects-floor"))

    def missing(self) -> str:
        """Return why it cannot play, or "". Imports nothing."""
        absent = [name for name in self.packages if importlib.util.find_spec(name) is None]
        return f"not installed: {', '.join(absent)}" if absent else ""

    def prepare(self) -> None:
        """Build its programs, before any worker starts; an exception keeps it out of the run, and is shown."""

    def unusable(self, uri: str) -> str:
        """Return why it cannot play, or "". Imports the packages, so only workers may call it."""
        if reason := self.missing() or (self.unsuited(uri) if self.unsuited else ""):
            return reason
        for name in self.names:
            module, _, attribute = name.partition(":")
            try:
                getattr(importlib.import_module(module), attribute)
            except (ImportError, AttributeError) as error:
                return f"{module} has no {attribute} yet: {type(error).__name__}: {error}"
        return ""

    def installed(self) -> dict[str, dict[str, str]]:
        """Return for each package the version ("versions") and a digest of its list of installed files ("builds")."""
        versions, builds = {}, {}
        for name in self.packages:
            try:
                found = importlib.metadata.distribution(name)
            except importlib.metadata.PackageNotFoundError:
                versions[name] = "source tree" if name == "mangonel" else "unknown"
                continue
            versions[name] = found.version
            if told := found.read_text("RECORD"):
                builds[name] = hashlib.sha256(told.encode()).hexdigest()[:16]
        return {"versions": versions, "builds": builds}
