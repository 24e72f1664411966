"""`python tools/imported_names.py`: finds the names that packages on top of PyMongo import and `mangonel.compat` lacks.

Fetches a wheel of each, or its source distribution if it has no wheel, into `build/packages`, without installing it,
and searches its syntax trees for imports and attributes of imported modules. A name counts if the installed PyMongo or
Motor has it, and a package if it uses such a name. Exit status 1 if a package cannot be fetched or a name is missing.
Writes nothing into the repository except, with `--write`, the table in docs/compatibility.md.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/compatibility.md"
START, END = "<!-- written by tools/imported_names.py -->\n", "<!-- end of imported names -->"
WHEELS = ROOT / "build/packages"
PACKAGES = """
    acryl-datahub==1.7.0.17 agno==3.1.10 aiogram==3.31.0 aiohttp-client-cache==0.15.0 ansible==14.5.0
    apache-airflow-providers-mongo==5.5.1 apache-beam==2.77.0 apache-skywalking==1.3.0 apscheduler==3.11.3
    autodynatrace==2.1.1 aws-xray-sdk==2.15.0 beaker==1.14.1 beanie==2.2.0 bunnet==1.3.0 cachelib==0.17.0
    cachier==4.2.0 casbin-pymongo-adapter==1.7.0 cattrs==26.2.1 celery==5.7.0 crewai-tools==1.15.30
    ddtrace==4.16.0 django-mongodb-backend==6.1.0 djongo==1.3.7 docarray==0.41.0 edx-opaque-keys==4.0.1
    emmet-core==0.88.1 eve==2.3.1 event-tracking==4.1.5 fastapi-pagination==0.16.1
    fastapi-users-db-beanie==5.0.0 feast==0.67.0 fiftyone==1.22.1 fireworks==2.1.4 flask-admin==2.2.1
    flask-mongoengine==1.0.0 flask-pymongo==3.0.1 flask-session==0.8.0 girder==5.0.21 graphene-mongo==0.4.5
    hyperopt==0.3.0 instana==3.20.0 jaraco-mongodb==12.4.2 kombu==5.7.0 langchain-community==0.4.2
    langchain-mongodb==0.12.1 langgraph-checkpoint-mongodb==0.5.1 langgraph-store-mongodb==0.4.0
    limits==5.8.0 llama-index-legacy==0.9.48.post4 llama-index-vector-stores-mongodb==0.11.0
    locust-plugins==5.0.3 log4mongo==1.8.1 lumigo-tracer==1.1.257 maggma==0.77.1
    marshmallow-mongoengine==0.31.2 mem0ai==2.2.1 ming==0.17.3 mixer==7.2.2 mongo-connector==3.1.1
    mongo-thingy==0.17.2 mongo-tooling-metrics==1.0.8 mongodb-atlas-haystack==5.0.0
    mongodb-migrations==1.3.1 mongoengine-plus==1.3.0 mongoengine==0.29.3 mongojet==0.5.8
    mongomock-motor==0.0.36 mongomock==4.3.0 mongotoy==0.1.7 montydb==2.5.6 odmantic==1.1.0 odo==0.5.0
    openedx-forum==0.6.0 openmetadata-ingestion==2.0.7.0 opentelemetry-instrumentation-pymongo==0.66b1
    optimade==1.5.0 phidata==2.7.10 polyfactory==3.5.0 pydal==20260520.0 pydantic-extra-types==2.11.1
    pydantic-mongo==3.1.0 pymodm==0.4.3 pymongo-inmemory==0.5.0 pymongo-migrate==1.0.0 pymongo-schema==0.4.2
    pymongo-search-utils==0.3.1 pymongoarrow==1.15.0 pyqlib==0.9.7 pytest-mongo==6.0.0 pytest-mongodb==2.4.0
    quart-mongo==0.1.2 quixstreams==3.28.1 rasa==3.6.21 ray==2.60.0 requests-cache==1.3.3 sacred==0.8.7
    scout-apm==4.0.0 secantusdb==0.7.0b3 semantic-kernel==1.45.0 sentry-sdk==2.75.0 starlette-admin==1.0.3
    tap-mongodb==3.3.0 testcontainers==4.15.0 txmongo==26.0.0 umongo==4.0.0 unstructured-ingest==1.12.0
"""
ROOTS = ("bson", "gridfs", "motor", "pymongo")
# Prints which of the names on its input exist: `module name` on each line; without a name, the module itself.
ASK = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
if sys.argv[1] == "ours":
    import mangonel.compat
    mangonel.compat.install_as_motor()
def has(module, name):
    try:
        found = importlib.import_module(module)
        if not name or hasattr(found, name):
            return True
        importlib.import_module(f"{module}.{name}")
        return True
    except Exception:
        return False
print(json.dumps([has(module, name) for module, name in json.load(sys.stdin)]))
"""

Name = tuple[str, str]
# How many packages one call of pip fetches.
_AT_ONCE = 8
# A source distribution also has tests, whose imports do not count.
_TESTS = re.compile(r"/tests?/|/(test_|conftest)[^/]*$")


