"""Write the project's addresses for the package index: `[project.urls]`, and a README with absolute links.

`[tool.mangonel]` in pyproject.toml names them: `repository`, and `documentation` if the pages are published. While
`repository` is empty, nothing is written. A release runs this in its checkout before the build; the site of `make docs`
uses the same setting.

    python tools/addresses.py                                  changes README.md and pyproject.toml
    python tools/addresses.py --require                        fails if no repository is named; changes nothing
    python tools/addresses.py --repository URL --out FOLDER    writes both into FOLDER, to look at
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = (".gif", ".jpg", ".png", ".svg", ".webp")
# A link in Markdown, or an attribute in HTML; the second group is the address.
_LINK = re.compile(r"""(\]\(|\b(?:href|src|srcset)=")([^)"\s]+)""")


def setting(root: Path = ROOT) -> dict[str, str]:
    """Return the addresses in pyproject.toml, without empty ones."""
    tables = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    return {name: url.rstrip("/") for name, url in tables.get("mangonel", {}).items() if url}


def absolute(text: str, repository: str, documentation: str, ref: str) -> str:
    """Return a text from the repository's root with absolute links.

    Args:
        repository: address of the repository.
        documentation: address of the published pages; if empty, links lead to the repository's files.
        ref: the tag, branch or commit for the links.
    """

    def link(found: re.Match[str]) -> str:
        before, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path, mark, anchor = target.partition("#")
        if documentation and path.startswith("docs/") and path.endswith(".md"):
            page = path.removeprefix("docs/").removesuffix(".md")
            return f"{before}{documentation}/{page}.html{mark}{anchor}"
        kind = "raw" if path.endswith(IMAGES) else "blob"
        return f"{before}{repository}/{kind}/{ref}/{path}{mark}{anchor}"

    return _LINK.sub(link, text)


def as_released(text: str) -> str:
    """Return a README that says how to install the release, not how to build it; its comments mark both."""
    text = re.sub(r"<!-- unreleased -->\n.*?<!-- /unreleased -->\n\n?", "", text, flags=re.DOTALL)
    return re.sub(r"<!-- released\n(.*?)-->\n", r"\1\n", text, flags=re.DOTALL)


def urls(repository: str, documentation: str, ref: str) -> str:
    """Return the table `[project.urls]`."""
    rows = {
        "Homepage": documentation or repository,
        "Documentation": documentation or f"{repository}/blob/{ref}/docs/index.md",
        "Changelog": f"{repository}/blob/{ref}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
        "Source": repository,
    }
    return "[project.urls]\n" + "".join(f'{name} = "{url}"\n' for name, url in rows.items())


def refuse() -> int:
    """Print what a release lacks; return an exit status."""
    print(
        "addresses: expected [tool.mangonel] of pyproject.toml to name the repository, got none; without it the index "
        "would show no source and no issues",
        file=sys.stderr,
    )
    return 1


def main() -> int:
    """Write both files; return an exit status."""
    parser = argparse.ArgumentParser(
        description="write the project's addresses into README.md and pyproject.toml"
    )
    parser.add_argument("--repository", help="in place of that of pyproject.toml")
    parser.add_argument("--documentation", help="in place of that of pyproject.toml")
    parser.add_argument(
        "--require", action="store_true", help="only check that pyproject.toml names a repository"
    )
    parser.add_argument("--out", type=Path, default=ROOT, metavar="FOLDER")
    options = parser.parse_args()
    known = setting()
    repository = (options.repository or known.get("repository", "")).rstrip("/")
    documentation = (options.documentation or known.get("documentation", "")).rstrip("/")
    if options.require:
        return 0 if repository else refuse()
    if not repository:
        print("addresses: [tool.mangonel] of pyproject.toml names no repository; nothing is written")
        return 0
    version = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"][
        "version"
    ]
    ref = f"v{version}"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    options.out.mkdir(parents=True, exist_ok=True)
    shown = absolute(as_released(readme), repository, documentation, ref)
    (options.out / "README.md").write_text(shown, encoding="utf-8")
    if "urls" not in tomllib.loads(project)["project"]:
        table = urls(repository, documentation, ref)
        project = project.replace("[project.scripts]", f"{table}\n[project.scripts]", 1)
    (options.out / "pyproject.toml").write_text(project, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
