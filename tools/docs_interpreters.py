"""Write the benchmark table of interpreters from result files of the lab, one for each interpreter.

    python tools/docs_interpreters.py FILE...      into docs/benchmarks/interpreters.md

Each file is the result of `mangonel lab run bson find-one find-many read-documents` on the same machine, run by its own
interpreter. The text above the page's marker is written by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from mangonel.lab import fingerprint, marks, results  # noqa: E402  # of this tree, built or not

PAGE = ROOT / "docs/benchmarks/interpreters.md"
MARKER = "<!-- written by tools/docs_interpreters.py -->\n"


def table(contents: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the text below the marker: how the runs were made, and a row for each target that was played.

    Raises:
        ValueError: the runs are from different machines or servers, so their figures are not comparable.
    """
    first = contents[0]["fingerprint"]
    for other in contents[1:]:
        if found := fingerprint.differences(first, {**other["fingerprint"], "python": first["python"]}):
            raise ValueError(f"expected runs of one machine and server, got other {', '.join(found)}")
    for content in contents:
        told = content["fingerprint"]
        yield f"- {told['date'][:10]}: {fingerprint.machine(told)}, PyMongo {told['versions']['pymongo']}."
    yield ""
    judged = [{each.mark: each for each in marks.verdicts(results.Results(content))} for content in contents]
    names = [f"CPython {content['fingerprint']['python']}" for content in contents]
    yield f"| what | target | {' | '.join(names)} |"
    yield f"|---|---|{'---|' * len(names)}"
    for mark in dict.fromkeys(mark for verdicts in judged for mark in verdicts):
        found = [verdicts.get(mark) for verdicts in judged]
        if any(each and each.reached for each in found):
            words = [_words(each) for each in found]
            yield f"| {mark.experiment}: {mark.text} | {_asked(mark)} | {' | '.join(words)} |"
    yield ""


def _asked(mark: marks.Mark) -> str:
    return marks.Verdict(mark, marks.NOT_PLAYED).asked.replace(" x", "x")


def _words(verdict: marks.Verdict | None) -> str:
    """Return a figure; a figure that misses its target is bold."""
    if verdict is None or verdict.reached is None:
        return "not played"
    words = verdict.words.replace("] x", "]x")
    return f"**{words}**" if verdict.state == marks.MISSED else words


def main() -> int:
    """Write the page; return an exit status."""
    if not sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    lines = table([results.load(Path(name)) for name in sys.argv[1:]])
    written = PAGE.read_text(encoding="utf-8").partition(MARKER)[0]
    PAGE.write_text(f"{written}{MARKER}\n" + "\n".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
