"""Empties a database between tests: finds the collections that have documents by few commands, and deletes these.

A collection that was empty at one look, and was not written to before the next, is still empty. Only the others are
asked for a document. On a replica set, the primary's oplog tells what was written: each entry has the id of its
collection, and a transaction's entries appear with its commit. On a standalone mongod, the command `top` counts the
operations that took a write lock on each collection. Its counts begin again when the server is started, or a collection
is made again under the same name.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mangonel.bson import CodecOptions
from mangonel.errors import OperationFailure
from mangonel.read_concern import ReadConcern
from mangonel.read_preferences import ReadPreference
from mangonel.write_concern import WriteConcern

if TYPE_CHECKING:
    from mangonel import MongoClient
    from mangonel.api import Database
    from mangonel.bson import Timestamp
    from mangonel.server_description import ServerDescription

# With fewer collections it is quicker to ask each for a document.
_FEWEST = 3
# With more namespaces on the server than this for each collection, it is quicker too.
_MOST_FOREIGN = 20


class Emptier:
    """Empties one database, again and again.

    Args:
        database: a database of the blocking face.
    """

    def __init__(self, database: Database[Any]) -> None:
        # A URI may ask for reads of a secondary, of a majority, or for writes without an answer.
        self._database = database.with_options(
            CodecOptions(),
            ReadPreference.PRIMARY,
            database.write_concern if database.write_concern.acknowledged else WriteConcern(),
            ReadConcern("local"),
        )
        self._confirmed_here = self._database.with_options(write_concern=WriteConcern(1))
        # The type of the writable server, once it is known.
        self._type = ""
        self._oplog = _Oplog(database.client)
        self._is_counted = True
        # The ids of the collections at the last look. With an oplog, all of these were empty then.
        self._ids: dict[str, Any] = {}
        # The state of each collection that was empty at the last look, and the count of each that was emptied then.
        self._empty: dict[str, Any] = {}
        self._emptied: dict[str, int] = {}

    def empty(self) -> None:
        """Delete the documents of each collection that has any; drop what no deletion can empty."""
        # Before any is listed or asked for a document, so that the next look sees what is written later.
        has_oplog = self._type == "RSPrimary" and len(self._ids) >= _FEWEST
        written = self._oplog.written() if has_oplog else None
        # None is known to be empty if what follows fails.
        known, self._ids = self._ids, {}
        # Collections are made, dropped and renamed by commands.
        is_listed = written is None or f"{self._database.name}.$cmd" in written
        ids = self._listed() if is_listed else known
        if written is not None:
            self._delete(self._filled_since(written, ids, known))
        elif self._type == "RSPrimary":
            self._delete(self._filled(list(ids)) if len(ids) > 1 else list(ids))
        else:
            self._empty_by_states(ids)
        self._ids = ids

    def _listed(self) -> dict[str, Any]:
        """Return the ids of the collections; drop those that no deletion can empty."""
        ids: dict[str, Any] = {}
        for found in self._database.list_collections():
            name, options = found["name"], found.get("options", {})
            if name.startswith("system."):
                continue
            if found["type"] == "collection" and not options.get("capped"):
                ids[name] = found["info"].get("uuid")
            elif found["type"] != "view":
                self._database.drop_collection(name)
        return ids

    def _filled_since(self, written: set[Any], ids: dict[str, Any], known: dict[str, Any]) -> list[str]:
        """Return the collections that may have documents, given the ids and names of those written to since."""
        filled = [
            name for name, id in ids.items() if id in written or f"{self._database.name}.{name}" in written
        ]
        unknown = [name for name, id in ids.items() if name not in filled and known.get(name) != id]
        return filled + self._filled(unknown)

    def _empty_by_states(self, ids: dict[str, Any]) -> None:
        """Empty the collections; skip those whose state shows that nothing was written since the last look."""
        server = self._server()
        self._type = "" if server is None else server.server_type_name
        states = self._states(ids, server) if server and self._type == "Standalone" else {}
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
        self._delete(filled)
        self._empty = {name: state for name, state in states.items() if name not in filled}
        self._emptied = {name: counts[name] + 1 for name in filled if name in states}

    def _delete(self, names: list[str]) -> None:
        """Delete all documents of the collections.

        Only the last deletion waits for other members, if there are any. They apply the earlier ones before it, unless
        another primary took over in between.
        """
        primary = self._server() if names else None
        is_alone = primary is not None and len(primary.all_hosts) == 1
        waited_for = [] if is_alone else names[-1:]
        for name in names:
            database = self._database if name in waited_for else self._confirmed_here
            database[name].delete_many({})
        if len(names) > 1 and _election_of(self._server()) != _election_of(primary):
            for name in names:
                self._database[name].delete_many({})

    def _server(self) -> ServerDescription | None:
        """Return the writable server, if it is known."""
        described = self._database.client.topology_description.server_descriptions()
        return next((server for server in described.values() if server.is_writable), None)

    def _states(self, ids: dict[str, Any], server: ServerDescription) -> dict[str, Any]:
        """Return a state that every write to a collection changes, for the collections that the server counts."""
        version, totals = server.topology_version, {}
        if not self._is_counted or version is None or len(ids) < _FEWEST:
            return {}
        # The user may lack the right, or the reply may be too large.
        with suppress(OperationFailure):
            totals = self._database.client.admin.command("top")["totals"]
        self._is_counted = 0 < len(totals) <= _MOST_FOREIGN * len(ids)
        if not self._is_counted:
            return {}
        found = {name: totals.get(f"{self._database.name}.{name}") for name in ids}
        process = version["processId"]
        return {name: (process, ids[name], each["writeLock"]) for name, each in found.items() if each}

    def _filled(self, names: list[str]) -> list[str]:
        """Return the collections that have documents; one command asks for all of them."""
        if not names:
            return names
        one: dict[str, list[dict[str, Any]]] = {
            name: [{"$limit": 1}, {"$replaceWith": {"name": {"$literal": name}}}] for name in names
        }
        others = [{"$unionWith": {"coll": name, "pipeline": one[name]}} for name in names[1:]]
        return [found["name"] for found in self._database[names[0]].aggregate([*one[names[0]], *others])]


class _Oplog:
    """Tells which collections of a replica set were written to, by any client."""

    def __init__(self, client: MongoClient[Any]) -> None:
        local = client.get_database(
            "local", CodecOptions(), ReadPreference.PRIMARY, None, ReadConcern("local")
        )
        self._entries = local["oplog.rs"]
        # The time of the newest entry at the last look.
        self._newest: Timestamp | None = None
        self._term: Any = None
        self._is_open = True

    def written(self) -> set[Any] | None:
        """Return ids and namespaces of the collections written to since the last call; deletions do not count.

        None at the first call, and if the oplog cannot tell: after an election, when entries since then are gone, or
        when this user may not read it.
        """
        before, term = self._newest, self._term
        if not self._is_open:
            return None
        try:
            since = before or self._entries.find().sort("$natural", -1).limit(1)[0]["ts"]
            # On a primary, a forward scan waits until all earlier entries are visible.
            found = list(self._entries.aggregate(_written_since(since)))
        except (OperationFailure, IndexError):
            self._is_open = False
            return None
        self._newest = max((each["newest"] for each in found), default=None)
        self._term = max((each["term"] for each in found), default=None)
        if before is None or self._term != term or min(each["oldest"] for each in found) != before:
            return None
        written: set[Any] = set()
        for each in found:
            (id, namespace), inner = each["_id"]["of"] or (None, None), each["_id"]["inner"] or {}
            if "c" in (inner.get("op") or ()):
                # A command inside of `applyOps`.
                return None
            written.update([id, namespace], inner.get("ui") or (), inner.get("ns") or ())
        return written - {None}


def _written_since(moment: Timestamp) -> list[dict[str, Any]]:
    """Return a pipeline that groups by collection the entries of an oplog from a moment on."""
    inner = {key: {"$setUnion": [f"$o.applyOps.{key}", []]} for key in ("ui", "ns", "op")}
    # The entry of the moment itself was seen before; while it is there, none is missing.
    is_later = {"$gt": ["$ts", moment]}
    group = {
        "of": {"$cond": [{"$and": [is_later, {"$in": ["$op", ["i", "u", "c"]]}]}, ["$ui", "$ns"], None]},
        "inner": {"$cond": [{"$and": [is_later, {"$eq": ["$op", "c"]}]}, inner, None]},
    }
    times = {"oldest": {"$min": "$ts"}, "newest": {"$max": "$ts"}, "term": {"$max": "$t"}}
    return [{"$match": {"ts": {"$gte": moment}}}, {"$group": {"_id": group, **times}}]


def _election_of(server: ServerDescription | None) -> Any:
    return server and (server.address, server.election_id, server.topology_version)
