"""The steps concerns, pool, clock, limits and driver: the effect of options on this deployment and this machine.

Works on the collected facts; from this machine it reads only the limit of open files. Specs: read-write-concern, CMAP.
"""

from __future__ import annotations

from typing import Any

from mangonel import _core
from mangonel.doctor.deployment import members_of
from mangonel.doctor.report import NOTE, OK, SKIPPED, WARNING, Report
from mangonel.doctor.sight import Sight
from mangonel.doctor.target import Target

BUSY = 0.8  # share of a server's connections
CLOCK_NOTE, CLOCK_WARNING = 1.0, 30.0  # seconds
SPARE_FILES = 64  # files that a process opens besides its connections
MONITORS = 2  # connections that a client keeps to each server besides its pool


def report_concerns(sights: list[Sight], target: Target, report: Report) -> None:
    """Report the write concern and read preference in effect, from the URI or from the servers' defaults."""
    options = target.options
    defaults = next((sight.defaults for sight in sights if sight.defaults), {})
    given = options.write_concern.document
    default = {
        name: value
        for name, value in defaults.get("defaultWriteConcern", {}).items()
        if name in ("w", "j", "wtimeout") and value != 0
    }
    write = (
        _shown(given) if given else f"the servers' default ({_shown(default) if default else 'not known'})"
    )
    level = options.read_concern.level or defaults.get("defaultReadConcern", {}).get("level") or "local"
    preference = options.read_preference.mongos_mode
    text = f"writes wait for {write}; reads have level {level} and go to {preference}"
    report.add(OK, "concerns", text, write=given or default, read=level, preference=preference)
    bearing = [sight for sight in sights if sight.kind in ("RSPrimary", "RSSecondary")]
    is_set = bool(bearing)
    w = given.get("w", default.get("w"))
    if w == 0:
        report.add(
            WARNING,
            "concerns-unacknowledged",
            "w=0: a write that fails is not noticed, and nothing is retried",
            remedy="remove w=0",
        )
    elif isinstance(w, int) and is_set and w > len(bearing) + len(members_of(sights)):
        report.add(
            WARNING,
            "concerns-too-many",
            f"w={w}, but {len(bearing)} members hold data: every write waits for ever or until wtimeoutMS",
            remedy="write w=majority",
        )
    elif w == 1 and len(bearing) > 1:
        report.add(
            NOTE,
            "concerns-one",
            "w=1: a failover may roll back writes that were acknowledged",
            remedy="write w=majority where that matters",
        )
    if w == "majority" and "wtimeout" not in given and options.timeout is None and is_set:
        report.add(
            NOTE,
            "concerns-no-limit",
            "a majority write waits for as long as no majority is up",
            remedy="set timeoutMS, or use mangonel.timeout(seconds) around operations",
        )
    if not options.retry_writes and is_set:
        report.add(
            NOTE,
            "concerns-no-retry",
            "retryWrites=false: the application sees an error at each failover",
            remedy="remove retryWrites=false",
        )


def _shown(concern: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in concern.items()) or "w=1"


