"""Runs one case from its data to its outcome.

Spec: unified-test-format, "test runner implementation".
"""

from __future__ import annotations

from typing import Any

from spec.unified.deployments import Deployment
from spec.unified.driver import Face
from spec.unified.entities import Entities
from spec.unified.events import check_events
from spec.unified.leaving import left_by
from spec.unified.logs import check_messages
from spec.unified.matching import Matcher
from spec.unified.operations import Operations
from spec.unified.special import SpecialOperations
from spec.unified.suites import Case
from spec.unified.tracing import check_spans

__all__ = ["run_case"]


def run_case(case: Case, face: Face, deployment: Deployment) -> None:
    """Run a case on a face; raise AssertionError when the driver deviates from the specification."""
    cluster_time = deployment.load(case.shared.get("initialData", []))
    deployment.forget(left_by(case))
    with face.driver.hurried() as options:
        face.run(_case_flow(case, face, deployment, cluster_time, options))
    _check_outcome(case, deployment)


async def _case_flow(
    case: Case, face: Face, deployment: Deployment, cluster_time: Any, options: dict[str, Any]
) -> None:
    entities = Entities(face, deployment.uri, cluster_time, options)
    matcher = Matcher(face.driver, entities.find)
    special = SpecialOperations(face, entities, matcher, deployment)
    operations = Operations(face, entities, matcher, special)
    try:
        await entities.create(case.shared.get("createEntities", []))
        await operations.run_all(case.test["operations"])
        for expected in case.test.get("expectEvents", ()):
            check_events(matcher, expected, entities.find(expected["client"]).log)
        for expected in case.test.get("expectLogMessages", ()):
            client = entities.find(expected["client"])
            check_messages(matcher, face.driver, expected, client.messages, client.topology_ids)
        for expected in case.test.get("expectTracingMessages", ()):
            check_spans(matcher, expected, entities.find(expected["client"]).spans)
    finally:
        deployment.clear_fail_points(special.fail_points)
        await entities.close()
        if entities.has_sessions:
            # A transaction that stays open would lock the next case's collections.
            deployment.kill_sessions()


def _check_outcome(case: Case, deployment: Deployment) -> None:
    for wanted in case.test.get("outcome", ()):
        found = deployment.documents(wanted["databaseName"], wanted["collectionName"])
        assert found == wanted["documents"], (
            f"outcome of {wanted['databaseName']}.{wanted['collectionName']}:"
            f" expected {wanted['documents']}, got {found}"
        )
