"""Load for web sites: `ab` as the original benchmark had it, and visitors who keep their cookies, which `ab` cannot be.

Checks every answer's status. Knows no session and no store.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Sequence

from mangonel.lab.stores import find_program

__all__ = ["run_ab", "visit_all"]

PATIENCE = 110.0
_FAILURES = re.compile(rb"(?:Failed requests|Non-2xx responses):\s+(\d+)")


def run_ab(url: str, requests: int, at_once: int) -> None:
    """Send so many requests with `ab`, no keep-alive and no cookies.

    Raises:
        RuntimeError: a request failed; the figure would mean nothing.
    """
    command = [find_program("ab"), "-q", "-s", "60", "-n", str(requests), "-c", str(at_once), url]
    result = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    failed = sum(int(count) for count in _FAILURES.findall(result.stdout))
    if result.returncode or failed:
        raise RuntimeError(
            f"ab: {failed} of {requests} requests failed: {result.stderr[-300:].decode(errors='replace')}"
        )


async def visit_all(port: int, requests: Sequence[tuple[str, str]], at_once: int) -> list[str]:
    """Send a GET for each path and cookie over so many connections that stay; return the cookies that were set."""
    given: list[str] = []

    # Each has a share of its own: where cookies go round in step with it, no visitor overlaps itself.
    async def visitor(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for path, cookie in requests[number::at_once]:
                header = f"Cookie: {cookie}\r\n" if cookie else ""
                writer.write(f"GET {path} HTTP/1.1\r\nHost: lab\r\n{header}\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(f"expected 200 for {path}, got {head[:60]!r}")
                length = 0
                for line in head.split(b"\r\n"):
                    name, _, value = line.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                    elif name.lower() == b"set-cookie":
                        given.append(value.split(b";", 1)[0].strip().decode())
                await reader.readexactly(length)
        finally:
            writer.close()

    await asyncio.gather(*(visitor(number) for number in range(at_once)))
    return given
