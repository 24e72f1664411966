"""Overtakes lost saves: a save with unknown outcome may still reach the server, even after a save that repeats it.

Retryable writes are numbered in their session, and a server that has begun one refuses those with lower numbers. So
another write, which matches no document, is sent in the session of the lost one, with the next number. Once it is
answered, the lost write has been carried out or never will be. Spec: retryable-writes.
"""

from __future__ import annotations

from typing import Any

from mangonel import _core
from mangonel._core import KIND_RETRYABLE_WRITE, READ_APPLY
from mangonel._shared.operation import build_operation
from mangonel.errors import OperationFailure
from mangonel.odm.connections.place import Place
from mangonel.odm.encryption.saving import key_filter
from mangonel.odm.model.encrypted import declared
from mangonel.odm.model.refs import stored_id
from mangonel.odm.store.filters import shard_filter

# Another write of the session has this number or a higher one: a copy of the document was faster.
_TRANSACTION_TOO_OLD = 225


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
        await _send_flow(document, place, lost)
    # Each shard has its own numbers, and another document of the bulk write may be on another one.
    if done is not None and not document.__shard_key__:
        done.add(lost)
    _core.odm_overtake(document)


async def _send_flow(document: Any, place: Place, lost: tuple[bytes, int]) -> None:
    """Send a write that matches nothing, in the session of a lost one, to the servers that have the document."""
    _, database, name, codec, *_ = place.collection._context
    query: dict[str, Any] = {"_id": stored_id(document.id), "$nor": [{}]}
    if document.__shard_key__:
        query |= shard_filter(document)
    if declared:
        query |= key_filter(document)
    command = {
        "update": name,
        "ordered": True,
        "updates": [{"q": query, "u": {"$unset": {"_": ""}}}],
        # The write changes nothing, so there is no majority to wait for.
        "writeConcern": {"w": 1},
    }
    operation = build_operation(
        command,
        database=database,
        codec=codec,
        kind=KIND_RETRYABLE_WRITE,
        reading=READ_APPLY,
        session=_core.session_after(place.collection._client._core, lost),
    )
    try:
        await place.port.arun(operation)
    except OperationFailure as error:
        if error.code != _TRANSACTION_TOO_OLD:
            raise
