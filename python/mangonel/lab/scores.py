"""Composite scores, and the extra tables of `websessions`. Made from a result file alone.

A score is the mean of several parts' MB/s, as an experiment declares. A contender that lacks a part has no score: a
mean over fewer tasks would be another figure.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from mangonel.lab import registry
from mangonel.lab.experiment import Experiment
from mangonel.lab.results import Results, Row
from mangonel.lab.statistics import Estimate, estimate, median


def tables(
    results: Results, title: Callable[[str], str] = str
) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    for experiment in registry.experiments().values():
        names = list(experiment.composites)
        found = scores(experiment, results) if names else {}
        if not found:
            continue
        rows = [
            [title(contender), *(_cell(per_score[name]) for name in names)]
            for contender, per_score in sorted(found.items(), key=lambda item: _rank(item[1], names))
        ]
        left_out = ", ".join(sorted(set(_parts(experiment, names)) - _played(experiment, results)))
        note = f"; not played by anyone: {left_out}" if left_out else ""
        yield f"{experiment.id}: composite scores, MB/s [95 %]{note}", ["contender", *names], rows
    if any(name == "websessions" for name, _, _ in results.rows):
        yield from site_tables(results, title)


def scores(experiment: Experiment, results: Results) -> dict[str, dict[str, Estimate | str]]:
    """Return the MB/s, or the missing part, by contender and score."""
    played = _played(experiment, results)
    own = {contender for name, _, contender in results.rows if name == experiment.id}
    found: dict[str, dict[str, Estimate | str]] = {}
    for contender in sorted(own):
        per_score = {
            name: _score(experiment, results, played, contender, name) for name in experiment.composites
        }
        if any(isinstance(score, Estimate) for score in per_score.values()):
            found[contender] = per_score
    # A codec by itself has one score, which its drivers' rows show as well.
    several = {name: per for name, per in found.items() if _count(per) > 1}
    return several or found


def _score(
    experiment: Experiment, results: Results, played: set[str], contender: str, name: str
) -> Estimate | str:
    parts = [part for part in _parts(experiment, [name]) if part in played]
    sums = [term for term in experiment.composites[name] if term in experiment.composites]
    if not parts or not all(played.intersection(_parts(experiment, [term])) for term in sums):
        return "not played"
    rows = {part: _row(experiment, results, part, contender) for part in parts}
    if lacking := [part for part, row in rows.items() if row is None]:
        return f"lacks {lacking[0]}" + (f" and {len(lacking) - 1} more" if len(lacking) > 1 else "")
    medians: dict[str, float] = {}
    rounds: dict[str, dict[int, float]] = {}
    for part, row in rows.items():
        assert row is not None
        per_round = {number: median(values) for number, values in row.per_round("wall").items()}
        rounds[part] = {number: row.bytes_each / wall for number, wall in per_round.items()}
        medians[part] = row.bytes_each / median(list(per_round.values()))
    common = set.intersection(*(set(speeds) for speeds in rounds.values()))
    value = _mean(experiment, name, medians)
    means = [_mean(experiment, name, {part: speeds[n] for part, speeds in rounds.items()}) for n in common]
    spread = estimate([[mean] for mean in means]) if means else Estimate(value, value, value)
    # The score is the mean of medians; its interval is of the rounds' means, so the two may differ slightly.
    return Estimate(value, min(value, spread.low), max(value, spread.high))


def _mean(experiment: Experiment, name: str, speeds: dict[str, float]) -> float:
    terms = [
        _mean(experiment, term, speeds) if term in experiment.composites else speeds[term]
        for term in experiment.composites[name]
        if term in experiment.composites or term in speeds
    ]
    return sum(terms) / len(terms)


def _parts(experiment: Experiment, names: list[str]) -> list[str]:
    """Return the parts behind scores, each once."""
    found: dict[str, None] = {}
    for name in names:
        for term in experiment.composites[name]:
            inner = _parts(experiment, [term]) if term in experiment.composites else [term]
            found.update(dict.fromkeys(inner))
    return list(found)


def _played(experiment: Experiment, results: Results) -> set[str]:
    return {part for name, part, _ in results.rows if name == experiment.id}


def _row(experiment: Experiment, results: Results, part: str, contender: str) -> Row | None:
    for name in (contender, experiment.stand_in(part, contender)):
        row = results.rows.get((experiment.id, part, name))
        if row is not None and not row.failures and row.rounds:
            return row
    return None


def _count(per_score: dict[str, Estimate | str]) -> int:
    return sum(isinstance(score, Estimate) for score in per_score.values())


def _cell(score: Estimate | str) -> str:
    return score if isinstance(score, str) else score.words(_number)


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _rank(per_score: dict[str, Estimate | str], names: list[str]) -> tuple[float, ...]:
    """Return the sort key: the last score first, since it sums up the others."""
    values = (per_score[name] for name in reversed(names))
    return tuple(-value.value if isinstance(value, Estimate) else 0.0 for value in values)


Table = tuple[str, list[str], list[list[str]]]
SITES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ORIGINALS = {"seed": "cache class", "seed-durable": "durable class"}


def site_tables(results: Results, title: Callable[[str], str]) -> Iterator[Table]:
    """Yield title, headings and rows of each table for which this run has figures."""
    for part, table in SITES.items():
        rows, columns = [], table["columns"]
        for contender in _contenders(results, part):
            values = [_extra(results, part, contender, extra) for extra, _, _ in columns.values()]
            if any(values):
                rows.append([title(contender), *map(_told, values, columns.values())])
        if rows:
            yield f"websessions: {table['title']}", ["contender", *columns], rows
    for part, name in ORIGINALS.items():
        rates = {who: _extra(results, part, who, "requests_per_second") for who in _contenders(results, part)}
        found = sorted(((max(each), min(each), who) for who, each in rates.items() if each), reverse=True)
        none = max(rates.get("web-none", ()), default=0.0)
        rows = [
            [title(who), f"{best:.0f}", f"{worst:.0f}", f"{100 * best / none:.1f} %" if none else ""]
            for best, worst, who in found
        ]
        if rows:
            heading = f"websessions: the original layout, requests per second; {name}"
            yield heading, ["contender", "best", "worst", "best against no sessions"], rows


def _contenders(results: Results, part: str) -> list[str]:
    played = [key[2] for key in results.rows if key[:2] == ("websessions", part)]
    return [who for who in played if not results.rows["websessions", part, who].failures]


def _extra(results: Results, part: str, contender: str, extra: str) -> list[float]:
    per_round = results.rows["websessions", part, contender].per_round(extra)
    return [value for values in per_round.values() for value in values]


def _told(values: list[float], column: tuple[str, float, int]) -> str:
    _, factor, digits = column
    return f"{median(values) * factor:.{digits}f}" if values else ""
