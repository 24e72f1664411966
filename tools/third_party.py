"""Write the list of other people's code in the extension module: licences, and a bill of materials (CycloneDX 1.6).

Asks `cargo metadata` for the crates that are linked in on any platform, with the release's features, and reads their
licence files. Crates that only build, test or expand macros are left out: a wheel contains nothing of them. Both files
are the same on every machine, so that a test can compare them.

    python tools/third_party.py           writes THIRD-PARTY-LICENSES.md and mangonel.cdx.json
    python tools/third_party.py --check   fails if the written files are out of date
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LICENCES = ROOT / "THIRD-PARTY-LICENSES.md"
BILL = ROOT / "mangonel.cdx.json"
CRATE = "mangonel-py"
# For crates that offer a choice of licences: the first of these.
WANTED = ("MIT", "BSD-3-Clause", "Zlib", "Apache-2.0", "Unicode-3.0")
_FILES = re.compile(r"(?i)^(licen[cs]e|copying|unlicense)([-._].*)?$")
# C code that a crate contains and links in, and the path of its licence.
CARRIED = {"zstd-sys": ("zstd (C library)", "BSD-3-Clause", "zstd/LICENSE")}


def main(arguments: list[str]) -> int:
    """Write both files, or compare them; return an exit status."""
    metadata = cargo_metadata()
    crates = linked(metadata)
    made = {LICENCES: licences(crates), BILL: bill(crates, metadata)}
    if "--check" not in arguments:
        for path, text in made.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [
        path.name
        for path, text in made.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for name in stale:
        print(f"{name} is not current: run `make third-party`", file=sys.stderr)
    return 1 if stale else 0


def cargo_metadata() -> dict[str, Any]:
    """Return cargo's metadata of the workspace and its dependencies."""
    command = [
        "cargo",
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--features",
        f"{CRATE}/extension-module",
    ]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    metadata: dict[str, Any] = json.loads(done.stdout)
    return metadata


