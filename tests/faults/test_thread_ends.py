"""A daemon thread that the interpreter ends below a function of the Rust module does not take the process with it.

Before 3.14 such a thread is ended by unwinding its stack, which must not cross Rust's frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from faults import programs

SOURCES = sorted(Path(programs.ROOT, "crates/py/src").rglob("*.rs"))

# A thread that has called nothing of the module before is inside Python code, below a call of the module, when the main
# thread ends, and comes back for the interpreter's lock during the finalization.
HEAD = """
import _thread, os, sys, time
from mangonel import MongoClient, _core

inside, ending = os.pipe(), os.pipe()

def wait(*_, write=os.write, read=os.read, inside=inside, ending=ending):
    write(inside[1], b"x")
    read(ending[0], 1)

class Late:
    "Is finalized after all other threads were told to end."
    def __del__(self, write=os.write, sleep=time.sleep, ending=ending):
        write(ending[1], b"x")
        sleep(0.5)

class Waiting:
    def __del__(self):
        wait()

class Transport:
    close = wait

    def interrupt(self):
        pass

sys.late = Late()
client = MongoClient("mongodb://127.0.0.1:1", connect=False)
core = client._core
"""
TAIL = """
_thread.start_new_thread(work, ())
os.read(inside[0], 1)
"""
PLACES = {
    "a monitor closes its connection": """
monitor = _core.Monitor(core, "127.0.0.1:1", 0)
monitor.handle_connected(Transport(), -1)
core.dismiss_watchers()
work = monitor.handle_wake
""",
    "the last reference to a user's object goes": """
held = [_core.Waiter(Waiting())]
work = held.clear
""",
    "an iterator of the user's is dropped": """
def documents():
    try:
        yield {}
    finally:
        wait()

made = documents()
next(made)
held = [_core.DocumentSource(made, client._codec, "documents", True, 1000)]
del made
work = held.clear
""",
    "a table of somebody else's is released": """
import pyarrow

class Numbers(bytearray):
    __del__ = wait

column = pyarrow.Array.from_buffers(pyarrow.int64(), 1, [None, pyarrow.py_buffer(Numbers(8))])
held = [_core.ArrowReader(pyarrow.record_batch([column], names=["n"]), False)]
del column
work = held.clear
""",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_thread_that_is_ended_below_the_module_does_not_end_the_process(place: str) -> None:
    if "pyarrow" in PLACES[place]:
        pytest.importorskip("pyarrow")
    programs.must_end_well(programs.run(HEAD + PLACES[place] + TAIL))


def test_each_entry_keeps_its_thread_from_being_unwound() -> None:
    bare = []
    for path in SOURCES:
        lines = path.read_text().split("\n")
        for number, line in enumerate(lines):
            if (
                re.match(r"\s*#\[(pymethods|pyfunction)\b", line)
                and lines[number - 1].strip() != "#[entries]"
            ):
                bare.append(f"{path.name}:{number + 1}")
    assert not bare


def test_each_class_that_holds_references_keeps_the_thread_that_drops_it_from_being_unwound() -> None:
    sources = {path: path.read_text() for path in SOURCES}
    types = _types(sources.values())
    classes = {name: path for path, source in sources.items() for name in CLASS.findall(source)}
    # Those that are found through their own fields, those through the fields of these, and one that only borrows.
    assert {"Waiter", "Exchange", "ArrowReader", "ArrowRows", "DocumentShape"} <= {
        name for name in classes if _what_it_drops(name, types)
    }
    assert _what_it_drops("OdmModel", types) == ""

    bare = {}
    for name, path in classes.items():
        has_guard = re.match(r"[({]\s*(_entry: )?Entry,", types.get(name, "")) or re.search(
            rf"impl Drop for {name} {{\s*fn drop\(&mut self\) {{\s*never_unwind_this_thread\(\);",
            sources[path],
        )
        dropped = _what_it_drops(name, types)
        if dropped and not has_guard:
            bare[name] = dropped
    assert not bare


CLASS = re.compile(r"#\[pyclass[^\]]*\](?:\s*#\[[^\]]*\])*\s*(?:pub )?(?:struct|enum) (\w+)")
BEGIN = re.compile(r"\b(?:struct|enum) (\w+)[^{(;]*[({]")
ALIAS = re.compile(r"\btype (\w+)[^=;]* = ([^;]*);")
# What is only borrowed is nobody's to drop.
BORROWED = re.compile(r"&'\w+ (mut )?[\w:]+")
REFERENCE = re.compile(r"\bPy<|\bPyBuffer<|\bdyn |\bPyErr\b")


def _types(sources: Iterable[str]) -> dict[str, str]:
    """Return by name what each type of the sources holds; what types of the same name hold is taken together."""
    types: dict[str, str] = {}
    for source in sources:
        code = re.sub(r"//.*", "", source)
        found = [(begin[1], _body(code, begin.end() - 1)) for begin in BEGIN.finditer(code)]
        for name, held in found + ALIAS.findall(code):
            types[name] = types.get(name, "") + BORROWED.sub("", held)
        # An end that is written by hand may reach Python.
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
    """Return through which fields' types a type holds references, or an empty string."""
    held = types.get(name, "")
    if REFERENCE.search(held):
        return name
    for inner in re.findall(r"\b[A-Z]\w*", held):
        if inner in types and inner not in seen and inner != name and inner != "Entry":
            found = _what_it_drops(inner, types, seen | {name})
            if found:
                return f"{name} > {found}"
    return ""
