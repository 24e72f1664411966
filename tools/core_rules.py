"""Check rules of the binding's Rust: state guarded by the GIL is listed, and no thread is unwound through Rust.

- Each cell that only the GIL guards, and each unsafe claim that a type may be shared, is listed below with its reason.
  `gil_used = false` may be declared once both tables are empty: every row describes a race between two threads.
- The dict layout is refused at compile time on interpreters whose dicts have their own locks.
- No thread waits for a condition: it would take the lock without the GIL, and a forked child could find it taken.
- Each function that Python calls has `#[entries]`, and each class that holds references has a guard: a daemon thread
  that the interpreter ends must not be unwound through Rust's frames.

    python tools/core_rules.py    fails if a rule is broken
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "crates" / "py" / "src"

# Process-wide state that only the GIL guards -> the race between two threads.
CELLS = {
    "codec/key_cache.rs KEYS": "replace a name that the other one is about to use",
    "codec/mod.rs SCRATCH": "take the same output buffer",
    "codec/object_id.rs FREE": "take the same released object",
    "codec/object_id.rs GENERATOR": "count to the same id",
    "codec/options.rs CACHE": "replace options that the other one reads",
    "codec/shapes.rs SHAPES": "change a tree of shapes while the other one walks in it",
    "codec/stack.rs SPARE": "push to one vector of half-made values",
    "driver/spare.rs CODECS": "take the same working memory",
    "driver/spare.rs DEFRAMERS": "receive into the same buffer",
    "odm/fields.rs SPARE": "take the same released state",
    "odm/lifetime.rs LATER": "count the depth of each other's releases",
}

# Types declared safe to share -> why that depends on the GIL, or does not.
SHARED = {
    "codec/cell.rs Sync for GilCell": "its users are the rows above",
    "driver/ready.rs Sync for Methods": "never written, so it needs no lock",
    "odm/json.rs Send for Names": "made once and read, its pointers never followed, so it needs no lock",
    "odm/json.rs Sync for Names": "made once and read, its pointers never followed, so it needs no lock",
    "odm/plan.rs Send for ModelRef": "a model's plan, slots and spare instances are cells",
    "odm/plan.rs Sync for ModelRef": "a model's plan, slots and spare instances are cells",
}


# A test of the search itself: types found through their own fields, through other types' fields, and one that only
# borrows.
KNOWN_HOLDERS = {"Waiter", "Exchange", "ArrowReader", "ArrowRows", "DocumentShape"}
KNOWN_BORROWER = "OdmModel"

CLASS = re.compile(r"#\[pyclass[^\]]*\](?:\s*#\[[^\]]*\])*\s*(?:pub )?(?:struct|enum) (\w+)")
BEGIN = re.compile(r"\b(?:struct|enum) (\w+)[^{(;]*[({]")
ALIAS = re.compile(r"\btype (\w+)[^=;]* = ([^;]*);")
# Borrowed values are not dropped.
BORROWED = re.compile(r"&'\w+ (mut )?[\w:]+")
REFERENCE = re.compile(r"\bPy<|\bPyBuffer<|\bdyn |\bPyErr\b")


def _types(sources: Iterable[str]) -> dict[str, str]:
    """Return the fields of each type by name; types of the same name are merged."""
    types: dict[str, str] = {}
    for source in sources:
        code = re.sub(r"//.*", "", source)
        found = [(begin[1], _body(code, begin.end() - 1)) for begin in BEGIN.finditer(code)]
        for name, held in found + ALIAS.findall(code):
            types[name] = types.get(name, "") + BORROWED.sub("", held)
        # A hand-written `Drop` may call Python.
        for name in re.findall(r"\bDrop for (\w+)", code):
            types[name] = types.get(name, "") + " PyErr"
    return types


def _body(code: str, start: int) -> str:
    depth = 0
    for bracket in re.finditer(r"[({})]", code[start:]):
        depth += 1 if bracket[0] in "({" else -1
        if depth == 0:
            return code[start : start + bracket.end()]
    raise ValueError(f"a bracket is not closed: {code[start : start + 80]}")


def _what_it_drops(name: str, types: dict[str, str], seen: frozenset[str] = frozenset()) -> str:
    """Return the path of field types through which a type holds references, or an empty string."""
    held = types.get(name, "")
    if REFERENCE.search(held):
        return name
    for inner in re.findall(r"\b[A-Z]\w*", held):
        if inner in types and inner not in seen and inner != name and inner != "Entry":
            found = _what_it_drops(inner, types, seen | {name})
            if found:
                return f"{name} > {found}"
    return ""


def named(sources: dict[str, str], pattern: str) -> set[str]:
    """Return the matches of a pattern as texts: the file and the name, or for two groups "FILE ONE for OTHER"."""
    return {
        f"{path} {' for '.join(match.groups())}"
        for path, source in sources.items()
        for match in re.finditer(pattern, source)
    }


def unnamed(sources: dict[str, str]) -> Iterator[str]:
    """Yield state that the GIL guards and no table lists, and rows of the tables that match nothing."""
    cells = named(sources, r"static (\w+): GilCell<")
    shared = named(sources, r"unsafe impl(?:<\w+>)? (Send|Sync) for (\w+)")
    for table, rows, found in (("CELLS", CELLS, cells), ("SHARED", SHARED, shared)):
        yield from (
            f"{place}: expected a row of {table} that says why, got none" for place in found - rows.keys()
        )
        yield from (
            f"{place}: expected it in the sources as {table} says, got nothing"
            for place in rows.keys() - found
        )
    for place in named(sources, r"(?<!')static (mut) "):
        yield f"{place}: expected a cell that the lock guards, got a static mut"


def waiting(sources: dict[str, str]) -> Iterator[str]:
    """Yield places where a thread takes a lock without the GIL, which a fork by another thread could leave taken."""
    for place in named(sources, r"\b(Condvar|Barrier|RwLock)\b"):
        yield f"{place}: expected a look at the state again after a sleep without the GIL, got a wait for a lock"


def unguarded(sources: dict[str, str]) -> Iterator[str]:
    """Yield functions and classes without the guard against unwinding a thread through Rust."""
    for path, source in sources.items():
        lines = source.split("\n")
        for number, line in enumerate(lines):
            is_entry = re.match(r"\s*#\[(pymethods|pyfunction)\b", line)
            if is_entry and lines[number - 1].strip() != "#[entries]":
                yield f"{path}:{number + 1}: expected #[entries] before it, got none"
    types = _types(sources.values())
    classes = {name: path for path, source in sources.items() for name in CLASS.findall(source)}
    for name, path in classes.items():
        has_guard = re.match(r"[({]\s*(_entry: )?Entry,", types.get(name, "")) or re.search(
            rf"impl Drop for {name} {{\s*fn drop\(&mut self\) {{\s*never_unwind_this_thread\(\);",
            sources[path],
        )
        dropped = _what_it_drops(name, types)
        if dropped and not has_guard:
            yield f"{path}: {name} holds references ({dropped}): expected an Entry as its first field, got none"


def blind(sources: dict[str, str]) -> Iterator[str]:
    """Yield references that the search should find and does not, or the reverse."""
    types = _types(sources.values())
    for name in sorted(KNOWN_HOLDERS):
        if not _what_it_drops(name, types):
            yield f"{name}: expected it among the types that hold references"
    if _what_it_drops(KNOWN_BORROWER, types):
        yield f"{KNOWN_BORROWER}: expected it not to hold references"


def problems() -> list[str]:
    """Return the broken rules, one line each."""
    sources = {
        path.relative_to(SOURCES).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(SOURCES.rglob("*.rs"))
    }
    found = [*unnamed(sources), *waiting(sources), *unguarded(sources), *blind(sources)]
    if "#ifdef Py_GIL_DISABLED\n#error" not in (SOURCES.parent / "layout.c").read_text(encoding="utf-8"):
        found.append("layout.c: expected an #error where Py_GIL_DISABLED is defined, got none")
    return found


def main() -> int:
    """Print the broken rules; return the exit status."""
    found = problems()
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
