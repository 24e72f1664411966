"""The README's table: the marks of a run, asked and reached, in Markdown, below one line that says how it was taken."""

from __future__ import annotations

from typing import Any

from mangonel.lab.fingerprint import machine
from mangonel.lab.marks import verdicts
from mangonel.lab.noise import unfit
from mangonel.lab.results import Results, form

TIMES, DASH = "\N{MULTIPLICATION SIGN}", "\N{EN DASH}"


def render(content: dict[str, Any]) -> str:
    """Return the table of what `results.load` returned."""
    results = Results(content)
    found, plan = content["fingerprint"], content["plan"]
    judged = verdicts(results)
    name = f"{form(plan)} form"
    reasons = unfit(results)
    verdict = (
        "The lab's noise check found nothing."
        if not reasons
        else f"The noise check says: {'; '.join(reasons)}."
    )
    lines = [
        f"{name.capitalize()}, {found['date'][:10]}: {machine(found)}, MongoDB {found['server'].get('version')} "
        f"({found['server'].get('topology')}); {sum(v.met for v in judged)} of {len(judged)} marks met. {verdict}",
        "",
        "| experiment | what | asked | reached [95 %] | |",
        "|---|---|---|---|---|",
    ]
    for each in judged:
        mark, reached = each.mark, each.reached
        unit = TIMES if mark.unit == "x" else mark.unit
        asked = f"{mark.sign} {mark.limit:g} {unit}".strip()
        told = (
            each.word
            if reached is None
            else f"{reached.value:.3g} {unit} [{reached.low:.3g}, {reached.high:.3g}]"
        )
        sign = "✓" if each.met else DASH
        lines.append(f"| `{mark.experiment}` | {mark.text} | {asked} | {_cell(told)} | {sign} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
