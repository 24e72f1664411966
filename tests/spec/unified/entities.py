"""The named things of a case: clients, databases, collections, sessions, buckets, threads, cursors, results.

Spec: unified-test-format, "entity".
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spec.unified import values
from spec.unified.driver import Face, Worker
from spec.unified.events import EventLog, make_listener
from spec.unified.logs import MessageLog
from spec.unified.tracing import SpanLog

__all__ = ["ClientEntity", "Entities", "SessionEntity"]

CLOSE_TIMEOUT = 60.0


@dataclass
class ClientEntity:
    """A client and the records of its activity."""

    client: Any
    log: EventLog
    messages: MessageLog | None = None
    spans: SpanLog | None = None
    # Events that the runner needs, regardless of the case.
    inner_log: EventLog = field(default_factory=lambda: EventLog(_INNER_EVENTS, (), shows_secrets=False))

    @property
    def topology_ids(self) -> list[Any]:
        """Return the id by which events and messages name the client; none before its first operation."""
        return [event.topology_id for event in self.inner_log.events("sdam")]


@dataclass
class SessionEntity:
    """A session; its id stays known after its end."""

    session: Any
    lsid: Any


_INNER_EVENTS = (
    "connectionReadyEvent",
    "connectionCheckedOutEvent",
    "connectionCheckedInEvent",
    "topologyOpeningEvent",
)


class Entities:
    """Creates the entities of a case and closes them at its end."""

    def __init__(self, face: Face, uri: str, cluster_time: Any, options: Mapping[str, Any]) -> None:
        self._options = options
        self._face = face
        self._uri = uri
        self._cluster_time = cluster_time
        self._values: dict[str, Any] = {}
        self._contexts = contextlib.ExitStack()
        self._starts: list[asyncio.Future[None]] = []
        # By id: the database of a bucket, and its name there.
        self.buckets: dict[int, tuple[Any, str]] = {}

    def find(self, name: str) -> Any:
        """Return the entity with that name."""
        assert name in self._values, f"the case names no {name!r}; it has {sorted(self._values)}"
        return self._values[name]

    def keep(self, name: str, value: Any) -> None:
        """Name an operation's result."""
        assert name not in self._values, f"the case has two {name!r}"
        self._values[name] = value

    @property
    def has_sessions(self) -> bool:
        """Return whether one of them is a session."""
        return any(isinstance(value, SessionEntity) for value in self._values.values())

    async def create(self, descriptions: list[Mapping[str, Any]]) -> None:
        """Create the described entities, in their order."""
        for description in descriptions:
            kind, wanted = next(iter(description.items()))
            make = getattr(self, f"_make_{kind}", None)
            if make is None:
                raise NotImplementedError(f"entities of the kind {kind}")
            self.keep(wanted["id"], await make(wanted))

    async def _make_client(self, wanted: Mapping[str, Any]) -> ClientEntity:
        driver = self._face.driver
        observed = wanted.get("observeEvents", ())
        entity = ClientEntity(
            None,
            EventLog(
                observed,
                wanted.get("ignoreCommandMonitoringEvents", ()),
                shows_secrets=bool(wanted.get("observeSensitiveCommands")),
            ),
        )
        options = {**self._options, **wanted.get("uriOptions", {})}
        if "serverApi" in wanted:
            options["server_api"] = values.server_api(driver, wanted["serverApi"])
        if "autoEncryptOpts" in wanted:
            options["auto_encryption_opts"] = values.auto_encryption_options(
                driver, wanted["autoEncryptOpts"]
            )
        options["event_listeners"] = [
            make_listener(driver, entity.log),
            make_listener(driver, entity.inner_log),
        ]
        if "observeLogMessages" in wanted:
            entity.messages = MessageLog(driver, wanted["observeLogMessages"])
            self._contexts.enter_context(entity.messages)
        if "observeTracingMessages" in wanted:
            entity.spans = SpanLog()
            shows_commands = bool(wanted["observeTracingMessages"].get("enableCommandPayload"))
            options["tracing"] = entity.spans.option(shows_commands=shows_commands)
        client_class = self._face.public(driver.module(""), "MongoClient")
        entity.client = client_class(self._seeds(options), **options)
        if self._face.is_async:
            # As the format expects; an asyncio client would otherwise wait for its first operation.
            self._starts.append(asyncio.ensure_future(_connect(entity.client)))
        if "awaitMinPoolSizeMS" in wanted:
            await self._fill_pools(entity, options, wanted["awaitMinPoolSizeMS"] / 1000)
        return entity

    def _seeds(self, options: Mapping[str, Any]) -> str:
        """Return the URI; for a direct connection with one host only, as the format requires."""
        hosts, slash, rest = self._uri.removeprefix("mongodb://").partition("/")
        if options.get("directConnection"):
            users, at, hosts = hosts.rpartition("@")
            hosts = users + at + hosts.partition(",")[0]
        return f"mongodb://{hosts}{slash}{rest}"

    async def _fill_pools(self, entity: ClientEntity, options: Mapping[str, Any], seconds: float) -> None:
        client = entity.client
        # The first command creates the pools; the case's limit applies to its operations.
        with self._face.driver.module("").timeout(seconds):
            await self._face.wait(client.admin.command("ping"))
        wanted = options["minPoolSize"] * len(await self._face.wait(client.nodes))
        deadline = time.monotonic() + seconds
        while entity.inner_log.count("connectionReadyEvent") < wanted:
            assert time.monotonic() < deadline, f"the pools were not filled within {seconds} s"
            await self._face.sleep(0.01)
        entity.log.clear()

    async def _make_database(self, wanted: Mapping[str, Any]) -> Any:
        client = self.find(wanted["client"]).client
        options = values.concerns(self._face.driver, wanted.get("databaseOptions", {}))
        return client.get_database(wanted["databaseName"], **options)

    async def _make_collection(self, wanted: Mapping[str, Any]) -> Any:
        database = self.find(wanted["database"])
        options = values.concerns(self._face.driver, wanted.get("collectionOptions", {}))
        return database.get_collection(wanted["collectionName"], **options)

    async def _make_session(self, wanted: Mapping[str, Any]) -> SessionEntity:
        client = self.find(wanted["client"]).client
        options = values.session_options(self._face.driver, wanted.get("sessionOptions", {}), self.find)
        session = await self._face.wait(client.start_session(**options))
        if self._cluster_time is not None:
            session.advance_cluster_time(self._cluster_time)
        return SessionEntity(session, session.session_id)

    async def _make_clientEncryption(self, wanted: Mapping[str, Any]) -> Any:  # noqa: N802  # the format's spelling
        driver, given = self._face.driver, wanted["clientEncryptionOpts"]
        is_apart = self._face.is_async and driver.name == "pymongo"
        module = driver.module("asynchronous.encryption" if is_apart else "encryption")
        return self._face.public(module, "ClientEncryption")(
            values.kms_providers(given["kmsProviders"]),
            given["keyVaultNamespace"],
            self.find(given["keyVaultClient"]).client,
            driver.bson("codec_options").CodecOptions(),
            key_expiration_ms=given.get("keyExpirationMS"),
        )

    async def _make_bucket(self, wanted: Mapping[str, Any]) -> Any:
        bucket_class = self._face.public(self._face.driver.gridfs, "GridFSBucket")
        options = dict(wanted.get("bucketOptions", {}))
        arguments = {
            "bucket_name": options.pop("bucketName", "fs"),
            **({"chunk_size_bytes": options.pop("chunkSizeBytes")} if "chunkSizeBytes" in options else {}),
            **values.concerns(self._face.driver, options),
        }
        database = self.find(wanted["database"])
        bucket = bucket_class(database, **arguments)
        self.buckets[id(bucket)] = database, arguments["bucket_name"]
        return bucket

    async def _make_thread(self, wanted: Mapping[str, Any]) -> Worker:
        return self._face.start_worker()

    async def close(self) -> None:
        """Close everything that the case left: cursors, sessions, then the clients. A lost connection does no harm
        here.
        """
        for start in self._starts:
            start.cancel()
        with self._contexts:
            for kind in (None, SessionEntity, ClientEntity):
                for value in self._values.values():
                    with contextlib.suppress(Exception):
                        if isinstance(value, SessionEntity):
                            if kind is SessionEntity:
                                await self._face.wait(value.session.end_session())
                        elif isinstance(value, ClientEntity):
                            if kind is ClientEntity:
                                await self._face.wait(value.client.close())
                        elif kind is None and _is_cursor(value):
                            await self._face.wait(value.close())


async def _connect(client: Any) -> None:
    # Without a server the case itself expects the outcome.
    with contextlib.suppress(Exception):
        await client.aconnect()


def _is_cursor(value: Any) -> bool:
    return hasattr(value, "close") and (hasattr(value, "try_next") or hasattr(value, "alive"))
