"""What all kinds of writes share: how replies are decoded, and what the server says it takes. Builds no write."""

from __future__ import annotations

import itertools

from mangonel import _core
from mangonel._core import KIND_SELECTION
from mangonel._shared.operation import build_operation
from mangonel.common import MAX_BSON_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mangonel._shared.client.client import _MongoClient
    from mangonel.bson.codec_options import CodecOptions

# What a command may be larger than the documents in it; the server's own allowance.
COMMAND_OVERHEAD = 16_382
# After a write concern error with one of these a bulk sends nothing more: the member may be leaving its post.
HALTING_CODES = _core.RETRYABLE_CODES
# Codecs of write replies by the address of the options they were made for, which each entry keeps alive.
_codecs: dict[int, tuple[CodecOptions[Any], _core.Codec]] = {}
_MOST_CODECS = 16
# Above the ids of single operations, which are those of their requests.
_groups = itertools.count(1 << 40)


def write_codec(options: CodecOptions[Any]) -> _core.Codec:
    """Return the codec for writes: replies become dicts, and a broken string in an error message breaks nothing."""
    known = _codecs.get(id(options))
    if known is not None:
        return known[1]
    codec = _core.Codec(options._replace(document_class=dict, unicode_decode_error_handler="replace"))
    if len(_codecs) >= _MOST_CODECS:
        _codecs.clear()
    _codecs[id(options)] = (options, codec)
    return codec


def new_group() -> int:
    """Return an id under which listeners see several commands as one operation."""
    return next(_groups)


def check_command_size(operation: _core.Operation) -> None:
    """Refuse a command that no server takes.

    Raises:
        DocumentTooLarge: it is over 16 MiB and the allowance for a command's own fields. Nothing was sent.
    """
    size = operation.size
    if size > MAX_BSON_SIZE + COMMAND_OVERHEAD:
        from mangonel.errors import DocumentTooLarge

        raise DocumentTooLarge(
            f"expected a command of at most {MAX_BSON_SIZE + COMMAND_OVERHEAD} bytes, got {size}; split it"
        )


def check_unanswered_size(
    statement: dict[str, Any], operation: _core.Operation, options: CodecOptions[Any]
) -> None:
    """Refuse an update that the server would not do, where nobody asks it how it went.

    Raises:
        DocumentTooLarge: the statement is over 16 MiB. Nothing was sent.
    """
    if operation.size <= MAX_BSON_SIZE:
        return
    from mangonel.bson import encode
    from mangonel.errors import DocumentTooLarge

    size = len(encode(statement, codec_options=options))
    if size > MAX_BSON_SIZE:
        raise DocumentTooLarge(
            f"expected a statement of at most {MAX_BSON_SIZE} bytes for an unacknowledged write, got {size}"
        )


async def server_facts_flow(client: _MongoClient[Any], name: str, group: int | None = None) -> dict[str, Any]:
    """Return what the server said of itself; wait for one that takes writes if none is known yet.

    Args:
        client: whose server.
        name: of the command that is to be sent first, for the log of a search that waits or fails.
        group: of the bulk write, from `new_group`; None for a single write.
    """
    facts: dict[str, Any] | None = client._core.hello()
    if facts is None:
        # Selects a server and sends nothing.
        selection = build_operation({name: 1}, database="admin", codec=client._codec, kind=KIND_SELECTION)
        selection.silence()
        if group is not None:
            selection.join(group)
        await client._port.arun(selection)
        facts = client._core.hello()
    return facts if facts is not None else {}
