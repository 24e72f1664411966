"""`python tools/imported_names.py`: what packages on top of PyMongo import, and what of it `mangonel.compat` lacks.

Fetches a wheel of each into `build/packages`, without installing it, and walks its syntax trees: imports, and
attributes of imported modules. A name counts if the installed PyMongo or Motor has it. Exit status 1 if any is missing.
Writes nothing into the repository but, with `--write`, the table in docs/compatibility.md.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/compatibility.md"
START, END = "<!-- written by tools/imported_names.py -->\n", "<!-- end of imported names -->"
WHEELS = ROOT / "build/packages"
PACKAGES = """
    agno==3.1.10 aiogram==3.31.0 apache-airflow-providers-mongo==5.5.1 apscheduler==3.11.3
    aws-xray-sdk==2.15.0 beaker==1.14.1 beanie==2.2.0 bunnet==1.3.0 cachelib==0.17.0 celery==5.7.0
    django-mongodb-backend==6.1.0 django-mongoengine==0.5.6 djongo==1.3.7 dlt==1.31.0 elastic-apm==6.26.2
    eve==2.3.1 factory-boy==3.3.3 fastapi-users-db-beanie==5.0.0 fireworks==2.1.4 flask-admin==2.2.1
    flask-mongoengine==1.0.0 flask-pymongo==3.0.1 flask-session==0.8.0 graphene-mongo==0.4.5 hyperopt==0.3.0
    jobflow==0.4.0 kombu==5.7.0 langchain-mongodb==0.12.1 langgraph-checkpoint-mongodb==0.5.1 limits==5.8.0
    llama-index-storage-docstore-mongodb==0.6.0 llama-index-vector-stores-mongodb==0.11.0 log4mongo==1.8.1
    maggma==0.77.1 mem0ai==2.2.1 ming==0.17.3 mongo-connector==3.1.1 mongo-thingy==0.17.2
    mongodb-atlas-haystack==5.0.0 mongodb-migrations==1.3.1 mongoengine-plus==1.3.0 mongoengine==0.29.3
    mongojet==0.5.8 mongomock-motor==0.0.36 mongomock==4.3.0 mongoquery==1.4.3 mongotoy==0.1.7
    montydb==2.5.6 newrelic==14.1.0 odmantic==1.1.0
    opentelemetry-instrumentation-pymongo==0.66b1 pydantic-mongo==3.1.0 pymodm==0.4.3
    pymongo-auth-aws==1.3.0 pymongo-inmemory==0.5.0 pymongo-migrate==1.0.0 pymongoarrow==1.15.0
    pytest-mongo==6.0.0 pytest-mongodb==2.4.0 quart-mongo==0.1.2 sacred==0.8.7 semantic-kernel==1.45.0
    sentry-sdk==2.75.0 starlette-admin==1.0.3 superduperdb==0.2.4 tap-mongodb==3.3.0 testcontainers==4.15.0
    txmongo==26.0.0 umongo==4.0.0 unstructured-ingest==1.12.0
"""
ROOTS = ("bson", "gridfs", "motor", "pymongo")
# Prints which of the names on its input can be had: `module name` on each line; no name asks for the module.
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
# So many are fetched by one call of pip.
_AT_ONCE = 8


def fetch(requirements: list[str]) -> None:
    """Fetch the wheels that are not there, several with one call; a package without a wheel alone is left out."""
    absent = [each for each in requirements if not _fetched(each)]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    for start in range(0, len(absent), _AT_ONCE):
        some = absent[start : start + _AT_ONCE]
        call = [*pip, "--only-binary", ":all:", "--dest", WHEELS]
        if subprocess.run([*call, *some], stderr=subprocess.DEVNULL, check=False).returncode:
            # One of them has no wheel.
            for each in some:
                subprocess.run([*call, each], stderr=subprocess.DEVNULL, check=False)


def _fetched(requirement: str) -> list[Path]:
    wanted = requirement.partition("==")[::2]
    parts = [(path, path.name.split("-")) for path in WHEELS.glob("*.whl")]
    return [
        path for path, (name, version, *_) in parts if (name.replace("_", "-").lower(), version) == wanted
    ]


def names_in(source: str) -> Iterator[Name]:
    """Yield the names of PyMongo's and Motor's modules that a program imports or reads, as module and name."""
    tree = ast.parse(source)
    # What a name in the program stands for.
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


def names_of(wheel: Path) -> set[Name]:
    """Return the names that a package uses."""
    found: set[Name] = set()
    with zipfile.ZipFile(wheel) as packed:
        for path in packed.namelist():
            if path.endswith(".py"):
                try:
                    found.update(names_in(packed.read(path).decode()))
                except (SyntaxError, UnicodeDecodeError):
                    # A template, or of another Python.
                    continue
    return found


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
    scanned = 0
    fetch(PACKAGES.split())
    for requirement in PACKAGES.split():
        wheels = _fetched(requirement)
        if not wheels:
            print(f"{requirement} has no wheel: not scanned")
            continue
        scanned += 1
        for name in names_of(wheels[0]):
            users[name].append(requirement.partition("==")[0])
    names = sorted(users)
    peer = had(names, "peer")
    used = [name for name in names if peer[name]]
    ours = had(used, "ours")
    missing = {name: users[name] for name in used if not ours[name]}
    print(f"{scanned} packages use {len(used)} names; {len(missing)} are missing")
    for (module, name), by in sorted(missing.items()):
        print(f"  {module} {name}: {', '.join(by)}")
    if asked.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{START}{table(scanned, len(used), missing)}{END}{after}", encoding="utf-8")
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
