"""Empties a database between tests: finds the collections that have documents by few commands, and deletes these.

The command `top` of a standalone mongod counts the operations that took a write lock on each collection, whoever sent
them. So a collection that was empty at one look, and whose count is the same at the next, is empty. Only the others
are asked for a document. The counts belong to one process of the server and to one collection of that name. Members of
replica sets count a write when its transaction is still open, and not its commit, so there each collection is asked.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mangonel.errors import OperationFailure

if TYPE_CHECKING:
    from mangonel.api import Database

# With fewer collections it is quicker to ask each for a document.
_FEWEST = 3
# With so many namespaces of the server for one of these collections, it is quicker too.
_MOST_FOREIGN = 20


class Emptier:
    """Empties one database, again and again.

    Args:
        database: a database of the blocking face.
    """

    def __init__(self, database: Database[Any]) -> None:
        self._database = database
        self._is_counted = True
        # The state of each collection that was empty at the last look; of those that were emptied then, what the count
        # is after this deletion.
        self._empty: dict[str, Any] = {}
        self._emptied: dict[str, int] = {}

    def empty(self) -> None:
        """Delete the documents of each collection that has any; drop what no deletion can empty."""
        ids: dict[str, Any] = {}
        for found in self._database.list_collections():
            name, options = found["name"], found.get("options", {})
            if name.startswith("system."):
                continue
            if found["type"] == "collection" and not options.get("capped"):
                ids[name] = found["info"].get("uuid")
            elif found["type"] != "view":
                self._database.drop_collection(name)
        # Before any is asked for a document, so that what is written later changes the state.
        states = self._states(ids)
        counts = {name: state[-1]["count"] for name, state in states.items()}
        filled, asked = [], []
        for name in ids:
            if name not in states:
                asked.append(name)
            elif name in self._empty:
                # Written to since: most probably it has documents.
                filled += [name] * (states[name] != self._empty[name])
            else:
                is_written = self._emptied.get(name, counts[name]) != counts[name]
                (filled if is_written else asked).append(name)
        filled += self._filled(asked) if states or len(asked) > 1 else asked
        for name in filled:
            self._database[name].delete_many({})
        self._empty = {name: state for name, state in states.items() if name not in filled}
        self._emptied = {name: counts[name] + 1 for name in filled if name in states}

    def _states(self, ids: dict[str, Any]) -> dict[str, Any]:
        """Return what every write to a collection changes, for those of which the server tells it."""
        if not self._is_counted or len(ids) < _FEWEST:
            return {}
        client = self._database.client
        (*_, server) = client.topology_description.server_descriptions().values()
        version, totals = server.topology_version, {}
        if version is not None and server.server_type_name == "Standalone":
            # A user who may not, or a reply that is too large.
            with suppress(OperationFailure):
                totals = client.admin.command("top")["totals"]
        self._is_counted = 0 < len(totals) <= _MOST_FOREIGN * len(ids)
        if version is None or not self._is_counted:
            return {}
        found = {name: totals.get(f"{self._database.name}.{name}") for name in ids}
        process = version["processId"]
        return {name: (process, ids[name], each["writeLock"]) for name, each in found.items() if each}

    def _filled(self, names: list[str]) -> list[str]:
        """Return those of the collections that may have a document, asked for by one command."""
        if not names:
            return names
        one: dict[str, list[dict[str, Any]]] = {
            name: [{"$limit": 1}, {"$replaceWith": {"name": {"$literal": name}}}] for name in names
        }
        others = [{"$unionWith": {"coll": name, "pipeline": one[name]}} for name in names[1:]]
        return [found["name"] for found in self._database[names[0]].aggregate([*one[names[0]], *others])]