def report_pool(sights: list[Sight], target: Target, report: Report) -> None:
    """Compare the pool size of one client with the connections that the servers accept."""
    pool = target.options.pool_options
    most = pool.max_pool_size
    if not most:
        report.add(
            WARNING,
            "pool-unlimited",
            "maxPoolSize=0: a burst of work opens as many connections as it has threads or tasks",
            remedy="give it a number; 100 is the default",
        )
    is_known = False
    for sight in sights:
        connections = sight.status.get("connections")
        if not connections:
            continue
        is_known = True
        current, available = int(connections["current"]), int(connections["available"])
        limit = current + available
        facts: dict[str, Any] = {"current": current, "limit": limit, "max_pool_size": most}
        if most:
            processes = limit // (most + MONITORS)
            text = (
                f"{current} of {limit} connections are open; maxPoolSize={most} leaves room for {processes} processes "
                "with one client each"
            )
            if most + MONITORS > available:
                report.add(
                    WARNING,
                    "pool-too-large",
                    f"{text}, and only {available} are free now",
                    sight.name,
                    f"set maxPoolSize to {max(available // 4, 1)} or less, or raise net.maxIncomingConnections",
                    **facts,
                )
            else:
                report.add(OK, "pool", text, sight.name, **facts)
        if current > BUSY * limit:
            report.add(
                WARNING,
                "pool-busy",
                f"{current} of {limit} connections are taken",
                sight.name,
                "look for processes that make a client per request, and for pools larger than they are used",
                **facts,
            )
    if most and not is_known:
        report.add(NOTE, "pool", f"maxPoolSize={most} for each process and server; their limit is not known")
    if pool.min_pool_size and most and pool.min_pool_size > most // 2:
        report.add(
            NOTE,
            "pool-kept-open",
            f"minPoolSize={pool.min_pool_size} keeps as many connections open to each server in every process",
        )


def report_clocks(sights: list[Sight], report: Report) -> None:
    """Compare the servers' clocks with this machine's."""
    known = [sight for sight in sights if sight.clock_skew is not None]
    for sight in known:
        skew = sight.clock_skew or 0.0
        if abs(skew) < CLOCK_NOTE:
            continue
        direction = "ahead of" if skew > 0 else "behind"
        report.add(
            WARNING if abs(skew) >= CLOCK_WARNING else NOTE,
            "clock-skew",
            f"its clock is {abs(skew):.1f} s {direction} this machine's",
            sight.name,
            "let NTP set both: dates of TTL indexes, the order of ObjectIds, certificates and AWS signatures depend on "
            "it",
            seconds=skew,
        )
    if known and all(abs(sight.clock_skew or 0.0) < CLOCK_NOTE for sight in known):
        most = max(abs(sight.clock_skew or 0.0) for sight in known)
        report.add(OK, "clock", f"the clocks agree within {most * 1000:.0f} ms", seconds=most)


def report_limits(sights: list[Sight], target: Target, report: Report, open_files: int | None) -> None:
    """Compare the pools with the number of files that this process may open.

    Args:
        open_files: the soft limit; None if there is none or it is unknown.
    """
    if open_files is None:
        report.add(SKIPPED, "limits", "this system has no limit of open files that can be asked for")
        return
    servers = max(sum(sight.is_reached for sight in sights), 1)
    most = target.options.pool_options.max_pool_size
    if not most:
        report.add(NOTE, "limits", f"{open_files} open files are allowed, and the pool has no limit")
        return
    needed = servers * (most + MONITORS) + SPARE_FILES
    text = f"{open_files} open files are allowed; one client may need {needed} (servers: {servers})"
    if needed > open_files:
        report.add(
            WARNING,
            "limits-open-files",
            text,
            remedy=f"raise the limit (ulimit -n {2 * needed}, or LimitNOFILE of the service), or lower maxPoolSize",
            limit=open_files,
            needed=needed,
        )
    else:
        report.add(OK, "limits", text, limit=open_files, needed=needed)


def open_files_limit() -> int | None:
    """Return this process's soft limit of open files."""
    try:
        import resource
    except ImportError:
        # On Windows, sockets do not count as files.
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else int(soft)


def report_driver(report: Report) -> None:
    """Report whether this interpreter decodes documents the fast way, and if not, why."""
    paths = _core._fast_paths()
    slow = [f"{name} {word}" for name, word in paths.items() if word != "on"]
    if not slow:
        report.add(OK, "driver", "documents are decoded the fast way on this interpreter", paths=paths)
        return
    text = f"documents are decoded by CPython's public API, which is slower: {'; '.join(slow)}"
    remedy = "use a wheel for this very version of CPython, 3.11 to 3.14 with the GIL"
    report.add(NOTE, "driver-slow-paths", text, remedy=remedy, paths=paths)
