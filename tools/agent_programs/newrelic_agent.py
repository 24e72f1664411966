"""New Relic, through its hybrid agent, which accepts OpenTelemetry's spans as its own. Nothing is sent to New Relic."""

# ruff: noqa: E402 - agents read the environment at import.

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ |= {
    "NEW_RELIC_APP_NAME": "agents",
    "NEW_RELIC_LICENSE_KEY": "0" * 40,
    "NEW_RELIC_DEVELOPER_MODE": "true",
    "NEW_RELIC_DISTRIBUTED_TRACING_ENABLED": "true",
    "NEW_RELIC_OPENTELEMETRY_ENABLED": "true",
    "NEW_RELIC_OPENTELEMETRY_TRACES_ENABLED": "true",
    "NEW_RELIC_LOG": "stderr",
}

import newrelic.agent

newrelic.agent.initialize()

from newrelic.core.agent_protocol import AgentProtocol

sent: list[Any] = []
send = AgentProtocol.send


def keep(self: Any, method: str, payload: Any = (), *args: Any, **kwargs: Any) -> Any:
    """Keep the data that is sent, and continue."""
    if method == "span_event_data":
        # In the form that the collector receives.
        sent.extend(json.loads(json.dumps(payload, default=_plain))[-1])
    return send(self, method, payload, *args, **kwargs)


def _plain(value: Any) -> Any:
    return list(value)


AgentProtocol.send = keep
application = newrelic.agent.register_application(timeout=10.0)

from workload import play

from mangonel.contrib.opentelemetry import MangonelInstrumentor

MangonelInstrumentor().instrument(query_text_max_length=1000, query_text_values=False)
play(sys.argv[1], lambda name: newrelic.agent.BackgroundTask(application, name))
newrelic.agent.shutdown_agent(timeout=10.0)

spans = [(intrinsics, user, agent) for intrinsics, user, agent in sent]
roots = {
    span[0]["traceId"]: span[0]["name"].rpartition("/")[2] for span in spans if span[0].get("nr.entryPoint")
}
names = {span[0]["guid"]: span[0]["name"].rpartition("/")[2] for span in spans}
found = [
    {
        "cell": roots.get(span[0]["traceId"]),
        "name": span[0]["name"],
        "parent": names.get(span[0]["parentId"]),
        "statement": span[2].get("db.statement"),
        "failed": any("error" in key for key in (*span[1], *span[2])),
        "seconds": span[0]["duration"],
        "all": json.dumps(span, default=str),
    }
    for span in spans
    if not span[0].get("nr.entryPoint") and span[0].get("parentId")
]
print(json.dumps(found))
