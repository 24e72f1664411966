"""The format "mangonel_changes": the change stream of a collection as a stream of Spark. Offsets are resume tokens."""

from __future__ import annotations

import datetime
import json
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
# Milliseconds that a server waits for changes before it says that there are none.
_WAIT_MS = 200


class ChangeSource(DataSource):  # type: ignore[misc]  # Spark's class is untyped here
    """The changes of a collection: `spark.readStream.format("mangonel_changes")`.

    Columns: `token` (of the change, unique and in their order), `operation`, `time`, and, as relaxed extended JSON,
    `key` (the document's), `document` (the full one) and `update` (what changed). A stream begins with the changes
    after its start, or where its checkpoint says; an interrupted batch reads the same changes again.

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
            ConfigurationError: the schema is another than that of changes.
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

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the token of this moment."""
        with self._options.client() as client:
            return {"token": _now(self._options.collection(client))}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the token of this moment, or the same one if nothing changed."""
        with self._options.client() as client:
            now = _now(self._options.collection(client))
            for _ in self._changes(client, start["token"], now):
                return {"token": now}
            return start

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
        options = self._options
        query = options.query()
        token, last = json.loads(start), json.loads(end)["_data"]
        while token["_data"] < last:
            with options.collection(client).watch(
                [] if query is None else [{"$match": query}],
                full_document=options.text("fulldocument"),
                # Unlike `resume_after`, it continues behind the end of a collection that was dropped or renamed.
                start_after=token,
                max_await_time_ms=_WAIT_MS,
            ) as stream:
                while token["_data"] < last:
                    change = stream.try_next()
                    token = stream.resume_token if change is None else change["_id"]
                    if change is not None and token["_data"] <= last:
                        yield change
                    if change is None and not stream.alive:
                        break

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the server keeps changes by time."""


def _now(collection: Any) -> str:
    with collection.watch(max_await_time_ms=_WAIT_MS) as stream:
        return json.dumps(stream.resume_token)


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
