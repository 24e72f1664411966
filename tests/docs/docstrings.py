"""The rules for docstrings; `python tests/docs/docstrings.py` writes the list of those that break them.

    docstring   there is one, and its first line is a sentence or the beginning of one; a field is named by its class
    arguments   each argument has an entry under `Args:`, or is named in backticks; for a single one the promise may do
    errors      what raises by itself, or asks a server, says so under `Raises:` or in words
    example     what takes arguments is shown in use

A docstring may leave these to another one that it names in backticks (`find`), to the same method of a base class, or
to a protocol that its class implements. A method that is called with an event is shown by its class.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import docs_public

LIST = Path(__file__).with_name("docstrings-owed.txt")
RULES = ("docstring", "arguments", "errors", "example")

# Protocols whose methods are documented once, for the classes of these modules.
PROTOCOLS = {
    "mangonel.websessions.stores.": ("Store", "BlockingStore", "Finds", "Purges", "Stats", "Manages"),
    "mangonel.websessions.MemoryStore": ("Store", "Finds", "Purges", "Stats", "Manages"),
}
# Names for interpreters, frameworks and peers, not for users.
NOT_CALLED = {"transform_python", "transform_bson", "utcoffset", "tzname", "dst"}


class Thing:
    """A public class, function, method or property."""

    def __init__(self, name: str, value: object, kind: str, owner: type | None = None) -> None:
        self.name, self.value, self.kind, self.owner = name, value, kind, owner
        self.text = inspect.cleandoc(getattr(value, "__doc__", None) or "")

    @property
    def parameters(self) -> list[str]:
        value = self.value
        if isinstance(value, types.ClassMethodDescriptorType):
            value = value.__get__(None, value.__objclass__)
        try:
            named = inspect.signature(value).parameters
        except (TypeError, ValueError):
            return []
        return [name for name in named if name not in ("self", "cls")]


def unwrapped(value: object) -> tuple[object, str] | None:
    if isinstance(value, property):
        return value.fget, "property"
    if isinstance(value, classmethod | staticmethod):
        return value.__func__, "function"
    # Python lists the second kind, class methods made in Rust, from 3.14 on.
    if inspect.isroutine(value) or isinstance(value, types.ClassMethodDescriptorType):
        return value, "function"
    return (value, "property") if inspect.isdatadescriptor(value) else None


@cache
def things() -> dict[str, Thing]:
    """Return every public name with its object; a method appears under the first class that the reference shows."""
    found: dict[str, Thing] = {}
    seen: set[int] = set()
    for name, value in docs_public.public().items():
        if not inspect.isclass(value):
            if inspect.isroutine(value):
                found[name] = Thing(name, value, "function")
            continue
        if not value.__module__.startswith("mangonel"):
            continue
        found[name] = Thing(name, value, "class")
        for base in value.__mro__:
            if not base.__module__.startswith("mangonel"):
                continue
            for member, raw in vars(base).items():
                what = None if member.startswith("_") else unwrapped(raw)
                if what is not None and id(what[0]) not in seen:
                    seen.add(id(what[0]))
                    found[f"{name}.{member}"] = Thing(f"{name}.{member}", *what, owner=value)
    return found


def entries(text: str) -> set[str]:
    """Return the names under `Args:`."""
    section = text.partition("\nArgs:\n")[2].split("\n\n")[0]
    listed = re.findall(r"^ {4}([\w*][\w*, ]*):", section, re.MULTILINE)
    return {name.strip("* ") for row in listed for name in row.split(",")}


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([\w.]+)(?:\(\))?`", text))


def related(thing: Thing, depth: int = 2) -> Iterator[str]:
    """Return the docstrings that this one may refer to instead of its own text."""
    family, _, own = thing.name.rpartition(".")
    package = family.rpartition(".")[0]
    for word in quoted(thing.text):
        for name in (
            f"{family}.{word}",
            f"{package}.{word}",
            f"{'.'.join(thing.name.split('.')[:2])}.{word}",
        ):
            other = things().get(name)
            if other is not None and other is not thing:
                yield other.text
                if depth > 1 and other.kind == "function":
                    yield from related(other, depth - 1)
                break
    for base in thing.owner.__mro__[1:] if thing.owner else ():
        what = unwrapped(vars(base)[own]) if own in vars(base) else None
        if what is not None:
            yield inspect.cleandoc(getattr(what[0], "__doc__", None) or "")
    for start, protocols in PROTOCOLS.items():
        for protocol in protocols if thing.name.startswith(start) else ():
            other = things().get(f"mangonel.websessions.stores.protocol.{protocol}.{own}")
            if other is not None and other is not thing:
                yield other.text
    if thing.owner is not None and thing.parameters == ["event"]:
        yield inspect.cleandoc(thing.owner.__doc__ or "")


def can_fail(thing: Thing) -> bool:
    """Return whether it raises by itself or asks a server."""
    try:
        source = textwrap.dedent(inspect.getsource(thing.value))
    except (OSError, TypeError):
        return False
    tree = ast.parse(source).body[0]
    head = source.partition('"""')[0]
    return (
        isinstance(tree, ast.AsyncFunctionDef)
        or "-> FaceResult[" in head
        or any(isinstance(node, ast.Raise) for node in ast.walk(tree))
    )


def owed(thing: Thing) -> list[str]:
    """Return the rules that a name breaks."""
    own = thing.name.rpartition(".")[2]
    if thing.kind == "property" and not callable(thing.value):
        # A field of a record: its class describes it.
        bases = thing.owner.__mro__ if thing.owner else ()
        told = "\n".join([thing.text, *(base.__doc__ or "" for base in bases if base is not object)])
        is_told = thing.text or re.search(rf"\b{re.escape(own)}\b", told)
        return [] if is_told else ["docstring"]
    first, _, rest = thing.text.partition("\n")
    if not first or not (first[0].isupper() or first[0] in "`_"):
        return ["docstring"]
    if (
        rest
        and not rest.startswith("\n")
        and not ("." in first or first[-1].isalnum() or first[-1] in ",;:`)")
    ):
        return ["docstring"]
    if thing.kind != "function" or not thing.parameters or own in NOT_CALLED:
        return []
    texts = [thing.text, *related(thing)]
    told = set().union(*(entries(text) | quoted(text) for text in texts))
    if len(texts) > 1:
        told |= {"args", "kwargs"}
    broken = []
    if len(thing.parameters) > 1 and any(name not in told for name in thing.parameters):
        broken.append("arguments")
    if can_fail(thing) and not any(re.search(r"[Rr]aise", text) for text in texts):
        broken.append("errors")
    if not any(">>>" in text for text in texts):
        broken.append("example")
    return broken


def all_owed() -> dict[str, list[str]]:
    return {name: broken for name, thing in things().items() if (broken := owed(thing))}


def listed() -> dict[str, list[str]]:
    rows = (line.split() for line in LIST.read_text().splitlines() if line and not line.startswith("#"))
    return {name: rules for name, *rules in rows}


def main() -> None:
    rows = [f"{name} {' '.join(rules)}" for name, rules in sorted(all_owed().items())]
    head = "# Public names whose docstrings owe something, and what. This list may only get shorter.\n"
    LIST.write_text(head + "".join(f"{row}\n" for row in rows))
    print(f"{len(rows)} of {len(things())} public names")


if __name__ == "__main__":
    main()
