"""A running deployment prepared for a case: it loads the data, turns fail points off afterwards, and reads behind the
client under test.

Knows no test format. Everything goes through blocking clients of its own.
"""

from __future__ import annotations

import enum
import functools
import re
import time
from collections.abc import Mapping
from typing import Any

from mangonel.server import Server
from spec.unified.driver import Driver

__all__ = ["Deployment", "Leaves"]

# This fail point hangs up while the write continues: the server retries a failed batch, document by document, which
# succeeds once the fail point is off.
_LATE_FAIL_POINT = "onPrimaryTransactionalWrite"
_SERVERS_OWN = re.compile(r"^(admin|config|local)\.")


class Leaves(enum.Enum):
    """The data that a case leaves unchanged."""

    ALL = "collections and documents"
    COLLECTIONS = "collections, but not their documents"
    NOTHING = "nothing"


class Deployment:
    """A server of `mangonel.server`, and clients that are invisible to the cases."""

    def __init__(self, driver: Driver, server: Server) -> None:
        self._driver = driver
        self._server = server
        self._client = driver.module("").MongoClient(server.uri, heartbeatFrequencyMS=500)
        self._direct: dict[str, Any] = {}
        concerns = driver.module("write_concern")
        self._last_write = concerns.WriteConcern(w="majority")
        self._is_set = len(server.members) > 1 or server.replica_set_name is not None
        self._first_write = concerns.WriteConcern(w=1)
        # Collections without options or indexes of their own, and their documents where these are known.
        self._plain: dict[tuple[str, str], bytes | None] = {}

    @property
    def uri(self) -> str:
        """The URI for the clients under test."""
        return self._server.uri

    @functools.cached_property
    def cluster_time_command(self) -> dict[str, Any]:
        """Run a command whose reply carries the cluster time, if the deployment has one."""
        return {"ping": 1}

    def load(self, data: list[Mapping[str, Any]]) -> Any:
        """Replace collections by the given documents; return the cluster time after that, or None."""
        reply: Any = {}
        for wanted in data:
            self._load(wanted)
        if data:
            reply = self._client.admin.command(self.cluster_time_command)
        return reply.get("$clusterTime")

    def _load(self, wanted: Mapping[str, Any]) -> None:
        database = self._client[wanted["databaseName"]]
        name, documents = wanted["collectionName"], wanted["documents"]
        place = (wanted["databaseName"], name)
        # As bytes, since 1, 1.0 and true are different values.
        content = self._driver.bson("").encode({"documents": documents})
        if "createOptions" not in wanted and place in self._plain:
            if self._plain[place] == content:
                return
            # The last write is the one that a majority read sees, with all before it.
            concern = self._first_write if documents else self._last_write
            database.get_collection(name, write_concern=concern).delete_many({})
        else:
            self._create(database, wanted)
        if documents:
            majority = database.get_collection(name, write_concern=self._last_write)
            majority.insert_many([dict(document) for document in documents])
        if "createOptions" not in wanted:
            self._plain[place] = content

    def _create(self, database: Any, wanted: Mapping[str, Any]) -> None:
        """Leave an empty collection, or none if the documents that follow make one."""
        name = wanted["collectionName"]
        self._plain.pop((wanted["databaseName"], name), None)
        # This also drops the counters of Queryable Encryption, which determine the tags of the next values.
        options = wanted.get("createOptions", {})
        database.drop_collection(name, encrypted_fields=options.get("encryptedFields"))
        if "createOptions" in wanted or not wanted["documents"]:
            database.create_collection(name, check_exists=False, write_concern=self._last_write, **options)

    def forget(self, leaves: Leaves) -> None:
        """Note the possible changes of a case to the collections that `load` fills."""
        if leaves is Leaves.COLLECTIONS:
            self._plain = dict.fromkeys(self._plain)
        elif leaves is Leaves.NOTHING:
            self._plain = {}

    def documents(self, database_name: str, collection_name: str) -> list[Any]:
        """Return all documents of a collection, by `_id`."""
        concern = self._driver.module("read_concern").ReadConcern("local")
        preference = self._driver.module("").ReadPreference.PRIMARY
        collection = self._client[database_name].get_collection(
            collection_name, read_concern=concern, read_preference=preference
        )
        return collection.find(sort=[("_id", 1)]).to_list()

    def collection_names(self, database_name: str) -> list[str]:
        """Return the names of a database's collections."""
        names: list[str] = self._client[database_name].list_collection_names()
        return names

    def index_names(self, database_name: str, collection_name: str) -> list[str]:
        """Return the names of a collection's indexes."""
        return list(self._client[database_name][collection_name].index_information())

    def set_fail_point(self, fail_point: Mapping[str, Any], address: str) -> None:
        """Set a fail point on one member."""
        self._member(address).admin.command(fail_point)

    def clear_fail_points(self, names: set[str]) -> None:
        """Turn fail points off on every member."""
        if _LATE_FAIL_POINT in names:
            self._wait_for_writes()
        for name in names:
            for member in self._server.members:
                self._member(member.address).admin.command({"configureFailPoint": name, "mode": "off"})

    def _wait_for_writes(self) -> None:
        """Return when no client has a write in progress."""
        writes = {"active": True, "clientMetadata": {"$exists": True}, "ns": {"$not": _SERVERS_OWN}}
        pipeline = [{"$currentOp": {"allUsers": True}}, {"$match": writes}]
        deadline = time.monotonic() + 60
        while found := self._client.admin.aggregate(pipeline).to_list():
            assert time.monotonic() < deadline, f"these writes do not end: {found}"
            time.sleep(0.005)

    def kill_sessions(self) -> None:
        """End all transactions that a failed case left open."""
        self._client.admin.command("killAllSessions", [])

    def close(self) -> None:
        """Close the clients; the server belongs to others."""
        for client in (self._client, *self._direct.values()):
            client.close()

    def _member(self, address: str) -> Any:
        if address not in self._direct:
            member = next(one for one in self._server.members if one.address == address)
            self._direct[address] = self._driver.module("").MongoClient(member.uri)
        return self._direct[address]