def linked(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the packages in the extension module, without ours, by name."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(id for id, package in packages.items() if package["name"] == CRATE)
    seen: set[str] = set()
    open_ids = [root]
    while open_ids:
        id = open_ids.pop()
        if id in seen or _is_macro(packages[id]):
            continue
        seen.add(id)
        for dependency in nodes[id]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                open_ids.append(dependency["pkg"])
    found = [packages[id] for id in seen if packages[id]["source"] is not None]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def _is_macro(package: dict[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def licences(crates: list[dict[str, Any]]) -> str:
    """Return the page with every licence."""
    lines = [
        "# Licences of the code of others in Mangonel's wheels",
        "",
        "Written by `tools/third_party.py`. The extension module `mangonel._core` has these Rust crates linked in.",
        "Where a crate offers a choice of licences, the text that is taken is given below.",
        "",
        "| crate | version | licence |",
        "|---|---|---|",
    ]
    texts = [(f"{crate['name']} {crate['version']}", _text(crate)) for crate in crates]
    for crate in crates:
        lines.append(f"| {crate['name']} | {crate['version']} | {_expression(crate)} |")
        if crate["name"] in CARRIED:
            what, licence, path = CARRIED[crate["name"]]
            lines.append(
                f"| {what}, in {crate['name']} | {crate['version'].partition('+zstd.')[2]} | {licence} |"
            )
            texts.append((f"{what} in {crate['name']} {crate['version']}", _clean(_folder(crate) / path)))
    # Licences that differ in their notices and line breaks alone: the notices of each crate, and the terms once.
    shared: dict[str, tuple[str, dict[str, list[str]]]] = {}
    for name, text in texts:
        notice, terms = _divided(text)
        _, notices = shared.setdefault(" ".join(terms.split()), (terms, {}))
        notices.setdefault(notice, []).append(name)
    for number, (terms, notices) in enumerate(shared.values(), 1):
        lines += ["", f"## Licence {number}"]
        for notice, names in notices.items():
            lines += ["", f"### {', '.join(names)}", *(["", "```text", notice, "```"] if notice else [])]
        lines += ["", f"### Terms of licence {number}", "", "```text", terms, "```"]
    return "\n".join(lines) + "\n"


def _divided(text: str) -> tuple[str, str]:
    """Return the copyright notices at the head of a licence, and its terms."""
    at = text.find("Permission is hereby granted")
    return ("", text) if at < 0 else (text[:at].strip(), text[at:])


def _expression(crate: dict[str, Any]) -> str:
    # The older spelling of OR.
    return str(crate["license"] or "see below").replace("/", " OR ")


def _text(crate: dict[str, Any]) -> str:
    """Return the licence text of a crate: its own files if it has any; several if one licence does not suffice."""
    files = sorted(path for path in _folder(crate).iterdir() if path.is_file() and _FILES.match(path.name))
    if not files:
        raise SystemExit(
            f"{crate['name']} {crate['version']} ships no licence text; add one to tools/third_party.py"
        )
    taken = [next(name for name in WANTED if name in choice) for choice in _expression(crate).split(" AND ")]
    kinds = [name.partition("-")[0].lower() for name in taken]
    fitting = [[path for path in files if kind in path.name.lower()] for kind in kinds]
    if len(kinds) == 1:
        return _clean((*fitting[0], *files)[0])
    # If their names do not distinguish licences, all files are needed.
    texts = itertools.chain(*fitting) if all(fitting) else files
    return "\n\n".join(map(_clean, texts))


def _folder(crate: dict[str, Any]) -> Path:
    return Path(crate["manifest_path"]).parent


def _clean(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace").replace("```", "'''")
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def bill(crates: list[dict[str, Any]], metadata: dict[str, Any]) -> str:
    """Return the bill of materials as JSON text."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    sums = {(package["name"], package["version"]): package.get("checksum") for package in locked}
    version = next(package["version"] for package in metadata["packages"] if package["name"] == CRATE)
    root = f"pkg:pypi/mangonel@{version}"
    components = [_component(crate, sums) for crate in crates]
    for requirement in project["dependencies"]:
        name, bound = re.fullmatch(r"([A-Za-z0-9._-]+)\s*(.*)", requirement).groups()  # type: ignore[union-attr]
        components.append(
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/{name.lower()}",
                "name": name,
                "purl": f"pkg:pypi/{name.lower()}",
                "properties": [{"name": "mangonel:requirement", "value": bound}],
            }
        )
    by_id = {crate["id"]: crate for crate in crates}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    depends = [{"ref": root, "dependsOn": sorted(component["bom-ref"] for component in components)}]
    for crate in crates:
        below = {dependency["pkg"] for dependency in nodes[crate["id"]]["deps"]} & by_id.keys()
        on = sorted(_ref(by_id[id]) for id in below)
        depends.append({"ref": _ref(crate), **({"dependsOn": on} if on else {})})
    content: dict[str, Any] = {
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": project["name"],
                "version": version,
                "description": project["description"],
                "licenses": [{"expression": project["license"]}],
                "purl": root,
            }
        },
        "components": components,
        "dependencies": depends,
    }
    # Named by its content, so that the same crates give the same file everywhere.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    head = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
    }
    text = json.dumps({**head, **content}, separators=(",", ":"))
    # A line for each component and each reference.
    return re.sub(r',\{"(type|ref)"', r',\n{"\1"', text) + "\n"


def _ref(crate: dict[str, Any]) -> str:
    """Return the name of a crate within the file."""
    return f"{crate['name']}@{crate['version']}"


def _component(crate: dict[str, Any], sums: dict[tuple[str, str], str | None]) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": _ref(crate),
        "name": crate["name"],
        "version": crate["version"],
        "licenses": [{"expression": _expression(crate)}],
        "purl": _purl(crate),
    }
    if checksum := sums.get((crate["name"], crate["version"])):
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if crate.get("repository"):
        component["externalReferences"] = [{"type": "vcs", "url": crate["repository"]}]
    if crate["name"] in CARRIED:
        what, licence, _ = CARRIED[crate["name"]]
        component["components"] = [
            {
                "type": "library",
                "bom-ref": f"{_ref(crate)}#carried",
                "name": what,
                "version": crate["version"].partition("+zstd.")[2],
                "licenses": [{"license": {"id": licence}}],
            }
        ]
    return component


def _purl(crate: dict[str, Any]) -> str:
    return f"pkg:cargo/{crate['name']}@{crate['version'].replace('+', '%2B')}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
