"""Sentry, through `mangonel.contrib.sentry`."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

import sentry_sdk
from sentry_sdk.transport import Transport
from workload import play

from mangonel.contrib.sentry import MangonelIntegration

events: list[Any] = []


class Local(Transport):
    """Keeps the envelopes that would be sent."""

    def capture_envelope(self, envelope: Any) -> None:
        events.extend(item.payload.json for item in envelope.items if item.type == "transaction")


sentry_sdk.init(
    "http://key@127.0.0.1/1", traces_sample_rate=1.0, transport=Local, integrations=[MangonelIntegration()]
)
play(sys.argv[1], lambda name: sentry_sdk.start_transaction(name=name, op="test"))
sentry_sdk.flush()


def moment(text: Any) -> float:
    """Return the seconds of a time stamp."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if isinstance(text, str) else text


def parents_of(event: Any) -> dict[str, str]:
    """Return the names of the spans of a transaction, its own included, by their ids."""
    of_spans = {span["span_id"]: span["description"] for span in event["spans"]}
    return {event["contexts"]["trace"]["span_id"]: event["transaction"], **of_spans}


found = [
    {
        "cell": event["transaction"],
        "name": span["data"]["db.operation"],
        "parent": parents_of(event).get(span["parent_span_id"]),
        "statement": span["description"],
        "failed": span.get("status") not in (None, "ok"),
        "seconds": moment(span["timestamp"]) - moment(span["start_timestamp"]),
        "all": json.dumps(span, default=str),
    }
    for event in events
    for span in event["spans"]
]
print(json.dumps(found))
