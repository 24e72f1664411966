"""Messages between the scheduler and its child processes: one JSON object each, over a separate pipe.

Not over stdout: a driver's output must not be taken for a message. Not pickled: the scheduler must not import a
driver's types. Knows nothing of benchmarks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any, TypeAlias

Message: TypeAlias = dict[str, Any]

STDERR_KEPT = 2000


class ChildError(Exception):
    """A child failed: it exited, did not answer in time, or reported an error."""


class Channel:
    """One end of the pipe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.close = connection.close

    def send(self, message: Message) -> None:
        """Write one message; OSError if the other side is gone."""
        self._connection.send_bytes(json.dumps(message).encode())

    def receive(self, timeout: float | None = None) -> Message | None:
        """Return the next message, or None if the other side is gone; TimeoutError if none arrived in time."""
        try:
            if not self._connection.poll(timeout):
                raise TimeoutError(f"no message within {timeout} s")
            message: Message = json.loads(self._connection.recv_bytes())
        except (EOFError, ConnectionResetError):
            return None
        return message


class Child:
    """A process started as `python -m MODULE DESCRIPTOR`, with its channel and its final output."""

    def __init__(self, module: str, environment: Mapping[str, str] | None = None) -> None:
        ours, theirs = Pipe()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by finish()
        self.channel = Channel(ours)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
            pass_fds=(theirs.fileno(),),
            env={**os.environ, **(environment or {})},
        )
        theirs.close()

    def ask(self, message: Message, timeout: float) -> Message:
        """Send a message and return the answer; ChildError if the child exited, was silent or failed."""
        self.tell(message)
        return self.hear(timeout)

    def tell(self, message: Message) -> None:
        """Send a message; ChildError if the child has exited."""
        try:
            self.channel.send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise ChildError(self._obituary()) from None

    def hear(self, timeout: float) -> Message:
        """Return the child's next message; raises as `ask` does."""
        try:
            answer = self.channel.receive(timeout)
        except TimeoutError:
            raise ChildError(f"no answer within {timeout:.0f} s") from None
        if answer is None:
            raise ChildError(self._obituary())
        if "error" in answer:
            raise ChildError(str(answer["error"]))
        return answer

    def finish(self, timeout: float = 20.0) -> Message:
        """Close the channel, which ends a waiting child; return the child's exit status, signal and final output."""
        self.channel.close()
        killed = False
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            killed = True
            status = self.process.wait()
        end: Message = {"status": status, "clean": status == 0 and not killed}
        if killed:
            end["signal"] = f"did not end within {timeout:.0f} s after its last message"
        elif status < 0:
            end["signal"] = signal.Signals(-status).name
        if status != 0:
            end["stderr"] = self._last_words()
        self._stderr.close()
        return end

    def _obituary(self) -> str:
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired:
            return "closed its pipe without a word"
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        words = self._last_words()
        return f"ended before it answered ({how})" + (f": {words}" if words else "")

    def _last_words(self) -> str:
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - STDERR_KEPT))
        return self._stderr.read().decode(errors="replace").strip()


def inherited() -> Channel:
    """Return the channel of a child process, by the descriptor on its command line."""
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    return Channel(Connection(descriptor))


def serve(opened: Callable[[Message], AbstractContextManager[Callable[[Message], Message]]]) -> int:
    """Answer messages until the stream ends, and return the exit status of a child process.

    `opened` receives the first message and returns the handler of the others; an error in either becomes the answer.
    """
    channel = inherited()
    order = channel.receive()
    if order is None:
        return 1
    try:
        with opened(order) as answer:
            channel.send({"event": "ready"})
            while (message := channel.receive()) is not None:
                try:
                    channel.send(answer(message))
                except Exception as error:
                    what = message.get("do") or message.get("verb")
                    channel.send({"error": f"{what}: {type(error).__name__}: {error}"})
    except Exception as error:
        channel.send({"error": f"{type(error).__name__}: {error}"})
        return 1
    return 0
