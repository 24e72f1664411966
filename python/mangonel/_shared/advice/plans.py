"""Reads the server's explanations of commands. Sends nothing."""

from __future__ import annotations

from mangonel._light import Mapping
from mangonel._shared.advice.shapes import index_for, query_of, shape_of, sort_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FEW = 10
"""A collection scan or a sort of fewer documents than this gives no advice."""
MANY = 100
"""Only if at least this many documents were examined, their number is compared with those returned."""
TIMES = 10
"""How many documents may be examined for each returned one."""


def findings(name: str, command: Mapping[str, Any], explained: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the advice for an explanation: pairs of a kind and a text.

    Args:
        name: the command's name.
        command: the command that was explained.
        explained: the server's reply, with `executionStats`.

    Example:
        >>> findings("find", {"find": "users", "filter": {"age": 3}}, reply)[0][0]
        'collection scan'
    """
    stages = set(_stages(explained))
    examined, returned = _counts(explained)
    query, sort = query_of(name, command), sort_of(name, command)
    what = f"{name} on {command[name]!r} with {shape_of(query)}"
    if sort:
        what += f", sorted by {sort}"
    index = index_for(query, sort)
    remedy = f"an index on {index} would serve it" if index else "add a condition or a limit"
    found: list[tuple[str, str]] = []
    if "COLLSCAN" in stages and query and examined >= FEW:
        found.append(
            (
                "collection scan",
                f"collection scan: {what} reads all {examined} documents for {returned}; {remedy}",
            )
        )
    elif query and examined >= MANY and examined > TIMES * max(returned, 1):
        found.append(
            (
                "many examined",
                f"many examined for few returned: {what} examines {examined} documents for {returned}; {remedy}",
            )
        )
    if not stages.isdisjoint(("SORT", "$sort")) and max(examined, returned) >= FEW:
        found.append(("sort in memory", f"sort in memory: no index gives {what} its order; {remedy}"))
    return found


def _stages(plan: Any) -> Iterator[str]:
    """Yield the names of the stages in the winning plans of an explanation."""
    if isinstance(plan, Mapping):
        stage = plan.get("stage")
        if isinstance(stage, str):
            yield stage
        for key, value in plan.items():
            if key in ("rejectedPlans", "allPlansExecution", "command"):
                continue
            if key == "$sort":
                yield key
            yield from _stages(value)
    elif isinstance(plan, (list, tuple)):
        for part in plan:
            yield from _stages(part)


def _counts(plan: Any) -> tuple[int, int]:
    """Return how many documents were examined and returned, in total over shards and stages."""
    examined = returned = 0
    if isinstance(plan, Mapping):
        stats = plan.get("executionStats")
        if isinstance(stats, Mapping) and "totalDocsExamined" in stats:
            examined, returned = int(stats["totalDocsExamined"]), int(stats.get("nReturned", 0))
            # Updates and deletes return nothing, so the documents that they changed count instead.
            return examined, max(returned, _changed(stats))
        parts: Any = plan.values()
    else:
        parts = plan if isinstance(plan, (list, tuple)) else ()
    for part in parts:
        one, other = _counts(part)
        examined, returned = examined + one, returned + other
    return examined, returned


def _changed(stats: Mapping[str, Any]) -> int:
    stage = stats.get("executionStages")
    if not isinstance(stage, Mapping):
        return 0
    return max(int(stage.get(name, 0)) for name in ("nMatched", "nWouldModify", "nWouldDelete"))