def fetch(requirements: list[str]) -> None:
    """Fetch the missing packages, several with one call: wheels, or source distributions if there are none."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--ignore-requires-python"]
    for form in ("--only-binary", "--no-binary"):
        absent = [each for each in requirements if not _fetched(each)]
        for start in range(0, len(absent), _AT_ONCE):
            some = absent[start : start + _AT_ONCE]
            call = [*pip, form, ":all:", "--dest", WHEELS]
            if subprocess.run([*call, *some], stderr=subprocess.DEVNULL, check=False).returncode:
                # One of the packages does not exist in this form.
                for each in some:
                    subprocess.run([*call, each], stderr=subprocess.DEVNULL, check=False)


def _fetched(requirement: str) -> Path | None:
    wanted = requirement.replace("_", "-")
    for path in [*WHEELS.glob("*.whl"), *WHEELS.glob("*.tar.gz")]:
        if path.suffix == ".whl":
            name, version, *_ = path.name.split("-")
        else:
            name, _, version = path.name.removesuffix(".tar.gz").rpartition("-")
        if f"{re.sub('[._]', '-', name).lower()}=={version}" == wanted:
            return path
    return None


def names_in(source: str) -> Iterator[Name]:
    """Yield the names of PyMongo's and Motor's modules that a program imports or reads, as module and name."""
    tree = ast.parse(source)
    # Name in the program -> the module or object that it is bound to.
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in ROOTS:
                    yield alias.name, ""
                    modules[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            if module.partition(".")[0] in ROOTS:
                for alias in node.names:
                    yield module, "" if alias.name == "*" else alias.name
                    modules[alias.asname or alias.name] = f"{module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (path := _dotted(node.value)):
            first, _, rest = path.partition(".")
            if first in modules:
                yield ".".join(filter(None, (modules[first], rest))), node.attr


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def names_of(package: Path) -> set[Name]:
    """Return the names that a package's wheel or source distribution uses."""
    found: set[Name] = set()
    for source in _sources(package):
        if not any(root.encode() in source for root in ROOTS):
            continue
        try:
            found.update(names_in(source.decode()))
        except (SyntaxError, UnicodeDecodeError, ValueError):
            # A template, or code for another Python.
            continue
    return found


def _sources(package: Path) -> Iterator[bytes]:
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as packed:
            yield from (packed.read(path) for path in packed.namelist() if path.endswith(".py"))
    else:
        with tarfile.open(package) as unpacked:
            for member in unpacked:
                is_source = member.isfile() and member.name.endswith(".py") and not _TESTS.search(member.name)
                if is_source and (file := unpacked.extractfile(member)):
                    yield file.read()


def had(names: list[Name], whose: str) -> dict[Name, bool]:
    """Return which of the names PyMongo and Motor ("peer") or this driver in their place ("ours") has."""
    asked = subprocess.run(
        [sys.executable, "-c", ASK, whose],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(names, json.loads(asked.stdout.splitlines()[-1]), strict=True))


def table(packages: int, used: int, missing: dict[Name, list[str]]) -> str:
    """Return the table of the page."""
    text = (
        "\n| packages | names of PyMongo and Motor that they use | of these, missing here |\n|---|---|---|\n"
    )
    text += f"| {packages} | {used} | {len(missing)} |\n\n"
    if missing:
        text += "| missing | used by |\n|---|---|\n"
        for (module, name), users in sorted(missing.items()):
            text += f"| `{module}{'.' if name else ''}{name}` | {', '.join(sorted(users))} |\n"
        text += "\n"
    return text


def main() -> int:
    """Fetch, scan and compare; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true", help="write the table into docs/compatibility.md")
    asked = parser.parse_args()
    WHEELS.mkdir(parents=True, exist_ok=True)
    users: dict[Name, list[str]] = defaultdict(list)
    absent = []
    fetch(PACKAGES.split())
    for requirement in PACKAGES.split():
        package = _fetched(requirement)
        if package is None:
            absent.append(requirement)
            print(f"{requirement} could not be fetched: not scanned")
            continue
        for name in names_of(package):
            users[name].append(requirement.partition("==")[0])
    names = sorted(users)
    peer = had(names, "peer")
    used = [name for name in names if peer[name]]
    ours = had(used, "ours")
    scanned = {package for name in used for package in users[name]}
    fetched = {
        requirement.partition("==")[0] for requirement in PACKAGES.split() if requirement not in absent
    }
    for package in sorted(fetched - scanned):
        print(f"{package} uses no name of PyMongo or Motor: not counted")
    missing = {name: users[name] for name in used if not ours[name]}
    print(f"{len(scanned)} packages use {len(used)} names; {len(missing)} are missing")
    for (module, name), by in sorted(missing.items()):
        print(f"  {module} {name}: {', '.join(by)}")
    if asked.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        after = rest.partition(END)[2]
        PAGE.write_text(
            f"{before}{START}{table(len(scanned), len(used), missing)}{END}{after}", encoding="utf-8"
        )
    return 1 if missing or absent else 0


if __name__ == "__main__":
    raise SystemExit(main())
