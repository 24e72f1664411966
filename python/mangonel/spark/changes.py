"""The format "mangonel_changes": the change stream of a collection as a stream of Spark. Offsets are resume tokens."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from mangonel.bson import json_util
from mangonel.errors import ConfigurationError
from mangonel.spark.options import Options

__all__ = ["ChangeSource"]

_KNOWN = frozenset({"filter", "fulldocument"})
_SCHEMA = "token string, operation string, time timestamp, key string, document string, update string"
# Milliseconds that a server waits for changes before it returns an empty batch.
_WAIT_MS = 200
# Seconds after which a stream without changes advances its offset. The oplog covers hours at least.
_IDLE_S = 60.0


class ChangeSource(DataSource):  # type: ignore[misc]  # Spark's class is untyped here
    """The changes of a collection: `spark.readStream.format("mangonel_changes")`.

    Columns: `token` (unique, and sorted like the changes), `operation`, `time`, and, as relaxed extended JSON, `key`
    (the document's), `document` (the full one) and `update` (the changed fields). A stream begins with the changes
    after its start, or at its checkpoint; an interrupted batch reads the same changes again.

    Options: `database`, `collection`, `uri` and `connect` as for "mangonel"; `filter`, a query of change events as
    extended JSON; `fulldocument` as for `Collection.watch`.

    Needs a replica set or sharded cluster.

    Example:
        >>> spark.readStream.format("mangonel_changes").options(database="shop", collection="orders").load()
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "mangonel_changes"

    def schema(self) -> str:
        """Return the columns of changes."""
        return _SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return a reader.

        Raises:
            ConfigurationError: the schema differs from that of changes.
        """
        if len(schema.fields) != len(_SCHEMA.split(",")):
            raise ConfigurationError(f"expected no schema, or {_SCHEMA}, got {schema.simpleString()}")
        return _Reader(Options(self.options, _KNOWN))


@dataclass
class _Between(InputPartition):  # type: ignore[misc]  # Spark's class is untyped here
    start: str
    end: str


class _Reader(DataSourceStreamReader):  # type: ignore[misc]  # Spark's class is untyped here
    """Reads the changes after one token, up to another; tokens are ordered as text."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._first: dict[str, Any] | None = None
        self._moved = time.monotonic()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the token of the moment of the first call.

        Spark calls again when it plans the first batch: a later token would skip the changes in between.
        """
        if self._first is None:
            with self._options.client() as client:
                self._first = {"token": json.dumps(_now(self._options.collection(client)))}
        return self._first

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the token of the last change so far, or the same token if nothing changed.

        Not the token of this moment: without further writes, a stream arrives there only with the server's next no-op,
        up to 10 seconds later. Without changes the token advances once a minute, so that it stays within the oplog.
        """
        token: Any = json.loads(start["token"])
        passed = token
        with self._options.client() as client:
            now = _now(self._options.collection(client))["_data"]
            while token["_data"] < now:
                with self._watch(client, token, only_tokens=True) as stream:
                    while token["_data"] < now and (change := stream.try_next()) is not None:
                        token = change["_id"]
                    passed = stream.resume_token
                    if stream.alive:
                        break
                # The stream ended with its collection; the next one continues after that.
                token = passed
        end = json.dumps(token)
        if end == start["token"] and time.monotonic() - self._moved > _IDLE_S:
            end = json.dumps(passed)
        if end != start["token"]:
            self._moved = time.monotonic()
        return {"token": end}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the one part of a batch: a change stream has one order."""
        return [] if start == end else [_Between(start["token"], end["token"])]

    def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the changes after one token, up to the other."""
        with self._options.client() as client:
            for change in self._changes(client, partition.start, partition.end):
                yield _row(change)

    def _changes(self, client: Any, start: str, end: str) -> Iterator[Any]:
        """Yield the changes after one token, up to the other."""
        token, last = json.loads(start), json.loads(end)["_data"]
        while token["_data"] < last:
            with self._watch(client, token) as stream:
                while token["_data"] < last:
                    change = stream.try_next()
                    token = stream.resume_token if change is None else change["_id"]
                    if change is not None and token["_data"] <= last:
                        yield change
                    if change is None and not stream.alive:
                        break

    def _watch(self, client: Any, token: Any, *, only_tokens: bool = False) -> Any:
        """Return a change stream that starts after a token."""
        query, whole = self._options.query(), self._options.text("fulldocument")
        stages = [] if query is None else [{"$match": query}]
        return self._options.collection(client).watch(
            [*stages, {"$project": {"_id": 1}}] if only_tokens else stages,
            # The server looks up each document; the filter may need it.
            full_document=None if only_tokens and query is None else whole,
            # Unlike `resume_after`, `start_after` continues after a collection was dropped or renamed.
            start_after=token,
            max_await_time_ms=_WAIT_MS,
        )

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the server keeps changes by time."""


def _now(collection: Any) -> Any:
    # A stream that begins with a change has no token before it; this stream has no changes.
    with collection.watch([{"$match": {"operationType": ""}}], max_await_time_ms=_WAIT_MS) as stream:
        return stream.resume_token


def _row(change: Any) -> tuple[Any, ...]:
    stamp = change["clusterTime"].as_datetime()
    time = change.get("wallTime", stamp)
    if time.tzinfo is None:
        time = time.replace(tzinfo=datetime.UTC)

    def text(name: str) -> str | None:
        value = change.get(name)
        return None if value is None else json_util.dumps(value)

    names = ("documentKey", "fullDocument", "updateDescription")
    return (json.dumps(change["_id"]), change["operationType"], time, *map(text, names))
