"""Overtakes lost saves, so that none of them is carried out after a save that repeats it."""

from __future__ import annotations

from typing import Any

from mangonel import _core
from mangonel._shared import overtaking
from mangonel.odm.connections.place import Place
from mangonel.odm.encryption.saving import key_filter
from mangonel.odm.model.encrypted import declared
from mangonel.odm.model.refs import stored_id
from mangonel.odm.store.filters import shard_filter


async def overtake_flow(document: Any, place: Place, done: set[tuple[bytes, int]] | None = None) -> None:
    """Have the server refuse the lost save of a document from now on, if it has not carried it out yet.

    Args:
        document: a document; without a lost save nothing is sent.
        place: where it is stored.
        done: the lost writes of a bulk write that were overtaken already; this one is added.

    Raises:
        PyMongoError: no answer, or a refusal. It is still unknown whether the save will be carried out.
    """
    lost = _core.odm_lost(document)
    if lost is None:
        return
    if done is None or lost not in done:
        # It must reach the servers that have the document.
        query: dict[str, Any] = {"_id": stored_id(document.id)}
        if document.__shard_key__:
            query |= shard_filter(document)
        if declared:
            query |= key_filter(document)
        await overtaking.overtake_flow(place.collection, place.port, lost, query)
    # Each shard has its own numbers, and another document of the bulk write may be on another one.
    if done is not None and not document.__shard_key__:
        done.add(lost)
    _core.odm_overtake(document)
