"""Converts a change of the shop to an event for pages: a new row, changed values, or a removed row.

Knows the fields of documents and the form of change events; knows neither browsers nor the change stream.
Spec: change-streams.
"""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from mangonel.demo.ring import Position

Row = dict[str, Any]

ROWS = 100
"""Rows of each kind that the state has, and a page shows."""

# Collection -> the name of its rows.
KINDS = {"customers": "customer", "orders": "order"}
# Field of a document -> its name in rows.
SHOWN = {
    "customer": {"name": "name", "city": "city", "joined": "at", "number": "n"},
    "order": {"customer": "customer", "item": "item", "cents": "cents", "state": "state", "placed": "at"},
}

encode = msgspec.json.Encoder().encode
"""The data of rows as JSON, as bytes."""


class Event(NamedTuple):
    """A change.

    Attributes:
        kind: kind of row.
        id: the document's id in hexadecimal digits.
        op: "insert", "update", "replace" or "delete".
        row: the displayed values of the document; for an update, only the changed ones.
    """

    kind: str
    id: str
    op: str
    row: Row

    @property
    def difference(self) -> int:
        """The change in the number of documents."""
        return {"insert": 1, "delete": -1}.get(self.op, 0)

    def json(self) -> bytes:
        """Return the event as JSON for pages: encoded once for all browsers."""
        return encode({"op": self.op, "kind": self.kind, "id": self.id, **self.row})


class Rows:
    """The newest rows of one kind. It follows the same rules as the page's table, so both always agree."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, Row] = OrderedDict()

    def begin(self, rows: Iterable[Row]) -> None:
        """Replace all rows by these; the newest comes last."""
        self._rows = OrderedDict((row["id"], row) for row in rows)

    def all(self) -> list[Row]:
        """Return the rows; the newest comes last."""
        return list(self._rows.values())

    def take(self, event: Event) -> None:
        """Apply an event; ignore it if its row is too old to be kept."""
        if event.op == "insert":
            self._rows[event.id] = {"id": event.id, **event.row}
            if len(self._rows) > ROWS:
                self._rows.popitem(last=False)
        elif event.op == "delete":
            self._rows.pop(event.id, None)
        elif event.id in self._rows:
            self._rows[event.id].update(event.row)


def position_of(change: Mapping[str, Any]) -> Position:
    """Return the position of a change."""
    at = change["clusterTime"]
    return Position(at.time, at.inc, change["_id"]["_data"])


def event_of(change: Mapping[str, Any]) -> Event:
    """Return the event for a change."""
    kind, op = KINDS[change["ns"]["coll"]], change["operationType"]
    if op == "update":
        row = _shown(kind, change["updateDescription"]["updatedFields"])
    else:
        row = {} if op == "delete" else _shown(kind, change["fullDocument"])
    return Event(kind, str(change["documentKey"]["_id"]), op, row)


def row_of(kind: str, document: Mapping[str, Any]) -> Row:
    """Return the row for a document."""
    return {"id": str(document["_id"]), **_shown(kind, document)}


def _shown(kind: str, fields: Mapping[str, Any]) -> Row:
    row = {shown: fields[name] for name, shown in SHOWN[kind].items() if name in fields}
    if "n" in row:
        row["n"] = int(row["n"])  # not the 64-bit integer of BSON, which JSON does not know
    if "at" in row:
        row["at"] = round(row["at"].replace(tzinfo=dt.UTC).timestamp() * 1000)
    return row
