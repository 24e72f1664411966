"""Talk between the scheduler and its child processes: one JSON object per line on a pair of pipes.

The pipes are not stdout: what a driver prints must not be taken for a message. Knows nothing of benchmarks.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import IO, Any, TypeAlias

Message: TypeAlias = dict[str, Any]

STDERR_KEPT = 2000


class ChildError(Exception):
    """A child broke off: it ended, fell silent, or reported an error."""


class Channel:
    """The two pipe ends of one side."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._pending = b""

    def send(self, message: Message) -> None:
        """Write one message.

        Raises:
            BrokenPipeError: the other side is gone.
        """
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._write_fd, data) :]

    def receive(self, timeout: float | None = None) -> Message | None:
        """Return the next message, or None at the end of the stream.

        Raises:
            TimeoutError: nothing complete arrived within `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._pending:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._read_fd], [], [], left)[0]:
                raise TimeoutError(f"no message within {timeout} s")
            chunk = os.read(self._read_fd, 65536)
            if not chunk:
                return None
            self._pending += chunk
        line, self._pending = self._pending.split(b"\n", 1)
        message: Message = json.loads(line)
        return message

    def close(self) -> None:
        """Close both ends; a second time does nothing."""
        if self._read_fd >= 0:
            os.close(self._read_fd)
            os.close(self._write_fd)
            self._read_fd = self._write_fd = -1


class Child:
    """A process started as `python -m MODULE READ_FD WRITE_FD`, with its channel and its last words."""

    def __init__(self, module: str, environment: Mapping[str, str] | None = None) -> None:
        child_read, parent_write = os.pipe()
        parent_read, child_write = os.pipe()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by finish()
        self.channel = Channel(parent_read, parent_write)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(child_read), str(child_write)],
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
            pass_fds=(child_read, child_write),
            env={**os.environ, **(environment or {})},
        )
        os.close(child_read)
        os.close(child_write)

    def ask(self, message: Message, timeout: float) -> Message:
        """Send a message and return the answer.

        Raises:
            ChildError: the child ended, fell silent or answered with an error.
        """
        self.tell(message)
        return self.hear(timeout)

    def tell(self, message: Message) -> None:
        """Send a message.

        Raises:
            ChildError: the child has ended.
        """
        try:
            self.channel.send(message)
        except BrokenPipeError:
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
        """Wait for the end and return how it went: exit status, the signal that ended it, last words."""
        self.dismiss()
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

    def dismiss(self) -> None:
        """Close the channel: a child that waits for a message takes that as the end."""
        self.channel.close()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

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
    """Return the channel of a child process, from the two numbers on its command line."""
    numbers = [int(word) for word in sys.argv[1:3]]
    for number in numbers:
        os.set_inheritable(number, False)
    return Channel(*numbers)
