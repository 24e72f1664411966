"""Write the table of servers in docs/compatibility.md from the results of test runs.

The results are JUnit files: `make test MONGOD=... ARGS="--junitxml=run.xml"`.

  tools/servers/table.py --server "MongoDB 5.0.4" --suite "specifications, a sample" run.xml    adds or replaces a row
  tools/servers/table.py                                                                        writes the table
  tools/servers/table.py --check                                                                compares it
"""

from __future__ import annotations

import argparse
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "tests/servers/results.json"
PAGE = ROOT / "docs/compatibility.md"
START, END = "<!-- written by tools/servers/table.py -->\n", "<!-- end -->\n"
COUNTS = ("passed", "failed", "listed", "skipped")


def counts_of(path: Path) -> dict[str, int]:
    """Return how many tests of a run passed, failed, failed as listed, and were skipped."""
    counts = dict.fromkeys(COUNTS, 0)
    # A file that this machine has written itself.
    for case in ElementTree.parse(path).iter("testcase"):
        parts = {part.tag: part for part in case}
        if "failure" in parts or "error" in parts:
            counts["failed"] += 1
        elif "skipped" in parts:
            counts["listed" if parts["skipped"].get("type") == "pytest.xfail" else "skipped"] += 1
        else:
            counts["passed"] += 1
    return counts


def table_of(rows: list[dict[str, object]]) -> str:
    """Return the table of these rows."""
    text = "| server | tests | passed | failed | fail as listed | skipped |\n|---|---|---|---|---|---|\n"
    for row in rows:
        text += f"| {row['server']} | {row['suite']} | {' | '.join(str(row[name]) for name in COUNTS)} |\n"
    return text


def main() -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", help="name and version of what the tests ran on")
    parser.add_argument("--suite", help="which tests ran")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail when the page has another table"
    )
    parser.add_argument("run", nargs="?", type=Path, help="what the run said")
    options = parser.parse_args()
    if options.run is not None and not (options.server and options.suite):
        parser.error("expected --server and --suite with a run")
    rows = json.loads(ROWS.read_text(encoding="utf-8"))
    if options.run is not None:
        key = {"server": options.server, "suite": options.suite}
        rows = [row for row in rows if {name: row[name] for name in key} != key]
        rows.append({**key, **counts_of(options.run)})
        rows.sort(key=lambda row: (row["server"], row["suite"]))
        ROWS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    text = f"{before}{START}\n{table_of(rows)}\n{END}{after}"
    if options.check:
        if text != PAGE.read_text(encoding="utf-8"):
            print(
                "docs/compatibility.md: not the table of tests/servers/results.json; run tools/servers/table.py"
            )
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
