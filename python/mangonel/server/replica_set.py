"""Makes a replica set with a primary, and the first user, from listening mongods. Starts no process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mangonel.server.errors import ServerError
from mangonel.server.process import HOST, POLL
from mangonel.server.wire import CommandError

__all__ = ["NAME", "NOT_PRIMARY", "initiate", "member_state", "step_up", "wait_for_members", "write_to_all"]

NAME = "rs0"
# Failover in seconds; the default of ten seconds is for deployments across data centres.
SETTINGS = {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500}

UNAUTHORIZED = 13
# Another member is primary now, or none: NotWritablePrimary, PrimarySteppedDown, InterruptedDueToReplStateChange.
NOT_PRIMARY = frozenset({10107, 189, 11602})
ALREADY_INITIALIZED = 23
USER_EXISTS = 51003

Run = Callable[[dict[str, Any]], dict[str, Any]]


def initiate(run: Run, ports: Sequence[int], settings: Mapping[str, Any] | None) -> None:
    """Make a replica set of the members on these ports; `run` sends a command to the first."""
    config = {
        "_id": NAME,
        "members": [{"_id": number, "host": f"{HOST}:{port}"} for number, port in enumerate(ports)],
        "settings": {**SETTINGS, **(settings or {})},
    }
    try:
        run({"replSetInitiate": config})
    except CommandError as error:
        # An interrupted start has initiated the set, and may have created its user.
        if error.code not in (ALREADY_INITIALIZED, UNAUTHORIZED):
            raise


def member_state(run: Run) -> str:
    """Return "primary", "secondary", "other" (starting, recovering, …) or "down"."""
    try:
        reply = run({"hello": 1})
    except (OSError, CommandError):
        return "down"
    if reply.get("isWritablePrimary"):
        return "primary"
    return "secondary" if reply.get("secondary") else "other"


def wait_for_members(runs: Sequence[Run], deadline: float, check: Callable[[], None]) -> int:
    """Wait until one member is primary and the others are secondaries; return the primary's number.

    Args:
        check: called in each round; raises if a member has exited.
    """
    asked = False
    while True:
        states = [member_state(run) for run in runs]
        settled = all(state in ("primary", "secondary") for state in states)
        if settled and "primary" in states:
            return states.index("primary")
        if not asked and "primary" not in states and "down" not in states:
            # Otherwise the first election waits for a whole election timeout. Refused until the others know the
            # configuration; a refused dry run changes nothing.
            asked = step_up(runs[0])
        check()
        if time.monotonic() > deadline:
            found = [_named(run, state) for run, state in zip(runs, states, strict=True)]
            named = ", ".join(f"member {number} is {state}" for number, state in enumerate(found))
            raise ServerError(f"expected a primary and only secondaries beside it in time; {named}")
        time.sleep(POLL)


def _named(run: Run, state: str) -> str:
    """Return the state; "other" is followed by the server's own name for it, such as RECOVERING."""
    if state != "other":
        return state
    try:
        members = run({"replSetGetStatus": 1})["members"]
    except (OSError, CommandError):
        return state
    return f"{state} ({', '.join(member['stateStr'] for member in members if member.get('self'))})"


def step_up(run: Run) -> bool:
    """Ask a member to become primary; return False if asking again makes sense."""
    try:
        run({"replSetStepUp": 1})
    except CommandError as error:
        # With access control enabled, only a regular election is possible.
        return error.code == UNAUTHORIZED
    except OSError:
        return False
    return True


def write_to_all(run: Run, auth: tuple[str, str] | None, members: int, timeout: float) -> None:
    """Write to all members: the first user, through the localhost exception, or otherwise a marker document.

    Each member copied the primary's data at its own moment and knows only later operations. Once all know this write,
    each can follow any newly elected member. Kept data may contain the user already.

    Args:
        timeout: seconds.
    """
    concern = {"w": max(members, 1), "j": True, "wtimeout": int(timeout * 1000)}
    command: dict[str, Any] = {"appendOplogNote": 1, "data": {"msg": "all members are there"}}
    if auth is not None:
        command = {"createUser": auth[0], "pwd": auth[1], "roles": ["root"]}
    try:
        reply = run({**command, "writeConcern": concern})
        if "writeConcernError" in reply:
            raise ServerError(
                f"expected all {members} members to have the first write, got {reply['writeConcernError']}"
            )
    except CommandError as error:
        if error.code not in (UNAUTHORIZED, USER_EXISTS):
            raise
