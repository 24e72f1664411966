"""`python tools/library_suites [NAME ...]`: run the tests of libraries on top of PyMongo, on it and on this driver.

The tests come from the libraries' source distributions. Each library runs in a virtual environment of the cache
(`$XDG_CACHE_HOME/mangonel/library-suites`), which keeps the output of both runs as well, and, as root, in a network of
its own, since most of them expect a server at port 27017. Writes nothing into the repository except, with `--write`,
the rows of these libraries in the table in docs/compatibility.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOOLS))

from library_suites import page  # noqa: E402
from library_suites.running import Outcome, environment, play  # noqa: E402
from library_suites.suites import SUITES, Suite  # noqa: E402
from mangonel.server import start  # noqa: E402

PAGE = TOOLS.parent / "docs/compatibility.md"
# Where each client of these tests looks for its server.
PORT = 27017
# Seconds: the tool may run beside others at low priority.
STARTUP = 300


def main() -> int:
    """Run the suites; the exit status says whether any test passes on PyMongo and not here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(SUITES)}; default: all")
    parser.add_argument("--write", action="store_true", help="write the rows in docs/compatibility.md")
    asked = parser.parse_args()
    names = asked.names or list(SUITES)
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        parser.error(f"expected names out of {', '.join(SUITES)}, got {', '.join(unknown)}")
    for name in names:
        environment(SUITES[name])
    _enter_own_network()
    rows = []
    is_equal = True
    for name in names:
        suite = SUITES[name]
        peer, own = _served(name, suite, []), _served(name, suite, ["-m", "mangonel.compat"])
        counts = len(peer.tests), peer.count("passed"), own.count("passed")
        print(f"{name}: {counts[1]} pass on PyMongo, {counts[2]} here, of {counts[0]}", flush=True)
        # A suite that did not start has no outcome to compare.
        is_equal &= bool(peer.tests)
        for test, state in peer.tests.items():
            if state == "passed" and own.tests.get(test) != "passed":
                is_equal = False
                print(f"  {own.tests.get(test, 'missing')}: {test}", flush=True)
        rows.append(page.row(name, suite.version, counts, datetime.date.today().isoformat()))
    if asked.write:
        page.write(PAGE, rows, set(SUITES))
    return 0 if is_equal else 1


def _served(name: str, suite: Suite, through: list[str]) -> Outcome:
    with start(suite.replica_set, port=PORT, timeout=STARTUP):
        return play(name, suite, through)


def _enter_own_network() -> None:
    """As root, restart this program in a network namespace in which the port is free."""
    if os.geteuid() != 0 or "MANGONEL_OWN_NETWORK" in os.environ:
        return
    within = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv]
    os.execvpe("unshare", ["unshare", "--net", *within], {**os.environ, "MANGONEL_OWN_NETWORK": "1"})


if __name__ == "__main__":
    raise SystemExit(main())
