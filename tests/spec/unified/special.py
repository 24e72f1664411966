"""The format's own operations: fail points, waits, and checks of sessions, events and data.

Spec: unified-test-format, "special test operations".
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from spec.unified import inside, values
from spec.unified.deployments import Deployment
from spec.unified.driver import Face, Worker
from spec.unified.entities import ClientEntity, Entities
from spec.unified.events import event_matches
from spec.unified.matching import Matcher

__all__ = ["SpecialOperations"]

EVENT_TIMEOUT = 60.0  # seconds; the format requires 10 for waitForEvent, which a busy machine may need


class SpecialOperations:
    """The special operations of one case, and their effects to undo."""

    def __init__(self, face: Face, entities: Entities, matcher: Matcher, deployment: Deployment) -> None:
        self._face = face
        self._entities = entities
        self._matcher = matcher
        self._deployment = deployment
        self.fail_points: set[str] = set()

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run the operation of that name."""
        method = getattr(self, f"_{values.snake_case(name)}", None)
        if method is None:
            raise NotImplementedError(f"operation {name} of the test runner")
        return await method(**{values.snake_case(key): value for key, value in arguments.items()})

    async def _create_entities(self, entities: list[Mapping[str, Any]]) -> None:
        await self._entities.create(entities)

    async def _wait(self, ms: int) -> None:
        await self._face.sleep(ms / 1000)

    async def _wait_for_thread(self, thread: str) -> None:
        worker: Worker = self._entities.find(thread)
        await worker.finish()

    # Fail points

    async def _fail_point(self, client: str, fail_point: Mapping[str, Any]) -> None:
        self.fail_points.add(fail_point["configureFailPoint"])
        entity: ClientEntity = self._entities.find(client)
        preference = self._face.driver.module("").ReadPreference.PRIMARY
        await self._face.wait(entity.client.admin.command(fail_point, read_preference=preference))

    async def _targeted_fail_point(self, session: str, fail_point: Mapping[str, Any]) -> None:
        address = inside.pinned_address(self._entities.find(session).session)
        assert address is not None, f"{session} is not pinned to a server"
        self._deployment.set_fail_point(fail_point, address)
        self.fail_points.add(fail_point["configureFailPoint"])

    # Events

    async def _wait_for_event(self, client: str, event: Mapping[str, Any], count: int) -> None:
        deadline = time.monotonic() + EVENT_TIMEOUT
        while (found := self._count(client, event)) < count:
            assert time.monotonic() < deadline, (
                f"expected {count} of {event} within {EVENT_TIMEOUT} s, got {found};"
                f" seen: {[type(one).__name__ for one in self._entities.find(client).log.events()]}"
            )
            await self._face.sleep(0.005)

    async def _assert_event_count(self, client: str, event: Mapping[str, Any], count: int) -> None:
        found = self._count(client, event)
        assert found == count, f"expected {count} of {event}, got {found}"

    def _count(self, client: str, event: Mapping[str, Any]) -> int:
        events = self._entities.find(client).log.events()
        return sum(event_matches(self._matcher, event, one) for one in events)

    async def _assert_number_connections_checked_out(self, client: str, connections: int) -> None:
        log = self._entities.find(client).inner_log
        found = log.count("connectionCheckedOutEvent") - log.count("connectionCheckedInEvent")
        assert found == connections, f"expected {connections} connections checked out, got {found}"

    async def _assert_same_lsid_on_last_two_commands(self, client: str) -> None:
        first, second = self._last_two_lsids(client)
        assert first == second, f"expected one session, got {first} and {second}"

    async def _assert_different_lsid_on_last_two_commands(self, client: str) -> None:
        first, second = self._last_two_lsids(client)
        assert first != second, f"expected two sessions, got {first} twice"

    def _last_two_lsids(self, client: str) -> list[Any]:
        events = self._entities.find(client).log.events("command")
        started = [event for event in events if type(event).__name__ == "CommandStartedEvent"]
        assert len(started) >= 2, "fewer than two commands were seen"
        return [event.command["lsid"] for event in started[-2:]]

    # Sessions

    async def _assert_session_pinned(self, session: str) -> None:
        assert inside.is_pinned(self._entities.find(session).session), f"{session} is not pinned"

    async def _assert_session_unpinned(self, session: str) -> None:
        assert not inside.is_pinned(self._entities.find(session).session), f"{session} is pinned"

    async def _assert_session_dirty(self, session: str) -> None:
        assert inside.is_dirty(self._entities.find(session).session), f"{session} is not dirty"

    async def _assert_session_not_dirty(self, session: str) -> None:
        assert not inside.is_dirty(self._entities.find(session).session), f"{session} is dirty"

    async def _assert_session_transaction_state(self, session: str, state: str) -> None:
        found = inside.transaction_state(self._entities.find(session).session)
        assert found == state, f"expected the transaction to be {state}, got {found}"

    # The deployment and its data

    async def _assert_collection_exists(self, database_name: str, collection_name: str) -> None:
        assert collection_name in self._deployment.collection_names(database_name)

    async def _assert_collection_not_exists(self, database_name: str, collection_name: str) -> None:
        assert collection_name not in self._deployment.collection_names(database_name)

    async def _assert_index_exists(self, database_name: str, collection_name: str, index_name: str) -> None:
        assert index_name in self._deployment.index_names(database_name, collection_name)

    async def _assert_index_not_exists(
        self, database_name: str, collection_name: str, index_name: str
    ) -> None:
        assert index_name not in self._deployment.index_names(database_name, collection_name)

    async def _record_topology_description(self, client: str, id: str) -> None:
        self._entities.keep(id, self._entities.find(client).client.topology_description)

    async def _assert_topology_type(self, topology_description: str, topology_type: str) -> None:
        found = self._entities.find(topology_description).topology_type_name
        assert found == topology_type, f"expected {topology_type}, got {found}"

    async def _wait_for_primary_change(
        self, client: str, prior_topology_description: str, timeout_ms: int = 10_000
    ) -> None:
        before = _primary(self._entities.find(prior_topology_description))
        deadline = time.monotonic() + max(timeout_ms / 1000, EVENT_TIMEOUT)
        while True:
            now = _primary(self._entities.find(client).client.topology_description)
            if now is not None and now != before:
                return
            assert time.monotonic() < deadline, f"the primary was {before} and is {now}"
            await self._face.sleep(0.02)


def _primary(description: Any) -> Any:
    for address, server in description.server_descriptions().items():
        if server.server_type_name == "RSPrimary":
            return address
    return None
