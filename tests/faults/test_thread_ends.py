"""A daemon thread that the interpreter ends below a function of the Rust module does not take the process with it.

Before 3.14 such a thread is ended by unwinding its stack, which must not cross Rust's frames.
"""

from __future__ import annotations

import re
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
}


@pytest.mark.parametrize("place", PLACES)
def test_a_thread_that_is_ended_below_the_module_does_not_end_the_process(place: str) -> None:
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
    bare = []
    for path in SOURCES:
        source = path.read_text()
        for name, body in re.findall(
            r"#\[pyclass[^\]]*\](?:\s*#\[[^\]]*\])*\s*pub struct (\w+)\s*([({].*?)^}|;$", source, re.M | re.S
        ):
            has_guard = re.match(r"[({]\s*(_entry: )?Entry,", body) or re.search(
                rf"impl Drop for {name} {{\s*fn drop\(&mut self\) {{\s*never_unwind_this_thread\(\);", source
            )
            if re.search(r"\bPy<|\bPyBuffer<|\bdyn ", body) and not has_guard:
                bare.append(name)
    assert not bare
