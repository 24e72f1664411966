"""Empties a database between tests: finds collections with documents in few commands, and deletes the documents.

A collection that was empty at one check and was not written to before the next is still empty. Only the others are
searched for a document. On a replica set, the primary's oplog has every write: each entry has the id of its collection,
and a transaction's entries appear with its commit. An entry also has the `_id` of its document, so a few documents are
deleted by `_id`. To find them with a scan, the server would walk over all deletions of the last five minutes, since it
keeps these for snapshot reads. On a standalone mongod, the command `top` counts the operations that took a write lock
on each collection. Its counts start again when the server is started, or when a collection is created again under the
same name.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mangonel.bson import Binary, CodecOptions, DatetimeConversion, DatetimeMS, Int64, ObjectId
from mangonel.bson.errors import InvalidBSON
from mangonel.errors import OperationFailure
from mangonel.operations import DeleteMany
from mangonel.read_concern import ReadConcern
from mangonel.read_preferences import ReadPreference
from mangonel.write_concern import WriteConcern

if TYPE_CHECKING:
    from mangonel import MongoClient
    from mangonel.api import Collection, Database
    from mangonel.bson import Timestamp
    from mangonel.server_description import ServerDescription

    # Ids of documents with their types; None: any documents.
    _Documents = dict[tuple[type, Any], None] | None
    # The id of a collection, or its namespace -> its written documents.
    _Written = dict[Any, _Documents]
    # The name of a collection -> its written documents.
    _Filled = dict[str, _Documents]

# With fewer collections it is quicker to search each for a document.
_FEWEST = 3
# With more namespaces on the server than this per collection, it is quicker too.
_MOST_FOREIGN = 20
# With more oplog entries than this, it is quicker to search each collection for a document.
_MOST_ENTRIES = 1000
_OF = ("op", "ui", "ns", "o._id", "o2._id")
_PROJECTION = dict.fromkeys(["ts", "t", "o.msg", *_OF, *(f"o.applyOps.{name}" for name in _OF)], True)
_PERIODIC = "periodic noop"
# Types whose values are equal in Python exactly if the server treats them as the same id.
_EXACT = frozenset({Binary, DatetimeMS, Int64, ObjectId, bytes, datetime, int, str})


class Emptier:
    """Empties one database, again and again.

    Args:
        database: a database of the blocking face.
    """

    def __init__(self, database: Database[Any]) -> None:
        # A URI may set reads from a secondary, majority reads, or unacknowledged writes.
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
        # Whether that server was the only member of its set, at the last check without the oplog.
        self._is_alone = False
        self._is_counted = True
        # The ids of the collections at the last check. With an oplog, all of these were empty then.
        self._ids: dict[str, Any] = {}
        # The states of collections that were empty at the last check, and the counts of those that were emptied then.
        self._empty: dict[str, Any] = {}
        self._emptied: dict[str, int] = {}

    def empty(self) -> None:
        """Delete the documents of each collection that has any; drop collections that a deletion cannot empty."""
        # Read before collections are listed or searched, so that the next check sees later writes.
        written = self._oplog.written() if self._type == "RSPrimary" else None
        # If a later step fails, no collection is known to be empty.
        known, self._ids = self._ids, {}
        # Entries of `$cmd` create, drop and rename collections.
        is_listed = written is None or not known or f"{self._database.name}.$cmd" in written
        ids = self._listed() if is_listed else known
        if written is not None:
            self._delete(self._filled_since(written, ids, known))
        else:
            server = self._server()
            self._type = "" if server is None else server.server_type_name
            self._is_alone = server is not None and len(server.all_hosts) == 1
            self._empty_by_states(ids, server)
        self._ids = ids

    def _listed(self) -> dict[str, Any]:
        """Return the ids of the collections; drop those that a deletion cannot empty."""
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

    def _filled_since(self, written: _Written, ids: dict[str, Any], known: dict[str, Any]) -> _Filled:
        """Return the collections that may have documents; `ids` are present ones, `known` those of the last check."""
        filled: _Filled = {}
        for name, id in ids.items():
            namespace = f"{self._database.name}.{name}"
            if known.get(name) == id and namespace not in written:
                filled[name] = written.get(id, {})
            elif id in written or namespace in written:
                filled[name] = None
        unknown = [name for name in ids if name not in filled]
        return {**filled, **dict.fromkeys(self._filled(unknown))}

    def _empty_by_states(self, ids: dict[str, Any], server: ServerDescription | None) -> None:
        """Empty the collections; skip those whose state shows that nothing was written since the last check."""
        states = self._states(ids, server) if server and self._type == "Standalone" else {}
        counts = {name: state[-1]["count"] for name, state in states.items()}
        filled, asked = [], []
        for name in ids:
            if name not in states:
                asked.append(name)
            elif name in self._empty:
                # A collection that was written to since most probably has documents.
                filled += [name] * (states[name] != self._empty[name])
            else:
                is_written = self._emptied.get(name, counts[name]) != counts[name]
                (filled if is_written else asked).append(name)
        filled += self._filled(asked) if states or len(asked) > 1 else asked
        self._delete(dict.fromkeys(filled))
        self._empty = {name: state for name, state in states.items() if name not in filled}
        self._emptied = {name: counts[name] + 1 for name in filled if name in states}

    def _delete(self, filled: _Filled) -> None:
        """Delete all documents of the collections.

        Only the last deletion waits for other members, if there are any. They apply the earlier deletions before it,
        unless another primary took over meanwhile.
        """
        names = [name for name, documents in filled.items() if documents != {}]
        primary = self._server() if len(names) > 1 else None
        waited_for = [] if self._is_alone else names[-1:]
        for name in names:
            database = self._database if name in waited_for else self._confirmed_here
            if not _delete_by_id(database[name], filled[name]):
                database[name].delete_many({})
        if len(names) > 1 and _election_of(self._server()) != _election_of(primary):
            for name in names:
                self._database[name].delete_many({})

    def _server(self) -> ServerDescription | None:
        """Return the writable server, if it is known."""
        described = self._database.client.topology_description.server_descriptions()
        return next((server for server in described.values() if server.is_writable), None)

    def _states(self, ids: dict[str, Any], server: ServerDescription) -> dict[str, Any]:
        """Return, for each collection that the server counts, a state that every write to it changes."""
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
        """Return the collections that have documents, with one command for all of them."""
        if not names:
            return names
        one: dict[str, list[dict[str, Any]]] = {
            name: [{"$limit": 1}, {"$replaceWith": {"name": {"$literal": name}}}] for name in names
        }
        others = [{"$unionWith": {"coll": name, "pipeline": one[name]}} for name in names[1:]]
        return [found["name"] for found in self._database[names[0]].aggregate([*one[names[0]], *others])]


def _delete_by_id(collection: Collection[Any], documents: _Documents) -> bool:
    """Delete the documents; return whether all of them existed."""
    if not documents:
        return False
    # One statement per id: with `$in`, the scan for the end of a range would walk over all deletions.
    deletions = [DeleteMany({"_id": id}) for _, id in documents]
    return collection.bulk_write(deletions, ordered=False).deleted_count == len(deletions)


class _Oplog:
    """Finds the collections of a replica set that any client wrote to."""

    def __init__(self, client: MongoClient[Any]) -> None:
        # Decodes dates and ids without loss.
        options = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
        self._local = client.get_database("local", options, ReadPreference.PRIMARY)
        # The time of the newest entry at the last check.
        self._newest: Timestamp | None = None
        self._term: Any = None
        self._is_open = True

    def written(self) -> _Written | None:
        """Return the writes since the last call, by the ids or namespaces of collections.

        Return None at the first call, and if the oplog does not suffice: after an election, if entries since the last
        call are gone or too many, or if this user may not read it.
        """
        before, self._newest = self._newest, None
        found = None if before is None else self._later(before)
        if not found:
            self._newest = self._end()
            return None
        term, self._term = self._term, found[-1]["t"]
        self._newest = found[-1]["ts"]
        # While the entry of that time still exists, no later entry is missing.
        return _written_by(found[1:]) if found[0]["ts"] == before and term == self._term else None

    def _end(self) -> Timestamp | None:
        """Return the time of the newest entry before which all entries are complete."""
        newest = self._found(sort={"$natural": -1}, limit=1, projection={"ts": 1})
        found = newest and self._later(newest[0]["ts"])
        if not found:
            return None
        self._term = found[-1]["t"]
        end: Timestamp = found[-1]["ts"]
        return end

    def _later(self, moment: Timestamp) -> list[dict[str, Any]] | None:
        """Return the entries from a time on, or None if they are too many or cannot be read.

        On a primary, a forward scan waits until all earlier entries are visible.
        """
        # The entry of that time itself was read before.
        return self._found(filter={"ts": {"$gte": moment}}, projection=_PROJECTION, batchSize=_MOST_ENTRIES)

    def _found(self, **options: Any) -> list[dict[str, Any]] | None:
        if not self._is_open:
            return None
        try:
            cursor = self._local.command("find", "oplog.rs", **options)["cursor"]
        except InvalidBSON:
            # A string in an entry, such as an id, is not valid UTF-8.
            return None
        except OperationFailure:
            self._is_open = False
            return None
        if cursor["id"]:
            self._local.command("killCursors", "oplog.rs", cursors=[cursor["id"]])
            return None
        found: list[dict[str, Any]] = cursor["firstBatch"]
        return found


def _written_by(entries: list[dict[str, Any]]) -> _Written | None:
    """Return the writes of oplog entries; None if the entries do not show them all."""
    written: _Written = {}
    for entry in entries:
        operations = entry.get("o", {}).get("applyOps") if entry["op"] == "c" else None
        if operations is None and entry["op"] == "c":
            written[entry.get("ui")] = written[entry["ns"]] = None
            continue
        for each in operations or [entry]:
            if each["op"] in ("i", "u", "d"):
                _note(written, each)
            elif each["op"] != "n" or each["o"].get("msg", _PERIODIC) != _PERIODIC:
                # A command inside `applyOps`, an entry of a newer server, a new primary, or other members.
                return None
    return written


def _note(written: _Written, entry: dict[str, Any]) -> None:
    """Add the document that one entry wrote or deleted."""
    of = entry.get("ui")
    documents = written.setdefault(of, {}) if of else None
    id = entry.get("o2" if entry["op"] == "u" else "o", {}).get("_id")
    if documents is None or type(id) not in _EXACT:
        written[of or entry["ns"]] = None
    elif entry["op"] == "d":
        documents.pop((type(id), id), None)
    else:
        documents[type(id), id] = None


def _election_of(server: ServerDescription | None) -> Any:
    return server and (server.address, server.election_id, server.topology_version)
