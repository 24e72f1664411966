"""The public classes: each joins a definition with a face, and is loaded at first use.

`api.pyi` is written by `tools/stubs.py`; run `make stubs` after changing a signature.
"""

from __future__ import annotations

from mangonel import _light

# Module -> the names that it defines.
_MODULES = {
    "_api.blocking_client": "MongoClient",
    "_api.blocking": (
        "ChangeStream ClientSession ClusterChangeStream Collection CollectionChangeStream CommandCursor "
        "Cursor Database DatabaseChangeStream RawBatchCommandCursor RawBatchCursor"
    ),
    "_api.aio": (
        "AsyncChangeStream AsyncClientSession AsyncClusterChangeStream AsyncCollection "
        "AsyncCollectionChangeStream AsyncCommandCursor AsyncCursor AsyncDatabase "
        "AsyncDatabaseChangeStream AsyncMongoClient AsyncRawBatchCommandCursor AsyncRawBatchCursor"
    ),
    "_api.partitions": "AsyncPartition Partition",
    "_core": "AsyncCursorBase BlockingCursor",
    "_faces.blocking": "BlockingPort",
    "_shared.coroutine_functions": "coroutine_functions",
    "_shared.cursors.iteration": "AsyncChanges AsyncIteration BlockingChanges BlockingIteration",
    "_shared.cursors.plain_cursor": "CursorMeta",
    "_shared.sessions.contexts": (
        "AsyncBinding AsyncSession AsyncTransaction BlockingSession BlockingTransaction"
    ),
}
_HOMES = {name: f"mangonel.{module}" for module, names in _MODULES.items() for name in names.split()}

__getattr__ = _light.late_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
