"""The steps topology, versions and latency: how the servers fit together. Works on collected facts; does no I/O.

Spec: server-discovery-and-monitoring, server-selection.
"""

from __future__ import annotations

import statistics
from datetime import datetime
from typing import Any

from mangonel.common import LOCAL_THRESHOLD_MS
from mangonel.doctor.report import FAILURE, NOTE, OK, WARNING, Report
from mangonel.doctor.sight import Sight
from mangonel.doctor.target import Target

# The driver's range: MongoDB 4.4 and newer.
OLDEST_WIRE, NEWEST_WIRE = 9, 29
FAR = 0.1  # seconds
LATE = 10.0  # seconds that a secondary may lag without a warning

# The first wire version with a feature -> the feature.
_FEATURES = (
    (13, "versioned API, snapshot reads, time series"),
    (17, "clustered collections, change streams with pre-images"),
    (21, "queryable encryption, compound wildcard indexes"),
    (25, "bulk writes over several collections in one command"),
)


def members_of(sights: list[Sight]) -> list[tuple[str, int, str]]:
    """Return host, port and the naming server of each member that was not checked yet."""
    known = {sight.name for sight in sights}
    found: dict[str, tuple[str, int, str]] = {}
    for sight in sights:
        for member in _members(sight):
            if member not in known and member not in found:
                host, _, port = member.rpartition(":")
                found[member] = (host.strip("[]"), int(port), sight.name)
    return list(found.values())


def _members(sight: Sight) -> list[str]:
    hello = sight.hello
    return [*hello.get("hosts", ()), *hello.get("passives", ()), *hello.get("arbiters", ())]


def report_topology(sights: list[Sight], target: Target, report: Report) -> None:
    """Report the topology, and whether an operation will find a server."""
    reached = [sight for sight in sights if sight.is_reached]
    options = target.options
    if options.load_balanced:
        _report_balancer(reached, report)
        return
    if _report_set_name(reached, target, report):
        return
    kinds = {sight.kind for sight in reached}
    if options.direct_connection:
        _report_direct(reached[0], report)
    elif "RSGhost" in kinds and len(kinds) == 1:
        report.add(
            FAILURE,
            "topology-not-initiated",
            "mongod was started as a member of a replica set that has no configuration yet",
            reached[0].name,
            "initiate the set once: rs.initiate()",
        )
    elif kinds == {"Mongos"}:
        names = ", ".join(sight.name for sight in reached)
        report.add(OK, "topology-sharded", f"sharded cluster with {len(reached)} routers: {names}")
    elif kinds == {"Standalone"} and len(reached) == 1:
        report.add(
            OK,
            "topology-standalone",
            "standalone: no replica, no transactions, no change streams",
        )
    elif len({"Standalone", "Mongos"} & kinds) and len(reached) > 1:
        shown = ", ".join(f"{sight.name} is {sight.kind}" for sight in reached)
        report.add(
            FAILURE,
            "topology-mixed",
            f"the hosts do not belong together: {shown}",
            remedy="name the members of one replica set, or the routers of one cluster, or one standalone",
        )
    else:
        _report_set(sights, target, report)


def _report_balancer(reached: list[Sight], report: Report) -> None:
    if all("serviceId" in sight.hello for sight in reached):
        report.add(OK, "topology-load-balanced", "load balancer before mongos servers")
        return
    report.add(
        FAILURE,
        "topology-no-balancer",
        "loadBalanced=true, but the server does not say that it stands behind a load balancer",
        reached[0].name,
        "remove loadBalanced=true",
    )


