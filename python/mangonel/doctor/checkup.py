"""`examine`: runs the steps of a check-up in order, each on the servers that the previous one reached.

Knows no step's details. Servers are checked in parallel, so that a silent one does not delay the others.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mangonel._arguments import expect
from mangonel.doctor import advice, deployment, login, names, reach
from mangonel.doctor.report import Finding, Report
from mangonel.doctor.sight import Sight
from mangonel.doctor.target import Target, masked, read_target

TIMEOUT = 5.0
PINGS = 10
MOST_AT_ONCE = 16


def examine(
    uri: str,
    *,
    timeout: float = TIMEOUT,
    pings: int = PINGS,
    listener: Callable[[Finding], None] | None = None,
) -> Report:
    """Check a deployment step by step, as a client of `uri` would, and return the findings. Blocks.

    Nothing is written to the deployment. The report holds no password.

    Args:
        uri: connection string or `host:port`.
        timeout: seconds for each connection and each command.
        pings: how often to measure the latency of each server; at least 1.
        listener: called with each finding as it is made.

    Returns:
        A report; `report.exit_status()` is 0 when the deployment can be used.

    Example:
        >>> report = examine("mongodb://localhost:27017")
        >>> [finding.remedy for finding in report.findings if finding.status == "failure"]
        []
    """
    report = Report(masked(expect("uri", uri, str, "a connection string")), listener)
    target = read_target(uri, report)
    if target is None or not names.resolve_seeds(target, report, timeout):
        return report
    sights = [Sight(host, port) for host, port in target.options.seeds]
    _visit(sights, target, report, timeout, pings)
    if not target.options.direct_connection and not target.options.load_balanced:
        found = [Sight(host, port, named_by) for host, port, named_by in deployment.members_of(sights)]
        if found:
            _visit(found, target, report, timeout, pings, others=True)
            sights += found
    reached = [sight for sight in sights if sight.is_reached]
    if not reached:
        return report
    deployment.report_topology(sights, target, report)
    login.report_login(reached, target, report, timeout)
    login.note_missing_rights(reached, report)
    deployment.report_versions(sights, report)
    deployment.report_latency(reached, target, report)
    advice.report_concerns(sights, target, report)
    advice.report_pool(reached, target, report)
    advice.report_clocks(reached, report)
    advice.report_limits(sights, target, report, advice.open_files_limit())
    advice.report_driver(report)
    return report


def _visit(
    sights: list[Sight],
    target: Target,
    report: Report,
    timeout: float,
    pings: int,
    *,
    others: bool = False,
) -> None:
    """Take servers through the steps from DNS to hello.

    Args:
        others: whether another server was reached already, which turns a failure into a warning.
    """

    def reachable() -> list[Sight]:
        return [sight for sight in sights if sight.failed_at is None]

    def everywhere(step: Callable[[Sight], None]) -> list[Sight]:
        chosen = reachable()
        if chosen:
            with ThreadPoolExecutor(min(len(chosen), MOST_AT_ONCE)) as threads:
                list(threads.map(step, chosen))
        return chosen

    names.report_addresses(everywhere(names.look_up), report, others=others)
    reach.report_connections(everywhere(lambda sight: reach.connect(sight, timeout)), report, others=others)
    if target.options.security is not None:
        chosen = everywhere(lambda sight: reach.secure(sight, target, timeout))
    else:
        chosen = reachable()
    if chosen:
        reach.report_security(chosen, target, report, others=others)
    chosen = everywhere(lambda sight: reach.greet(sight, target, timeout, pings))
    reach.report_hellos(chosen, report, others=others)
