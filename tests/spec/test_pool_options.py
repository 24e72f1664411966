"""The pool options in the event that a pool is created, with the data of the pool's own cases.

The cases themselves run against the core, without sockets: `crates/proto/tests/cmap.rs`. The Python layer handles their
expectations about a pool's options. Spec: connection-monitoring-and-pooling (cmap-format).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mangonel import monitoring
from spec.unified.driver import FACES
from spec.unified.suites import NO_FOLDER, folder
from tools.faces import Face, eventually
from tools.scripted_server import ScriptedServer

# A pool's options, and their defaults.
_USUAL = {"maxPoolSize": 100, "minPoolSize": 0, "maxConnecting": 2, "maxIdleTimeMS": None}
ANY = 42


class Pools(monitoring.ConnectionPoolListener):
    """Keeps the options of created pools and ignores all other events."""

    def __init__(self) -> None:
        self.options: list[dict[str, Any]] = []

    def pool_created(self, event: monitoring.PoolCreatedEvent) -> None:
        self.options.append(event.options)

    def _ignore(self, event: Any) -> None:
        """Ignore the event."""

    pool_ready = pool_cleared = pool_closed = connection_created = connection_ready = _ignore
    connection_closed = connection_check_out_started = connection_check_out_failed = _ignore
    connection_checked_out = connection_checked_in = _ignore


def _wanted() -> Iterator[Any]:
    root = folder()
    if root is None:
        yield pytest.param({}, {}, marks=pytest.mark.skip(reason=NO_FOLDER))
        return
    seen = set()
    for path in sorted((root / "connection-monitoring-and-pooling/tests/cmap-format").glob("*.json")):
        case = json.loads(path.read_bytes())
        asked = case.get("poolOptions", {})
        given = {key: value for key, value in asked.items() if value != _USUAL.get(key, value)}
        created = [event for event in case["events"] if event["type"] == "ConnectionPoolCreated"]
        wanted = created[0].get("options", ANY) if created else ANY
        key = json.dumps([given, wanted], sort_keys=True)
        if key not in seen:
            seen.add(key)
            yield pytest.param(given, wanted, id=path.stem)


@pytest.mark.parametrize("face_name", FACES)
@pytest.mark.parametrize(("given", "wanted"), list(_wanted()))
def test_listeners_are_told_the_options_of_a_pool(
    given: dict[str, Any], wanted: Any, face_name: str, scripted_server: ScriptedServer
) -> None:
    face, pools = Face(face_name), Pools()
    client = face.client(scripted_server.uri, event_listeners=[pools], **given)
    try:
        face.run(lambda: client.admin.command("ping"))
        eventually(lambda: bool(pools.options))
        expected = given if wanted == ANY else wanted
        assert {name: pools.options[0].get(name) for name in expected} == expected
        assert wanted == ANY or pools.options[0].keys() == wanted.keys()
    finally:
        face.run(client.close)
