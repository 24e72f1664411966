"""Fixtures of pages and examples, which use database names that readers would choose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mangonel.server import Server


@pytest.fixture
def databases(server: Server) -> Iterator[None]:
    """Pages and examples start and end without stored data."""
    forget(server)
    yield
    forget(server)


def forget(server: Server) -> None:
    member = server.members[0]
    listed = member.run_command({"listDatabases": 1, "nameOnly": True}, timeout=30.0)["databases"]
    for name in {database["name"] for database in listed} - {"admin", "config", "local"}:
        member.run_command({"dropDatabase": 1, "$db": name}, timeout=30.0)
