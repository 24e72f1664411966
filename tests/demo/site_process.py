"""A web process of the demo, and a visitor without a browser."""

from __future__ import annotations

import datetime as dt
import re
import signal
import subprocess
import sys
from typing import Any

import httpx

from tools.held_port import held_port, port_of

PASSWORD = "mangonel"


class Site:
    """`mangonel demo` on a running deployment; a context manager that ends it.

    Args:
        uri: of the deployment.
        database: for this site alone.
        arguments: further ones of the command line.
    """

    def __init__(self, uri: str, database: str, *arguments: str) -> None:
        self.uri = uri
        self.database = database
        self.url = ""
        self._arguments = ["--rate", "0", *arguments]
        self._held = held_port()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and return when it listens: each time on the same port, which is kept from other programs."""
        command = [sys.executable, "-m", "mangonel", "demo", self.uri, "--database", self.database]
        command += ["--port", str(port_of(self._held)), *self._arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip().rstrip("/")
        assert self.url, "the demo ended before it listened"

    @property
    def port(self) -> int:
        """Return the port that it listens on."""
        return int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """Kill it as a power cut would."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        status = self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return status

    def stop(self) -> int:
        """Ask it to end, and return its exit status."""
        return self._end(signal.SIGTERM)

    def __enter__(self) -> Site:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self._end(signal.SIGKILL)
        self._held.close()


class Visitor:
    """A visitor with cookies."""

    def __init__(self, site: Site) -> None:
        self.site = site
        # Without TLS: reading the certificate authorities would take 40 ms for each visitor.
        self.http = httpx.Client(base_url=site.url, timeout=60, verify=False)
        self.token = ""

    def log_in(self, user: str, password: str = PASSWORD, **fields: str) -> httpx.Response:
        """Fill in the login form."""
        token = token_of(self.http.get("/login").text)
        answer = self.http.post("/login", data={"user": user, "password": password, "_csrf": token, **fields})
        if answer.status_code == 302:
            self.token = token_of(self.http.get("/account", headers={"Accept": "text/html"}).text)
        return answer

    def go_on_as(self, other: Visitor) -> None:
        """Take over the login of another visitor."""
        self.http.cookies.update(other.http.cookies)
        self.token = other.token

    @property
    def cookie(self) -> str:
        """Return the websession's cookie."""
        return self.http.cookies.get("sid") or ""

    def upload(self, name: str, content: bytes | Any, **headers: str) -> httpx.Response:
        """Store a file."""
        return self.http.put(
            f"/api/files/{name}", content=content, headers={"X-CSRF-Token": self.token, **headers}
        )

    def __enter__(self) -> Visitor:
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()


def token_of(page: str) -> str:
    """Return the CSRF token of a page."""
    found = re.search(r'name="csrf" content="([^"]+)"', page)
    assert found, page[:300]
    return found[1]


def customer(name: str) -> dict[str, Any]:
    """Return a customer as the shop writes them."""
    return {"name": name, "city": "Oslo", "joined": dt.datetime.now(dt.UTC)}
