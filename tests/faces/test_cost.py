"""Count the round trips and system calls of each operation; nothing is timed.

strace counts them in the thread that runs the operations. MANGONEL_INSTALL_SERVERS=1 lets the test install it from
Debian, and with MANGONEL_REQUIRE_SERVERS=1 its absence is a failure; where nothing may be traced it is skipped.
"""

from __future__ import annotations

import collections
import subprocess
import sys
from pathlib import Path

import pytest

from tools.needed import needed

PROGRAM = Path(__file__).with_name("cost.py")
TIMES = 10
SENDS = {"sendto", "sendmsg", "write", "writev"}
RECEIVES = {"recvfrom", "recvmsg", "read"}
WAITS = {"poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait"}
# The interpreter's own calls: asking for the running loop asks for the process id.
FREE = {"getpid", "futex", "madvise", "mmap", "munmap", "mremap", "brk", "getrandom", "clock_gettime"}

# A getMore, and a file's document before its chunks, are the only second round trips.
ROUND_TRIPS = collections.defaultdict(lambda: 1, {"a list of two batches": 2, "a small file": 2})

Counts = dict[str, collections.Counter[str]]


@pytest.fixture(scope="module")
def counted(server, tmp_path_factory):
    """Return a function from face and driver to the calls of each operation, summed over its repetitions."""
    strace = needed("strace")
    folder = tmp_path_factory.mktemp("strace")
    known: dict[tuple[str, str], Counts] = {}

    def count(face: str, driver: str) -> Counts:
        if (face, driver) not in known:
            trace = folder / f"{face}-{driver}"
            program = [sys.executable, str(PROGRAM), face, driver, server.uri]
            told = subprocess.run(
                [strace, "-f", "-qq", "-o", str(trace), *program], capture_output=True, text=True, timeout=100
            )
            if "ptrace" in told.stderr.lower() and "not permitted" in told.stderr:
                pytest.skip(f"strace may not trace here: {told.stderr.strip()[:200]}")
            assert told.returncode == 0, told.stderr[-1000:]
            known[face, driver] = read(trace.read_text(errors="replace"), told.stdout.splitlines())
        return known[face, driver]

    return count


def read(trace: str, names: list[str]) -> Counts:
    """Return the calls between the marks, in the thread that makes the marks."""
    lines = [line.split(None, 1) for line in trace.splitlines()]
    marking = next(thread for thread, call in lines if call.startswith("getppid("))
    counts: Counts = {name: collections.Counter() for name in names}
    marks = 0
    for thread, call in lines:
        # The end of a call that another thread interrupted in the trace: its start was counted.
        if thread != marking or not call[0].isalpha():
            continue
        name = call.partition("(")[0]
        if name == "getppid":
            marks += 1
        elif marks % 2:
            counts[names[marks // 2]][name] += 1
    return counts


def total(calls: collections.Counter[str], kinds: set[str]) -> int:
    return sum(calls[kind] for kind in kinds)


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_each_operation_takes_one_message_and_a_second_batch_or_a_file_two(counted, face):
    sends = {name: total(calls, SENDS) for name, calls in counted(face, "mangonel").items()}

    # For a distant server, one command reads the document and the chunks; under strace any server may seem distant.
    file = sends.pop("a small file")
    assert TIMES <= file <= ROUND_TRIPS["a small file"] * TIMES
    assert sends == {name: ROUND_TRIPS[name] * TIMES for name in sends}


@pytest.mark.enough(1)
@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_no_operation_takes_more_messages_than_pymongos(counted, face):
    pytest.importorskip("pymongo", reason="PyMongo, which is compared with, is not installed")
    ours, theirs = counted(face, "mangonel"), counted(face, "pymongo")

    more = {name for name in ours if total(ours[name], SENDS) > total(theirs[name], SENDS)}
    assert not more


def test_a_blocking_operation_is_one_send_and_one_receive_and_no_other_call(counted):
    calls = counted("blocking", "mangonel")["find_one"]

    others = {name: figure for name, figure in calls.items() if name not in SENDS | RECEIVES | WAITS | FREE}
    assert total(calls, SENDS) == TIMES
    # A connection that was idle, as when the machine stood still for a second, is checked first.
    assert TIMES <= total(calls, RECEIVES) <= TIMES + 3
    assert total(calls, WAITS) <= 3
    assert not others


def test_an_operation_on_a_loop_is_one_send_one_wait_and_one_receive(counted):
    calls = counted("asyncio", "mangonel")["find_one"]

    others = {name: figure for name, figure in calls.items() if name not in SENDS | RECEIVES | WAITS | FREE}
    assert total(calls, SENDS) == TIMES
    # A wake-up from another thread, such as the monitor, may come in between.
    assert TIMES <= total(calls, RECEIVES) <= TIMES + 3
    assert TIMES <= total(calls, WAITS) <= TIMES + 3
    assert not others
