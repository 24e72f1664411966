"""What a round must hold to count: equal answers, and the write concern that was asked for. Pure functions."""

from __future__ import annotations

from mangonel.lab import registry
from mangonel.lab.protocol import Message

# Share of a contender's writes that may carry another write concern: what a mapper's setup writes.
DRIFT = 0.1


def grown(before: dict[str, int], after: dict[str, int], own: dict[str, int]) -> dict[str, int]:
    """Return by how much the server's counters grew, without what asking for them adds."""
    found = {name: after[name] - before.get(name, 0) - own.get(name, 0) for name in after}
    return {name: count for name, count in found.items() if count > 0}


def other_concern(asked: str, samples: list[Message]) -> str:
    """Return which write concern the server saw instead of the one a part states, or "".

    A server that does not count write concerns (its parameter reportOpWriteConcernCountersInServerStatus) says nothing.
    """
    seen: dict[str, int] = {}
    for sample in samples:
        for name, count in sample.get("counters", {}).items():
            if name.startswith("w:"):
                concern = name.rpartition(" ")[0]
                seen[concern] = seen.get(concern, 0) + count
    total = sum(seen.values())
    other = {concern: count for concern, count in seen.items() if concern != asked}
    if not asked.startswith("w:") or not total or sum(other.values()) <= DRIFT * total:
        return ""
    return "the server saw " + ", ".join(f"{count} writes with {concern}" for concern, count in other.items())


def disagreeing(found: dict[str, str], references: tuple[str, ...] = registry.REFERENCES) -> list[str]:
    """Return whose digest is not the reference's, or not the majority's when no reference took part."""
    if len(set(found.values())) < 2:
        return []
    values = list(found.values())
    named = next((found[name] for name in references if name in found), None)
    right = named if named is not None else max(values, key=values.count)
    return [name for name, digest in found.items() if digest != right]
