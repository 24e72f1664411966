"""Shared by all kinds of writes: decoding of replies, the sizes that the server accepts, and a few writes alone."""

from __future__ import annotations

import itertools

from mangonel import _core
from mangonel._core import KIND_RETRYABLE_WRITE, KIND_SELECTION, KIND_WRITE, READ_WRITE, REPLIES_ONE
from mangonel._faces.port import LARGEST_MESSAGE
from mangonel._light import LateClass
from mangonel._shared.base import CommandSource
from mangonel._shared.operation import build_operation
from mangonel._shared.settings import BOUND
from mangonel.common import MAX_BSON_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from mangonel._shared.base import CollectionContext
    from mangonel._shared.client.client import _MongoClient
    from mangonel._shared.collection.bulk_run import BulkRunner
    from mangonel.bson.codec_options import CodecOptions

# How much larger a command may be than its documents; the server's own allowance.
COMMAND_OVERHEAD = 16_382
# The largest command whose documents are in its body.
LARGEST_COMMAND = MAX_BSON_SIZE + COMMAND_OVERHEAD
# So many writes at most are sent without a runner: among more, its cost is not seen.
FEW_WRITES = 100
# What came of writes that were not sent yet.
UNTOLD: Any = object()
# The fields of a reply to writes that were not all applied, or not confirmed.
TROUBLES = frozenset(("writeErrors", "writeConcernError"))
# The field of each command that holds its writes.
WRITE_FIELDS = {"insert": "documents", "update": "updates", "delete": "deletes"}
# After a write concern error with one of these codes a bulk stops: the member may be stepping down.
HALTING_CODES = _core.RETRYABLE_CODES
# The id of codec options -> those options, kept alive by the entry, and the codec for write replies.
_codecs: dict[int, tuple[CodecOptions[Any], _core.Codec]] = {}
_MOST_CODECS = 16
# Operation ids that several commands share in events: above those of single commands, which are their request ids.
new_group = itertools.count(1 << 40).__next__


class WritingSource(CommandSource):
    """Builds writes and decodes the replies to them."""

    _client: _MongoClient[Any]
    _name: str
    _context: CollectionContext
    # Made at the first write.
    _reply_codec: _core.Codec | None
    # Imported on demand: a program that only inserts and finds pays nothing for it.
    _bulk_runner: type[BulkRunner] = LateClass("mangonel._shared.collection.bulk_run", "BulkRunner")

    def _sends_alone(self) -> bool:
        """Return whether `operation_alone` can send writes that have no options."""
        client = self._client
        return (
            not BOUND
            and self._reply_codec is not None
            and self._write_concern._acknowledged
            and client._tracer is None
            and client._port.largest_batch == LARGEST_MESSAGE
        )


def write_codec(options: CodecOptions[Any]) -> _core.Codec:
    """Return the codec for writes: replies become dicts, and values in them that Python cannot hold are tolerated."""
    known = _codecs.get(id(options))
    if known is not None:
        return known[1]
    tolerant: dict[str, Any] = {"document_class": dict, "unicode_decode_error_handler": "replace"}
    # PyMongo's options lack the number.
    if getattr(options, "_datetime_conversion", None) == 1:
        tolerant["datetime_conversion"] = 4
    codec = _core.Codec(options._replace(**tolerant))
    if len(_codecs) >= _MOST_CODECS:
        _codecs.clear()
    _codecs[id(options)] = (options, codec)
    return codec


def refuse_size(size: int) -> NoReturn:
    """Raise DocumentTooLarge for a command that is too large for any server. Nothing was sent."""
    from mangonel.errors import DocumentTooLarge

    raise DocumentTooLarge(f"expected a command of at most {LARGEST_COMMAND} bytes, got {size}; split it")


def check_unanswered_size(
    statement: dict[str, Any], operation: _core.Operation, options: CodecOptions[Any]
) -> None:
    """Refuse an unacknowledged update that the server would not apply.

    Raises:
        DocumentTooLarge: the statement exceeds 16 MiB. Nothing was sent.
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


def are_dicts(documents: list[Any]) -> bool:
    """Return whether there are documents and all are dicts, as is usual; nothing else about them needs a check."""
    for document in documents:
        if type(document) is not dict:
            return False
    return bool(documents)


def operation_alone(
    collection: WritingSource,
    limits: _core.ServerLimits | None,
    command: str,
    writes: list[Any],
    ordered: bool,
    is_retryable: bool = True,
) -> tuple[_core.Operation, _core.DocumentSource] | None:
    """Return the operation that sends a few writes by one command, and their encoder; without a runner.

    A runner costs as much as the command. Anything but a plain reply is for a runner to handle, with what came of the
    operation as its `told`, and the same limits. None: the writes need several commands, or no server is known yet.
    """
    codec = collection._reply_codec
    if limits is None or codec is None:
        return None
    _, database, name, _, _, concern, _ = collection._context
    is_insert = command == "insert"
    # As for a runner's commands.
    largest = limits.max_message_size + (0 if is_insert else COMMAND_OVERHEAD)
    source = _core.DocumentSource(writes, codec, WRITE_FIELDS[command], is_insert, largest)
    fields: dict[str, Any] = {command: name, "ordered": ordered}
    if concern._document:
        fields["writeConcern"] = concern._document
    kind = KIND_RETRYABLE_WRITE if is_retryable else KIND_WRITE
    write = _core.WriteCommand(database, fields, codec, kind, READ_WRITE, REPLIES_ONE)
    room = limits.max_message_size - COMMAND_OVERHEAD
    made = source.next_operation(write, limits.max_write_batch_size, room)
    return None if made is None or made[1] != len(writes) else (made[0], source)


async def server_limits_flow(
    client: _MongoClient[Any], name: str, group: int | None = None
) -> _core.ServerLimits:
    """Return the size limits of the server; wait for a writable server if none is known yet.

    Args:
        client: the client.
        name: name of the first command, for the log of a server selection that waits or fails.
        group: group id of the bulk write, from `new_group`; None for a single write.
    """
    while (limits := client._core.limits()) is None:
        # Selects a server and sends nothing.
        selection = build_operation({name: 1}, database="admin", codec=client._codec, kind=KIND_SELECTION)
        selection.silence()
        if group is not None:
            selection.join(group)
        await client._port.arun(selection)
    return limits
