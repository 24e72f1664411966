"""What a change of the shop is to a page: a row that comes, some of its values that change, or a row that goes.

Knows the documents' fields and the shape of a change event; neither browsers nor how changes come here.
Spec: change-streams.
"""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from mangonel.demo.ring import Position

__all__ = ["KINDS", "ROWS", "Event", "Rows", "encode", "event_of", "position_of", "row_of"]

Row = dict[str, Any]

ROWS = 100
"""Rows of each kind that the state has, and a page shows."""

# Collections, and what their rows are called.
KINDS = {"customers": "customer", "orders": "order"}
# Fields of the documents that are shown, and what they are called in rows.
SHOWN = {
    "customer": {"name": "name", "city": "city", "joined": "at", "number": "n"},
    "order": {"customer": "customer", "item": "item", "cents": "cents", "state": "state", "placed": "at"},
}

encode = msgspec.json.Encoder().encode
"""JSON of what rows are made of, as bytes."""


class Event(NamedTuple):
    """A change.

    Attributes:
        kind: of row.
        id: of the document, in hexadecimal digits.
        op: "insert", "update", "replace" or "delete".
        row: what is shown of the document; of an update, what of that has changed.
    """

    kind: str
    id: str
    op: str
    row: Row

    @property
    def difference(self) -> int:
        """How many documents more there are."""
        return {"insert": 1, "delete": -1}.get(self.op, 0)

    def json(self) -> bytes:
        """Return it as pages get it: encoded once, however many browsers there are."""
        return encode({"op": self.op, "kind": self.kind, "id": self.id, **self.row})


class Rows:
    """The newest rows of one kind, by the same rules as the page's table, so that both always agree."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, Row] = OrderedDict()

    def begin(self, rows: Iterable[Row]) -> None:
        """Forget all, and begin with these, the newest last."""
        self._rows = OrderedDict((row["id"], row) for row in rows)

    def all(self) -> list[Row]:
        """Return them, the newest last."""
        return list(self._rows.values())

    def take(self, event: Event) -> None:
        """Follow a change; of rows that are too old to be shown nothing is known, nor has to be."""
        if event.op == "insert":
            self._rows[event.id] = {"id": event.id, **event.row}
            if len(self._rows) > ROWS:
                self._rows.popitem(last=False)
        elif event.op == "delete":
            self._rows.pop(event.id, None)
        elif event.id in self._rows:
            self._rows[event.id].update(event.row)


def position_of(change: Mapping[str, Any]) -> Position:
    """Return where a change stands."""
    at = change["clusterTime"]
    return Position(at.time, at.inc, change["_id"]["_data"])


def event_of(change: Mapping[str, Any]) -> Event:
    """Return what a change is to a page."""
    kind, op = KINDS[change["ns"]["coll"]], change["operationType"]
    if op == "update":
        row = _shown(kind, change["updateDescription"]["updatedFields"])
    else:
        row = {} if op == "delete" else _shown(kind, change["fullDocument"])
    return Event(kind, str(change["documentKey"]["_id"]), op, row)


def row_of(kind: str, document: Mapping[str, Any]) -> Row:
    """Return what a page shows of a document."""
    return {"id": str(document["_id"]), **_shown(kind, document)}


def _shown(kind: str, fields: Mapping[str, Any]) -> Row:
    row = {shown: fields[name] for name, shown in SHOWN[kind].items() if name in fields}
    if "n" in row:
        row["n"] = int(row["n"])  # not the 64-bit integer of BSON, which JSON does not know
    if "at" in row:
        row["at"] = _milliseconds(row["at"])
    return row


def _milliseconds(date: dt.datetime) -> int:
    return round(date.replace(tzinfo=dt.UTC).timestamp() * 1000)
