"""What a contender is: a name, what it can do, and an adapter of few verbs, written as its users would.

A module that defines contenders is read by the scheduler too, so it imports its driver inside functions only.
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
    """Where an adapter works: the deployment, the names, and the write concern of everything it writes."""

    uri: str
    database: str
    collection: str
    write_concern: int | str = 1
    connections: int = 1


@dataclass(frozen=True)
class Batching:
    """How a cursor is read: documents per batch (0: the server's default), exhaust, or one batch ahead."""

    size: int = 0
    exhaust: bool = False
    prefetch: bool = False


class Adapter(Protocol):
    """The verbs of a contender; on an event loop they are coroutine functions, and there is `open`.

    `iterate` reads the whole collection and returns how many documents it saw.
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
    """The BSON functions of a contender, and the module that holds its types (`ObjectId`, `Binary`, ...)."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    decode_all: Callable[[bytes], list[Any]]
    types: Any


@dataclass(frozen=True)
class Contender:
    """One row of the tables."""

    id: str
    title: str
    # Flags, which `contenders/drivers.toml` explains: a part names those that it needs, so they decide who takes part.
    offers: frozenset[str]
    packages: tuple[str, ...] = ()  # import names it needs; a missing one is the reason shown for its absence
    # Names it needs in those packages, as "module:attribute", looked up in the worker.
    names: tuple[str, ...] = ()
    loop: str = ""  # the event loop it runs on, "asyncio" or "uvloop"
    blocking: Callable[[Target], Adapter] | None = None
    asynchronous: Callable[[Target], Adapter] | None = None
    codec: Callable[[], Codec] | None = None
    program: Callable[[str, Target], str] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # variables its worker process gets
    copy_of: str = ""  # for the null control, the contender this one repeats under a second name
    unsuited: Callable[[str], str] | None = None  # returns why it cannot work with a deployment's URI, or ""

    @property
    def is_floor(self) -> bool:
        """Return whether it is there as a limit, not as a choice: a raw socket, a page without a database."""
        return "floor" in self.offers or self.id.startswith(("raw-", "bare", "objects-floor"))

    def missing(self) -> str:
        """Return why it cannot take part, or "". Imports nothing."""
        absent = [name for name in self.packages if importlib.util.find_spec(name) is None]
        return f"not installed: {', '.join(absent)}" if absent else ""

    def unusable(self, uri: str) -> str:
        """Return why it cannot take part, or "". Imports the packages, so it is for workers only."""
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
        """Return by package its version ("versions") and a digest of its list of installed files ("builds")."""
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