def _report_set_name(reached: list[Sight], target: Target, report: Report) -> bool:
    """Report servers outside the replica set that the URI names; return True if no server belongs to it."""
    wanted = target.options.replica_set_name
    if wanted is None:
        return False
    wrong = [sight for sight in reached if sight.set_name != wanted]
    for sight in wrong:
        bad = FAILURE if len(wrong) == len(reached) else WARNING
        if sight.kind == "RSGhost":
            continue
        if sight.set_name is None:
            what = "a mongos" if sight.kind == "Mongos" else "a standalone"
            text, remedy = (
                f"expected a member of replica set {wanted}, got {what}",
                "remove replicaSet from the URI",
            )
        else:
            text = f"expected a member of replica set {wanted}, got one of {sight.set_name}"
            remedy = f"write replicaSet={sight.set_name}, or name hosts of {wanted}"
        report.add(bad, "topology-set-name", text, sight.name, remedy, found=sight.set_name)
    return bool(wrong) and len(wrong) == len(reached) and any(sight.kind != "RSGhost" for sight in wrong)


def _report_direct(sight: Sight, report: Report) -> None:
    kind = sight.kind
    if kind in ("RSSecondary", "RSOther", "RSArbiter", "RSGhost"):
        primary = sight.hello.get("primary")
        report.add(
            WARNING,
            "topology-direct",
            f"directConnection=true uses this {kind} alone; every write fails here",
            sight.name,
            f"remove directConnection and add replicaSet={sight.set_name}"
            + (f"; the primary is {primary}" if primary else ""),
            primary=primary,
        )
    elif kind == "RSPrimary":
        report.add(
            NOTE,
            "topology-direct",
            "directConnection=true uses this primary alone; after a failover every write fails here",
            sight.name,
            f"remove directConnection and add replicaSet={sight.set_name}, if all members can be reached from here",
        )
    else:
        report.add(OK, "topology-single", f"one {kind}", sight.name)


def _report_set(sights: list[Sight], target: Target, report: Report) -> None:
    named = {member for sight in sights for member in _members(sight)}
    members = [sight for sight in sights if sight.name in named]
    primaries = [sight for sight in members if sight.kind == "RSPrimary"]
    reached = [sight for sight in sights if sight.is_reached]
    name = next((sight.set_name for sight in reached if sight.set_name), None)
    shown = ", ".join(
        f"{sight.name} {sight.kind if sight.is_reached else 'not reached'}" for sight in members
    )
    facts: dict[str, Any] = {"set_name": name, "members": {sight.name: sight.kind for sight in members}}
    if len(primaries) == 1:
        report.add(OK, "topology-set", f"replica set {name}: {shown}", **facts)
    else:
        _report_no_primary(sights, target, report, f"replica set {name}: {shown}", facts)
    strangers = [sight for sight in reached if sight.name not in named and sight.set_name]
    for sight in strangers:
        me = sight.hello.get("me")
        report.add(
            NOTE,
            "topology-other-name",
            f"the set knows this member as {me or 'nothing'}; the driver goes on with the set's own names",
            sight.name,
            f"write {me} in the URI" if me else "",
        )
    if target.options.replica_set_name is None and not target.is_srv:
        report.add(
            NOTE,
            "topology-unnamed",
            "the URI does not name the replica set, so a wrong host would not be noticed",
            remedy=f"add replicaSet={name}",
        )
    bearing = [sight for sight in members if sight.kind in ("RSPrimary", "RSSecondary")]
    if len(members) > 1 and len(bearing) <= len(members) // 2:
        report.add(
            WARNING,
            "topology-minority",
            f"{len(bearing)} of {len(members)} members hold data now",
        )
    if primaries:
        _report_lag(primaries[0], members, report)


def _report_no_primary(
    sights: list[Sight], target: Target, report: Report, shown: str, facts: dict[str, Any]
) -> None:
    told = next((sight.hello["primary"] for sight in sights if sight.hello.get("primary")), None)
    if told is not None:
        report.add(
            FAILURE,
            "topology-primary-unreachable",
            f"{shown}; the primary is {told}, which cannot be reached from here",
            told,
            "the steps above say why; the driver uses the names of the set's configuration, so each must be reachable "
            "from this machine (rs.reconfig changes them)",
            **facts,
        )
        return
    reads_elsewhere = target.options.read_preference.mode != 0
    report.add(
        WARNING if reads_elsewhere else FAILURE,
        "topology-no-primary",
        f"{shown}; no primary, so nothing can be written",
        remedy="a majority of the voting members must see each other to elect one: start those that are down, look at "
        "rs.status(); reads with readPreference=secondaryPreferred go on",
        **facts,
    )


