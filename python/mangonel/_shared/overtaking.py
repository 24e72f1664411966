"""Overtakes lost writes, which may reach the server after a write that undoes or repeats them.

Retryable writes are numbered in their session, and a server that has begun one refuses lower numbers. So a write that
matches no document is sent in the session of the lost one, with the next number. Once it is answered, the lost write
has been carried out or never will be. Spec: retryable-writes.
"""

from __future__ import annotations

from mangonel._core import KIND_RETRYABLE_WRITE, READ_APPLY, session_after
from mangonel._shared.operation import build_operation
from mangonel._shared.settings import session_handle
from mangonel.errors import OperationFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Another write of the session has this number or a higher one: it was faster.
_TRANSACTION_TOO_OLD = 225


async def overtake_flow(
    collection: Any, port: Any, lost: tuple[bytes, int], filter: Mapping[str, Any], session: Any = None
) -> None:
    """Have the server refuse a lost write from now on, if it has not carried it out yet.

    Args:
        collection, port, session: those of the lost write; an implicit session is None.
        lost: its session's id and its number.
        filter: selects the shards that it may reach.

    Raises:
        PyMongoError: it is still unknown whether the write will be carried out.
    """
    _, database, name, codec, *_ = collection._context
    command = {
        "update": name,
        "ordered": True,
        "updates": [{"q": {**filter, "$nor": [{}]}, "u": {"$unset": {"_": ""}}}],
        # The write changes nothing, so there is no majority to wait for.
        "writeConcern": {"w": 1},
    }
    operation = build_operation(
        command,
        database=database,
        codec=codec,
        kind=KIND_RETRYABLE_WRITE,
        reading=READ_APPLY,
        session=session_handle(session) if session else session_after(collection._client._core, lost),
    )
    try:
        await port.arun(operation)
    except OperationFailure as error:
        if error.code != _TRANSACTION_TOO_OLD:
            raise
