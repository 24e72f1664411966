"""Decides whether a run can be trusted: disturbed rounds, repeated rounds, and reasons against quoting a run.

Pure functions of the record. Spec: reference lab method (null control, sentinel).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mangonel.lab.sentinel import DISTURBED, STOLEN
from mangonel.lab.statistics import Estimate, median

if TYPE_CHECKING:
    from mangonel.lab.results import Results

TRUSTED = 1.1  # median ratio of the null control beyond which a table is labelled as noise
QUIET = 0.10  # noise floor, as a share, from which a machine is called noisy
UNFIT_SHARE = 0.25  # share of disturbed rounds, or of noisy tables
UNFIT_FLOOR = 0.15  # the median noise floor of the tables


def marked_rounds(
    order: Iterable[dict[str, Any]], rounds: Iterable[tuple[str, dict[str, Any]]]
) -> list[tuple[str, int]]:
    """Return the rounds, as experiment and number, that began or ran on a busy machine.

    A round counts as disturbed if the fixed loop took more than 1.25 times the run's best, before the round or, as a
    median, before its parts; or if the hypervisor took more than 3 % of the processor time.
    """
    played = [entry for entry in order if "sentinel" in entry]
    inside: dict[tuple[str, int], list[float]] = {}
    for experiment, entry in rounds:
        inside.setdefault((experiment, entry["round"]), []).append(entry["sentinel_ns"])
    looks = [float(entry["sentinel"]["loop_ns"]) for entry in played]
    best = min([*looks, *(value for values in inside.values() for value in values)], default=0.0)
    found = []
    for entry, look in zip(played, looks, strict=True):
        key = (entry["experiment"], entry["round"])
        slow = max(look, median(inside[key]) if key in inside else 0.0) > DISTURBED * best
        if slow or entry["sentinel"]["stolen"] > STOLEN:
            found.append(key)
    return found


def replaced(order: list[dict[str, Any]], marked: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """Return the rounds that do not count: the busier one of each disturbed round and its repetition."""
    disturbed = set(marked)
    looks = {(e["experiment"], e["round"]): e.get("sentinel", {}).get("loop_ns", 0) for e in order}
    left_out = set()
    for entry in order:
        if (number := entry.get("instead_of")) is None:
            continue
        again, first = (entry["experiment"], entry["round"]), (entry["experiment"], number)
        is_better = again not in disturbed or looks[again] < looks.get(first, 0)
        left_out.add(first if is_better else again)
    return left_out


def floor(results: Results) -> float | None:
    """Return the share below which differences in this run mean nothing: the median of its null controls."""
    bands = _bands(results)
    return median([band.spread() for band in bands]) if bands else None


def floor_words(share: float) -> str:
    """Return the noise floor of a run or a table in words."""
    return "no difference can be told" if share > 1 else f"differences below {100 * share:.0f} % mean nothing"


def is_noise(ratio: Estimate, share: float) -> bool:
    """Return whether a ratio is indistinguishable from 1, by its interval or by the null control."""
    return 1 / (1 + share) <= ratio.value <= 1 + share or not ratio.excludes(1.0)


def unfit(results: Results, *, is_brief_whole: bool = False) -> list[str]:
    """Return why the run should not be quoted as a whole; empty if it may be.

    `is_brief_whole`: the brief form of these experiments does all of their work.
    """
    reasons = []
    order = results.content["plan"]["order"]
    marked = {(name, number) for name, number in results.content["marked"]}
    counting = [key for e in order if (key := (e["experiment"], e["round"])) not in results.left_out]
    busy = sum(key in marked for key in counting)
    if counting and busy > UNFIT_SHARE * len(counting):
        reasons.append(
            f"{busy} of {len(counting)} rounds that count ran while the machine was busy or stolen from"
        )
    bands = _bands(results)
    wild = sum(not 1 / TRUSTED <= band.value <= TRUSTED for band in bands)
    if bands and wild > UNFIT_SHARE * len(bands):
        reasons.append(
            f"in {wild} of {len(bands)} tables the reference differs from itself by more than 10 %"
        )
    if (share := floor(results)) is not None and share > UNFIT_FLOOR:
        reasons.append(f"differences below {100 * share:.0f} % cannot be told from noise (median of tables)")
    if results.content["plan"].get("form") == "brief" and not is_brief_whole:
        reasons.append(
            "the brief form does less work than its marks name, such as files of 8 MiB for 50 MiB; "
            "`mangonel lab run` does it all"
        )
    if all(row.failures for row in results.rows.values()):
        reasons.append("no contender was measured, each failed")
    if results.content["end"].get("how") != "complete":
        reasons.append("the run was cut off before its end")
    return reasons


def _bands(results: Results) -> list[Estimate]:
    return [band for _, _, rows in results.parts() if (band := results.null(rows)) is not None]
