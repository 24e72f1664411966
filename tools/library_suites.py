"""`python tools/library_suites.py [NAME ...]`: run the tests of libraries on top of PyMongo, on it and on this driver.

The tests come from the libraries' source distributions. Each library runs in a virtual environment of the cache
(`$XDG_CACHE_HOME/mangonel/library-suites`) and, as root, in a network of its own, since Ming and mongomock expect a
server at port 27017. Writes nothing into the repository but, with `--write`, the table in docs/compatibility.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/compatibility.md"
START, END = "<!-- written by tools/library_suites.py -->\n", "<!-- end -->"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mangonel" / "library-suites"
# Where each client of these tests looks for its server.
PORT = 27017
# Seconds: the tool may run beside others at low priority.
STARTUP = 300
SHARED = ["pytest", "pytest-timeout", "pymongo==4.20.0", "pytz"]


@dataclass(frozen=True)
class Suite:
    """The tests of one library.

    Args:
        requirement: the library, pinned.
        tests: their folder in the source distribution.
        needs: what they import besides.
        removed: a folder of the source that would hide the installed package with its compiled modules.
    """

    requirement: str
    tests: str
    needs: tuple[str, ...] = ()
    removed: str = ""


SUITES = {
    "flask-pymongo": Suite(
        "flask-pymongo==2.3.0", "flask_pymongo/tests", ("flask==2.2.5", "werkzeug==2.2.3", "six==1.17.0")
    ),
    "ming": Suite("ming==0.17.3", "ming/tests", ("webob", "webtest", "formencode", "pymongocrypt==1.21.2")),
    "mongomock": Suite("mongomock==4.3.0", "tests", ("packaging",)),
    "pymongoarrow": Suite("pymongoarrow==1.15.0", "test", ("pandas", "polars", "pyarrow"), "pymongoarrow"),
    "umongo": Suite("umongo==4.0.0", "tests", ("motor==3.7.1", "mongomock==4.3.0")),
}


@dataclass(frozen=True)
class Outcome:
    """How a suite ended: test -> "passed", "failed" or "skipped"."""

    tests: dict[str, str]

    def count(self, state: str) -> int:
        """Return how many tests ended so."""
        return sum(found == state for found in self.tests.values())


def environment(name: str, suite: Suite) -> tuple[Path, Path]:
    """Return the interpreter and the unpacked source of a suite; fetch what is not there."""
    folder = CACHE / suite.requirement
    python = folder / "venv/bin/python"
    done = folder / "ready"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder / "venv"], check=True)
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        build = [
            "setuptools",
            "wheel",
            "cython",
            "numpy",
            "scikit-build-core",
            "flit-core",
            "hatchling",
            "hatch-vcs",
        ]
        subprocess.run(
            [*pip, "install", suite.requirement, *SHARED[:2], "pytz", *suite.needs, *build], check=True
        )
        # Libraries that do not yet allow this version of PyMongo run on it all the same.
        subprocess.run([*pip, "install", "--no-deps", "--force-reinstall", "pymongo==4.20.0"], check=True)
        sdist = ["--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--dest", folder]
        subprocess.run([*pip, "download", *sdist, suite.requirement], check=True)
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder / "source", filter="data")
        (source,) = (folder / "source").iterdir()
        if suite.removed:
            shutil.rmtree(source / suite.removed)
        done.touch()
    (source,) = (folder / "source").iterdir()
    return python, source


def play(name: str, suite: Suite, through: list[str]) -> Outcome:
    """Run a suite once and return how each test ended.

    Args:
        through: what stands between the interpreter and `-m pytest`.
    """
    python, source = environment(name, suite)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, *through, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "120"]
        command += [
            "-o",
            "addopts=",
            "-o",
            "filterwarnings=default",
            "-o",
            "junit_family=xunit1",
            f"--junitxml={report}",
            "--tb=short",
        ]
        finished = subprocess.run(
            [*command, suite.tests],
            cwd=source,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        (CACHE / f"{name}-{'ours' if through else 'pymongo'}.log").write_text(finished.stdout)
        return Outcome(_ends(report)) if report.exists() else Outcome({})


def _ends(report: Path) -> dict[str, str]:
    ends = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        state = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        ends[f"{case.get('classname')}::{case.get('name')}"] = state
    return ends


def table(outcomes: dict[str, tuple[Outcome, Outcome]]) -> str:
    """Return the table of the page."""
    text = "\n| library | tests | pass on PyMongo 4.20.0 | pass here |\n|---|---|---|---|\n"
    for name, (peer, own) in outcomes.items():
        version = SUITES[name].requirement.partition("==")[2]
        text += f"| {name} {version} | {len(peer.tests)} | {peer.count('passed')} | {own.count('passed')} |\n"
    return text + "\n"


def main() -> int:
    """Run the suites; the exit status says whether any test passes on PyMongo and not here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(SUITES)}; default: all")
    parser.add_argument("--write", action="store_true", help="write the table in docs/compatibility.md")
    asked = parser.parse_args()
    names = asked.names or list(SUITES)
    for name in names:
        environment(name, SUITES[name])
    if os.geteuid() == 0 and "MANGONEL_OWN_NETWORK" not in os.environ:
        own = [
            "unshare",
            "--net",
            "sh",
            "-c",
            'ip link set lo up && exec "$@"',
            "sh",
            sys.executable,
            *sys.argv,
        ]
        os.execvpe("unshare", own, {**os.environ, "MANGONEL_OWN_NETWORK": "1"})

    from mangonel.server import start

    outcomes: dict[str, tuple[Outcome, Outcome]] = {}
    is_equal = True
    for name in names:
        with start(port=PORT, timeout=STARTUP):
            peer = play(name, SUITES[name], [])
        with start(port=PORT, timeout=STARTUP):
            own = play(name, SUITES[name], ["-m", "mangonel.compat"])
        outcomes[name] = peer, own
        print(
            f"{name}: {peer.count('passed')} pass on PyMongo, {own.count('passed')} here, of {len(peer.tests)}"
        )
        for test, state in peer.tests.items():
            if state == "passed" and own.tests.get(test) != "passed":
                is_equal = False
                print(f"  {own.tests.get(test, 'missing')}: {test}")
    if asked.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{START}{table(outcomes)}{END}{after}", encoding="utf-8")
    return 0 if is_equal else 1


if __name__ == "__main__":
    raise SystemExit(main())
