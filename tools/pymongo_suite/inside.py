"""Values for the internals of clients, sessions and buckets that the helpers of PyMongo's tests read.

Only for `touch.HELPERS` and the runner of the unified specification tests: a test that reads such a name itself is
private. This module knows the driver's internals; the product contains nothing of it.
"""

from __future__ import annotations

import enum
import os
from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any


class TransactionState(enum.Enum):
    """The states of a transaction that the unified format checks."""

    NONE = 1
    STARTING = 2
    IN_PROGRESS = 3
    COMMITTED = 4
    COMMITTED_EMPTY = 5
    ABORTED = 6


def within_timeout(function: Any) -> Any:
    """Return a method of a bucket in the runner, with the client's `timeoutMS` over the whole call.

    A surrounding timeout block takes precedence.
    """
    import inspect

    from mangonel import timeout
    from mangonel._faces.deadline import is_in_block

    def limit(bucket: Any) -> Any:
        return nullcontext() if is_in_block() else timeout(bucket._collection.database.client.options.timeout)

    if inspect.iscoroutinefunction(function):

        async def awaited(bucket: Any, *arguments: Any) -> Any:
            with limit(bucket):
                return await function(bucket, *arguments)

        return awaited

    def called(bucket: Any, *arguments: Any) -> Any:
        with limit(bucket):
            return function(bucket, *arguments)

    return called


def answer(value: Any, name: str) -> Any:
    """Return an object that has the private attribute `name` for the helpers, or `value` itself."""
    stand = _ANSWERS.get(name)
    kind = type(value)
    if stand is None or not any(base.__module__.startswith("mangonel.") for base in kind.__mro__):
        return value
    return SimpleNamespace(**{name: stand(value)})


@cache
def _observer() -> Any:
    """Return a blocking client of the deployment, for facts that the tested client's public names do not show."""
    from mangonel import MongoClient

    return MongoClient(os.environ["DB_IP"], int(os.environ["DB_PORT"]), directConnection=True)


def _cluster_time() -> Any:
    client = _observer()
    with client.start_session() as session:
        client.admin.command("ping", session=session)
        return session.cluster_time


def _address(session: Any) -> tuple[str, int] | None:
    pinned = session._handle.pinned_server
    if pinned is None:
        return None
    host, _, port = pinned.rpartition(":")
    return host, int(port)


def _state(session: Any) -> TransactionState:
    if session._handle.is_starting:
        return TransactionState.STARTING
    return TransactionState.IN_PROGRESS if session.in_transaction else TransactionState.NONE


_ANSWERS = {
    "_chunks": lambda bucket: bucket._collection["chunks"],
    # Starts no monitoring that the client would not: with connect=False it waits for the first operation.
    "_connect": lambda client: lambda: None,
    "_files": lambda bucket: bucket._collection["files"],
    "_options": lambda client: SimpleNamespace(connect=client._options._options.get("connect", True)),
    "_pinned_address": _address,
    "_server_session": lambda session: SimpleNamespace(dirty=session._handle.is_dirty),
    "_topology": lambda client: SimpleNamespace(max_cluster_time=_cluster_time),
    "_topology_settings": lambda client: SimpleNamespace(_topology_id=client._listeners.topology_id),
    "_transaction": lambda session: SimpleNamespace(pinned_address=_address(session), state=_state(session)),
}
