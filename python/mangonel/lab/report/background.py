"""What stands above an experiment's charts: what it shows and does not, and the original's own figures beside ours."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from html import escape
from typing import Any

from mangonel.lab import registry
from mangonel.lab.results import Results
from mangonel.lab.statistics import Estimate

EVERYWHERE = (
    "Client and server share this machine's cores: ratios and processor time carry over to other machines, "
    "times less so, and nothing here tells how a deployment of several machines behaves."
)


@dataclass(frozen=True)
class Background:
    """A heading and what stands below it."""

    title: str
    html: str


def experiment(results: Results, name: str) -> Background:
    """Return the introduction of one experiment."""
    known = registry.experiments().get(name)
    title = f"{name}: {known.title}" if known else name
    shows = (known.shows if known else "") or EVERYWHERE
    return Background(title, f"<p>{escape(shows)}</p>{_original(results, name)}")


def _original(results: Results, name: str) -> str:
    """Return the old comparison that an experiment repeats: its figures beside today's, and its flaws."""
    if importlib.util.find_spec("mangonel.lab.originals") is None:
        return ""
    originals: Any = importlib.import_module("mangonel.lab.originals")
    original = originals.of_experiment(name)
    if original is None:
        return ""
    from mangonel.lab.report.page import table

    rows = []
    for line in originals.beside(results, name):
        figure = line.figure
        printed = f"{figure.value:g} {figure.unit}"
        today = "not measured here" if line.today is None else _words(line.today, figure.unit)
        rows.append(("", [escape(figure.stack), escape(figure.what), escape(printed), escape(today)]))
    flaws = "".join(f"<li>{escape(flaw)}</li>" for flaw in original.flaws)
    return (
        f"<details><summary>The original: {escape(original.title)}</summary>"
        f"<p>{escape(original.setting)} {escape(original.tool)}</p><p>{escape(original.claim)}</p>"
        f"{table(('stack', 'what', 'printed then', 'its form today [95 %]'), rows, numeric=2)}"
        f"<p>What was wrong with it:</p><ul>{flaws}</ul><p>{escape(original.corrected)}</p></details>"
    )


def _words(found: Estimate, unit: str) -> str:
    return f"{found.value:.3g} [{found.low:.3g}, {found.high:.3g}] {unit}"
