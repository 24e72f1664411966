"""A daemon thread that the interpreter ends inside a function of the Rust module does not crash the process.

Before 3.14 such a thread is ended by unwinding its stack, which must not cross Rust's frames. `tools/core_rules.py`
checks that every entry and every class is guarded.
"""

from __future__ import annotations

import pytest

from faults import programs

# A thread without earlier calls into the module runs Python code that the module called. Then the main thread ends, and
# the thread asks for the interpreter's lock during the finalization.
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
    "a foreign table is released": """
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
