"""Refuse words that this project once coined for things with an established name, and sentences without an actor.

    python tools/words.py [FOLDER ...]      without folders: those of FOLDERS

Identifiers are searched too: `set_attention`, `ErrandList`. Where the plain English word is meant, use another word, or
list the place in MEANT.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "crates",
    "docs",
    "examples",
    "fuzz/fuzz_targets",
    "python",
    "tests",
    "tools",
)
SUFFIXES = {".md", ".py", ".pyi", ".rs", ".toml"}

# Coined word -> the field's term.
WORDS = {
    r"errands?": "action",
    r"sieves?": "chunk filter",
    r"siphon(s|ed|ing)?": "direct receive",
    r"essences?": "CollectionContext",
    r"attention": "listeners",
    r"clerks?": "fixtures",
    r"sittings?": "interleaved",
    r"patience": "timeout",
    r"housekeepers?": "what it keeps: abandoned cursors, idle connections",
    r"the house": "environment",
    r"standing": "daemon, reachable, reputation",
    r"(the|a) (server.s |lost )?line (broke|was|is|that|went|failed)": "connection",
    r"(what|all that) \S+ came to": "result",
}
# These words hide who acts: name the part, the process or the program. The lines left are data, identifiers and plain
# English.
UNNAMED = re.compile(r"\b(nobody|somebody|whoever|whatever)\b")
MOST_UNNAMED = 60
# (path below the root, text of the line): places where the plain word is meant.
MEANT = {
    (
        "crates/proto/tests/common/mod.rs",
        "/// Loads all JSON files below `folder`, in order; `None`, with a line that says so, without a specification.",
    ),
    ("python/mangonel/lab/commands/play.py", '"""Return a line that says how far a run is."""'),
    (
        "tests/typing/test_revealed_types.py",
        "that the line is an error which says `text`; every other line must be free of errors.",
    ),
}

_ALL = re.compile(
    "|".join(f"(?P<w{number}>(?<![a-z]){word}(?![a-z]))" for number, word in enumerate(WORDS)), re.IGNORECASE
)
# Without the word boundaries: searched first in a file's lower-case text, since most files have no match.
_PLAIN = [re.compile(word) for word in WORDS]
# `ErrandList` and `set_attention` are read as `Errand_List` and `set attention`.
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def problems(path: Path) -> list[str]:
    """Return the problems of one file, one line each."""
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    text = path.read_text(encoding="utf-8")
    small = text.lower()
    if not any(word.search(small) for word in _PLAIN):
        return []
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _ALL.search(_CAMEL.sub("_", line))
        if match is None or (name, line.strip()) in MEANT:
            continue
        remedy = list(WORDS.values())[int(str(match.lastgroup)[1:])]
        found.append(f"{name}:{number}: expected the field's word ({remedy}), got {match[0]!r}")
    return found


def unnamed(files: list[Path]) -> list[str]:
    """Return one problem if more lines than `MOST_UNNAMED` have a word that hides who acts."""
    found = sum(
        UNNAMED.search(line) is not None
        for path in files
        for line in path.read_text(encoding="utf-8").lower().splitlines()
    )
    if found <= MOST_UNNAMED:
        return []
    return [f"expected at most {MOST_UNNAMED} lines with {UNNAMED.pattern}, got {found}: name who acts"]


def main() -> int:
    folders = [Path(argument).resolve() for argument in sys.argv[1:]] or [ROOT / name for name in FOLDERS]
    files = [
        path
        for folder in folders
        for path in ([folder] if folder.is_file() else sorted(folder.rglob("*")))
        if path.suffix in SUFFIXES and path.is_file() and path != Path(__file__).resolve()
    ]
    if not files:
        sys.exit("words: expected files to look at, got none")
    found = [problem for path in files for problem in problems(path)] + unnamed(files)
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
