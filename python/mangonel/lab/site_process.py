"""A web site in its own process, for the experiments: starts it, and serves.

Knows no site.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

BACKLOG = 1024  # the load's connections arrive at once


class SiteProcess:
    """A module that prints its port, serves, and exits with its input; RuntimeError if it exits before."""

    def __init__(
        self,
        *arguments: str,  # the module and its arguments
        before: Sequence[str] = (),  # a command in front of the interpreter
        environment: Mapping[str, str] | None = None,
        errors: int | None = None,  # a descriptor for its error output
    ) -> None:
        self._name = arguments[0]
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            text=True,
        )
        try:
            # A site may print its whole address.
            self.port = int(self.line().strip().rstrip("/").rpartition(":")[2])
        except BaseException:
            self.close()
            raise

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended; its error is above")
        return line

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def get(self, path: str, cookie: str = "") -> str:
        headers = {"Cookie": cookie} if cookie else {}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=110) as answer:
            body: bytes = answer.read()
        return body.decode()

    def close(self) -> None:
        end(self.process)


def end(process: subprocess.Popen[str]) -> None:
    """Close a process's input, and kill it after a while."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def handler(answer: Callable[[Any], Any], mixin: Any = None) -> Any:
    """Return a Tornado handler that writes the result of `answer`, awaited if necessary."""
    import tornado.web

    bases = (mixin, tornado.web.RequestHandler) if mixin else (tornado.web.RequestHandler,)

    async def get(self: Any) -> None:
        body = answer(self)
        body = await body if asyncio.iscoroutine(body) else body
        if body is not None:
            self.write(body)

    return type("Handler", bases, {"get": get})


async def serve(rules: Sequence[tuple[str, Any]], settings: dict[str, Any]) -> None:
    """Serve Tornado handlers by path; print the port, and return when standard input ends."""
    import tornado.web
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port

    sock, port = bind_unused_port()
    sock.listen(BACKLOG)
    server = HTTPServer(tornado.web.Application(list(rules), **settings))
    server.add_socket(sock)
    print(port, flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


def cpu_seconds() -> float:
    """Return the processor time of this process, including all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
