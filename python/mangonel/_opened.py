"""The client, database and collection of a sub-command. Reports waits for a server on standard error.

A server selection waits for up to 30 seconds by default, at the start and whenever the deployment has lost its server.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

from mangonel._command_line import UsageProblem, without_login

__all__ = ["database_of", "named_collection", "opened"]

# Seconds between two checks of the deployment.
_PAUSE = 2.0


@contextlib.contextmanager
def opened(command: str, uri: str, **options: Any) -> Iterator[Any]:
    """Open a client for a block.

    Args:
        command: the command as the user called it, for the message.
        uri, options: as for `MongoClient`.
    """
    from mangonel import MongoClient

    with MongoClient[Any](uri, **options) as client:
        is_over = threading.Event()
        watcher = threading.Thread(target=_tell_waits, args=(command, client, is_over), daemon=True)
        watcher.start()
        try:
            yield client
        finally:
            is_over.set()
            watcher.join()


def database_of(client: Any, name: str | None) -> Any:
    """Return the database of `--database`, or of the URI, or `test`."""
    return client[name] if name else client.get_default_database("test")


def named_collection(client: Any, database: str | None, name: str) -> Any:
    """Return the collection that a command names.

    Args:
        client: the client of the command.
        database: the value of `--database`.
        name: the collection. If neither `database` nor the URI names a database, a name with a dot does:
            `shop.orders`.

    Raises:
        UsageProblem: a name with a dot is not a valid database and collection.
    """
    from mangonel.errors import InvalidName

    if "." not in name or database or client.options.default_database_name is not None:
        return database_of(client, database)[name]
    database, _, rest = name.partition(".")
    try:
        return client[database][rest]
    except InvalidName as error:
        raise UsageProblem(f"expected DATABASE.COLLECTION, got {name!r}: {error}") from error


def _tell_waits(command: str, client: Any, is_over: threading.Event) -> None:
    """Print what the deployment lacks, once for each wait."""
    is_told = False
    while not is_over.wait(_PAUSE):
        found = client.topology_description
        is_lacking = not found.has_readable_server(client.read_preference)
        if is_lacking and not is_told:
            print(f"{command}: {_said(client, found)}", file=sys.stderr, flush=True)
        is_told = is_lacking


def _said(client: Any, found: Any) -> str:
    servers = sorted(found.server_descriptions().items(), key=str)
    named = ", ".join(
        f"{host}:{port} ({server.error or server.server_type_name})" for (host, port), server in servers
    )
    limit = client.options.server_selection_timeout
    return without_login(
        f"waiting for a server for read preference {client.read_preference.mongos_mode}: the deployment has {named}; "
        f"fails after {limit:g} s, which serverSelectionTimeoutMS in the URI changes"
    )