def _report_lag(primary: Sight, members: list[Sight], report: Report) -> None:
    written = _last_write(primary)
    for sight in members:
        behind = _last_write(sight)
        if sight.kind != "RSSecondary" or written is None or behind is None:
            continue
        lag = max((written - behind).total_seconds(), 0.0)
        if lag > LATE:
            report.add(
                WARNING,
                "topology-lag",
                f"{lag:.0f} s behind the primary; reads here are old, and majority writes may wait",
                sight.name,
                "look at this member's disk and network, and at rs.printSecondaryReplicationInfo()",
                seconds=lag,
            )
        else:
            report.add(OK, "topology-lag", f"{lag:.0f} s behind the primary", sight.name, seconds=lag)


def _last_write(sight: Sight) -> datetime | None:
    date = sight.hello.get("lastWrite", {}).get("lastWriteDate")
    return date if isinstance(date, datetime) else None


def report_versions(sights: list[Sight], report: Report) -> None:
    """Report the servers' versions, and the features that the driver can use with them."""
    reached = [sight for sight in sights if sight.is_reached]
    versions = {sight.name: str(sight.build["version"]) for sight in reached if sight.build}
    for sight in reached:
        least, most = int(sight.hello.get("minWireVersion", 0)), int(sight.hello.get("maxWireVersion", 0))
        if most < OLDEST_WIRE or least > NEWEST_WIRE:
            age = "too old: mangonel needs MongoDB 4.4" if most < OLDEST_WIRE else "too new for this mangonel"
            report.add(
                FAILURE,
                "versions-incompatible",
                f"wire versions {least} to {most} are {age}",
                sight.name,
                "upgrade the server" if most < OLDEST_WIRE else "upgrade mangonel",
            )
    if versions:
        shown = " and ".join(sorted(set(versions.values())))
        editions = {
            "Enterprise" if "enterprise" in sight.build.get("modules", ()) else "Community"
            for sight in reached
            if sight.build
        }
        report.add(OK, "versions", f"MongoDB {shown} {'/'.join(sorted(editions))}", versions=versions)
    if len(set(versions.values())) > 1:
        report.add(
            NOTE,
            "versions-differ",
            ", ".join(f"{name} has {version}" for name, version in versions.items()),
            remedy="fine during an upgrade; finish it, since features follow the oldest member",
        )
    common = min((int(sight.hello.get("maxWireVersion", 0)) for sight in reached), default=0)
    lacking = [what for wire, what in _FEATURES if common < wire]
    if lacking:
        report.add(NOTE, "versions-features", f"not there yet: {'; '.join(lacking)}", wire=common)


def report_latency(sights: list[Sight], target: Target, report: Report) -> None:
    """Report how long hello takes, and which servers lie within the latency window."""
    medians = {sight.name: statistics.median(sight.pings) for sight in sights if sight.pings}
    for sight in sights:
        if not sight.pings:
            continue
        least, median = min(sight.pings) * 1000, medians[sight.name] * 1000
        text = f"hello takes {least:.2f} ms at least, {median:.2f} ms in the median of {len(sight.pings)}"
        is_far = median > FAR * 1000
        report.add(
            NOTE if is_far else OK,
            "latency",
            text,
            sight.name,
            "run the application nearer to it, or send fewer, larger commands" if is_far else "",
            least_ms=least,
            median_ms=median,
        )
    window = target.options.local_threshold_ms / 1000
    far = [name for name, median in medians.items() if median > min(medians.values()) + window]
    if far and window == LOCAL_THRESHOLD_MS / 1000:
        report.add(
            NOTE,
            "latency-window",
            f"outside the latency window of {window * 1000:.0f} ms: {', '.join(far)}; reads that may choose leave "
            "them out",
            remedy="set localThresholdMS higher to use them too",
        )
