"""Hooks of MkDocs for the generated pages. Names are found by importing, so build the extension first."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import addresses  # noqa: E402  # beside this file, which MkDocs loads by its path
import docs_public  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402

# Pages outside of docs/, at the root of the repository.
ELSEWHERE = {
    "ARCHITECTURE.md": "explanation/architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}


def on_files(files: Files, config: Any) -> Files:
    """Add the reference and the root's pages."""
    for source, target in ELSEWHERE.items():
        files.append(File.generated(config, target, content=_moved((ROOT / source).read_text(), target)))
    listed = ["# Reference", "", "Made of the docstrings, which a test holds to their form.", ""]
    for page, (title, _) in docs_public.PAGES.items():
        files.append(File.generated(config, f"reference/{page}.md", content=_reference(page, title)))
        names = [name.rpartition(".")[2] for name, _ in _shown(page)]
        listed.append(
            f"- [{title}]({page}.md): {', '.join(f'`{name}`' for name in names[:8])}"
            + (" …" if names[8:] else "")
        )
    files.append(File.generated(config, "reference/index.md", content="\n".join(listed)))
    return files


# A picture for light and dark in GitHub's form follows the system; the site has its own switch.
PICTURE = re.compile(r"<picture>.*?</picture>", re.DOTALL)
SOURCE = re.compile(r'<source media="([^"]+)" srcset="([^"]+)">')
IMAGE = re.compile(r'<img alt="([^"]*)" src="([^"]+)">')
DARK = "(prefers-color-scheme: dark)"


def _switched(found: re.Match[str]) -> str:
    """Return a picture once for each state of the switch, with its sources for other widths."""
    alt, light = IMAGE.search(found[0]).groups()  # type: ignore[union-attr]  # a picture without an image fails the build
    sources = {"light": [], "dark": []}
    for media, path in SOURCE.findall(found[0]):
        widths = [each for each in media.split(" and ") if each != DARK]
        sources["dark" if DARK in media else "light"].append((" and ".join(widths), path))
    images = {"light": light, "dark": next(path for media, path in sources["dark"] if not media)}
    return "".join(
        "<picture>"
        + "".join(f'<source media="{media}" srcset="{path}">' for media, path in sources[name] if media)
        + f'<img alt="{alt}" src="{image}#only-{name}"></picture>'
        for name, image in images.items()
    )


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Remove text that only the tests read; adapt pictures to the theme's light and dark."""
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    markdown = PICTURE.sub(_switched, markdown)
    return re.sub(r"^<!-- run:.*?-->\n?", "", markdown, flags=re.DOTALL | re.MULTILINE)


def on_config(config: Any) -> Any:
    """Find the package; write the navigation rows whose names are generated."""
    # MkDocs undoes a hook's changes to the path made during loading.
    sys.path.insert(0, str(ROOT / "python"))
    # The development tools supply frameworks and engines that some modules import; the site's packages come first.
    sys.path.extend(str(path) for path in (ROOT / ".venv/lib").glob("python3*/site-packages"))
    known = addresses.setting()
    config["site_url"], config["repo_url"] = known.get("documentation"), known.get("repository")
    for entry in config["nav"]:
        if isinstance(entry, dict) and "Reference" in entry:
            entry["Reference"] = [
                "reference/index.md",
                *(f"reference/{page}.md" for page in docs_public.PAGES),
            ]
        if isinstance(entry, dict) and "Benchmarks" in entry:
            reports = sorted(
                (ROOT / "docs/benchmarks").glob("*.md"), key=lambda path: (path.name != "index.md", path.name)
            )
            entry["Benchmarks"] = [f"benchmarks/{path.name}" for path in reports]
    return config


def _shown(page: str) -> list[tuple[str, object]]:
    return [
        (name, value)
        for name, value in docs_public.names_of(page)
        if inspect.isclass(value) or inspect.isroutine(value)
    ]


def _reference(page: str, title: str) -> str:
    constants = [
        f"| `{name}` | `{value!r}` |"
        for name, value in docs_public.names_of(page)
        if not (inspect.isclass(value) or inspect.isroutine(value))
    ]
    parts = [f"# {title}", ""]
    if constants:
        parts += ["| constant | value |", "|---|---|", *constants, ""]
    parts += [f"::: {name}\n" for name, _ in _shown(page)]
    return "\n".join(parts)


def _moved(markdown: str, target: str) -> str:
    """Return a root page with its links adapted to its new place."""
    up = "../" * target.count("/")

    def link(found: re.Match[str]) -> str:
        path = found[1]
        if path in ELSEWHERE:
            return f"]({up}{ELSEWHERE[path]})"
        return f"]({up}{path.removeprefix('docs/')})" if path.startswith("docs/") else found[0]

    return re.sub(r"\]\(([\w./-]+)\)", link, markdown)
