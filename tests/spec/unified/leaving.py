"""Track the data that a case leaves unchanged, so that the next case receives only the missing data.

A new collection costs a server twenty times what a find costs it, and most cases begin with the same documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spec.unified.deployments import Leaves
from spec.unified.suites import Case

__all__ = ["left_by"]

# Operations by the data that they leave unchanged; some depend on inner operations. An unlisted one may change
# anything.
_OPERATIONS = {
    Leaves.ALL: (
        "find findOne countDocuments estimatedDocumentCount distinct aggregate createChangeStream createFindCursor"
        " iterateOnce iterateUntilDocumentOrError close listCollections listCollectionNames listDatabases"
        " listDatabaseNames listIndexes listIndexNames download downloadByName getKey getKeyByAltName getKeys"
        " decrypt createEntities failPoint startTransaction commitTransaction abortTransaction withTransaction"
        " endSession runOnThread wait waitForEvent waitForThread assertEventCount assertCollectionExists"
        " assertCollectionNotExists assertDifferentLsidOnLastTwoCommands assertIndexExists assertIndexNotExists"
        " assertNumberConnectionsCheckedOut assertSameLsidOnLastTwoCommands assertSessionDirty"
        " assertSessionNotDirty assertSessionPinned assertSessionTransactionState assertSessionUnpinned"
        " assertTopologyType recordTopologyDescription"
    ),
    Leaves.COLLECTIONS: (
        "insertOne insertMany updateOne updateMany replaceOne deleteOne deleteMany bulkWrite clientBulkWrite"
        " findOneAndDelete findOneAndReplace findOneAndUpdate"
    ),
}
_LEFT = {name: leaves for leaves, names in _OPERATIONS.items() for name in names.split()}
_READING_COMMANDS = frozenset(("ping", "hello", "ismaster", "isMaster", "find", "listCollections"))
_WRITING_STAGES = ("$out", "$merge")


def left_by(case: Case) -> Leaves:
    """Return the data that a case leaves unchanged, whether it passes or fails."""
    found = set(map(_left_by, _operations(case.test["operations"])))
    return next((least for least in (Leaves.NOTHING, Leaves.COLLECTIONS) if least in found), Leaves.ALL)


def _left_by(operation: Mapping[str, Any]) -> Leaves:
    arguments = operation.get("arguments", {})
    name = operation["name"]
    if name == "runCommand" and arguments["commandName"] in _READING_COMMANDS:
        return Leaves.ALL
    if any(stage in step for step in arguments.get("pipeline", ()) for stage in _WRITING_STAGES):
        return Leaves.NOTHING
    return _LEFT.get(name, Leaves.NOTHING)


def _operations(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the operations in a part of a case, including those of callbacks and threads."""
    if isinstance(value, Mapping):
        if "object" in value and isinstance(value.get("name"), str):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _operations(each)
