"""Types of the Rust half of mangonel. Hand-written; `mypy.stubtest` compares it with the compiled module."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Literal, Self, TypeVar, final, overload

from typing_extensions import Buffer, disjoint_base

from mangonel.bson.codec_options import CodecOptions

# PyO3 lists every name of the module, so each addition below belongs here too.
__all__ = [
    "CONNECT",
    "DONE",
    "KIND_READ",
    "KIND_READ_ONCE",
    "KIND_RETRYABLE_WRITE",
    "KIND_WRITE",
    "READ",
    "READ_ANSWER",
    "READ_APPLY",
    "READ_BATCH",
    "READ_DATABASES",
    "READ_DOCUMENT",
    "READ_FIRST",
    "READ_RAW",
    "READ_RAW_BATCH",
    "READ_UNCHECKED",
    "READ_VALUE",
    "READ_WITH_BATCH",
    "READ_WRITE",
    "REPLIES_EXHAUST",
    "REPLIES_NONE",
    "REPLIES_ONE",
    "SLEEP",
    "WAIT",
    "WRITE",
    "AsyncCursorBase",
    "Batch",
    "BatchCursor",
    "BlockingCursor",
    "Codec",
    "Core",
    "DocumentSource",
    "Exchange",
    "ImplicitSession",
    "Link",
    "NamespacedSource",
    "ObjectId",
    "Operation",
    "_set_dict_layout",
    "decode",
    "decode_all",
    "decode_fields",
    "encode",
    "insert_one",
    "receive_ready",
    "reseed_object_ids",
    "send_some",
    "transfer",
]

_DocumentType = TypeVar("_DocumentType", bound=Mapping[str, Any])

@disjoint_base
class ObjectId:
    _type_marker: ClassVar[int]
    def __init__(self, oid: str | ObjectId | bytes | None = None) -> None: ...
    @classmethod
    def from_datetime(cls, generation_time: datetime) -> ObjectId: ...
    @classmethod
    def is_valid(cls, oid: Any) -> bool: ...
    @property
    def binary(self) -> bytes: ...
    @property
    def generation_time(self) -> datetime: ...
    def __getstate__(self) -> bytes: ...
    def __setstate__(self, value: Any) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __lt__(self, other: Any, /) -> bool: ...
    def __le__(self, other: Any, /) -> bool: ...
    def __gt__(self, other: Any, /) -> bool: ...
    def __ge__(self, other: Any, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Codec:
    def __new__(cls, codec_options: CodecOptions[Any]) -> Codec: ...
    @property
    def codec_options(self) -> CodecOptions[Any]: ...

def encode(
    document: Mapping[str, Any], check_keys: bool = False, codec_options: CodecOptions[Any] | None = None
) -> bytes: ...
@overload
def decode(data: Buffer, codec_options: None = None) -> dict[str, Any]: ...
@overload
def decode(data: Buffer, codec_options: CodecOptions[_DocumentType]) -> _DocumentType: ...
@overload
def decode_all(data: Buffer, codec_options: None = None) -> list[dict[str, Any]]: ...
@overload
def decode_all(data: Buffer, codec_options: CodecOptions[_DocumentType]) -> list[_DocumentType]: ...
def decode_fields(data: Buffer, codec_options: CodecOptions[Any] | None = None) -> dict[str, Any]: ...
def reseed_object_ids() -> None: ...

# For tests: switches the use of the interpreter's dict layout; tells whether it is on.
def _set_dict_layout(is_on: bool) -> bool: ...

# What a face is to do next.
DONE: int
WRITE: int
READ: int
CONNECT: int
WAIT: int
SLEEP: int

# How a reply is read, for `Operation(reading=...)`.
READ_DOCUMENT: int
READ_UNCHECKED: int
READ_FIRST: int
READ_BATCH: int
READ_RAW_BATCH: int
READ_VALUE: int
READ_WRITE: int
READ_ANSWER: int
READ_RAW: int
READ_APPLY: int
READ_WITH_BATCH: int
READ_DATABASES: int

# What may be done with a command after a failure, for `Operation(kind=...)`.
KIND_READ: int
KIND_READ_ONCE: int
KIND_RETRYABLE_WRITE: int
KIND_WRITE: int

# How many replies a command has, for `Operation(replies=...)`.
REPLIES_ONE: int
REPLIES_NONE: int
REPLIES_EXHAUST: int

@final
class Core:
    def __new__(cls, options: dict[str, Any], address: str, seed: bytes) -> Core: ...
    @property
    def is_closed(self) -> bool: ...
    def set_metadata(self, metadata: Mapping[str, Any]) -> None: ...
    def begin(self, operation: Operation, shard: int) -> Exchange: ...
    def open_shard(self) -> int: ...
    def close_shard(self, shard: int) -> None: ...
    def close(self) -> None: ...
    def restart_in_child(self, seed: bytes) -> list[Link]: ...
    def link_lost(self, link: Link) -> None: ...
    def release_pinned(self, link: int, is_drained: bool) -> None: ...
    def drain_sessions(self) -> list[bytes]: ...
    def pool_sizes(self, shard: int) -> tuple[int, int, int, int]: ...
    def hello(self) -> dict[str, Any] | None: ...

@final
class Exchange(Buffer):
    @property
    def step(self) -> int: ...
    # None unless the step is WRITE or READ; a face asks for it in those steps only.
    @property
    def link(self) -> Link | Any: ...
    @property
    def expects_reply(self) -> bool: ...
    @property
    def line_timeout(self) -> float | None: ...
    @property
    def time_left(self) -> float | None: ...
    def set_waker(self, waker: Callable[[], object]) -> None: ...
    def handle_connected(self, transport: Any, fd: int) -> Link: ...
    def handle_reply(self) -> None: ...
    def handle_sent(self) -> None: ...
    def handle_protocol_error(self, message: str) -> None: ...
    def handle_network_error(self, error: BaseException, timed_out: bool = False) -> None: ...
    def handle_wake(self) -> None: ...
    def handle_timeout(self) -> None: ...
    def handle_link_lost(self) -> None: ...
    def close(self) -> None: ...
    def result(self) -> Any: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...

@final
class Link(Buffer):
    # The face's own: what to close, the descriptor of a plain socket or -1, and asyncio's future.
    transport: Any
    fd: int
    waiter: Any
    @property
    def is_quiet(self) -> bool: ...
    @property
    def has_message(self) -> bool: ...
    @property
    def is_stale(self) -> bool: ...
    @property
    def number(self) -> int: ...
    def received(self, count: int) -> bool: ...
    def feed(self, data: bytes) -> bool: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...

@final
class Operation:
    # `session`: that of a cursor, False for none, None for an implicit one. `answer`: see READ_ANSWER and READ_APPLY.
    def __new__(
        cls,
        database: str,
        command: Mapping[str, Any],
        codec: Codec,
        kind: int,
        reading: int,
        replies: int = 0,
        read_preference: Mapping[str, Any] | None = None,
        session: ImplicitSession | Literal[False] | None = None,
        pinned: int | None = None,
        is_under_way: bool = False,
        answer: Any = None,
    ) -> Operation: ...
    @property
    def size(self) -> int: ...

@final
class DocumentSource:
    def __new__(
        cls,
        documents: Iterable[Mapping[str, Any]],
        codec: Codec,
        identifier: str,
        adds_ids: bool,
        max_document_size: int,
    ) -> DocumentSource: ...
    @property
    def ids(self) -> list[Any]: ...
    def next_operation(
        self,
        database: str,
        command: Mapping[str, Any],
        kind: int,
        reading: int,
        replies: int,
        max_count: int,
        max_size: int,
        session: ImplicitSession | Literal[False] | None = None,
    ) -> tuple[Operation, int] | None: ...

@final
class NamespacedSource:
    def __new__(
        cls,
        writes: list[dict[str, Any]],
        namespaces: list[str],
        codec: Codec,
        max_write_size: int,
    ) -> NamespacedSource: ...
    def next_operation(
        self,
        database: str,
        command: Mapping[str, Any],
        kind: int,
        reading: int,
        replies: int,
        max_count: int,
        max_size: int,
    ) -> tuple[Operation, int] | None: ...

@final
class ImplicitSession: ...

@final
class Batch:
    @property
    def id(self) -> int: ...
    @property
    def namespace(self) -> str: ...
    @property
    def session(self) -> ImplicitSession | None: ...
    @property
    def pinned(self) -> int | None: ...
    @property
    def post_batch_resume_token(self) -> bytes | None: ...
    @property
    def is_empty(self) -> bool: ...
    def raw(self) -> bytes: ...
    def json(self, mode: int) -> bytes: ...
    def drain_into(self, documents: list[Any], limit: int | None = None) -> int: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...

@disjoint_base
class BatchCursor:
    _batch: Batch | None
    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self: ...

class BlockingCursor(BatchCursor):
    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...

class AsyncCursorBase(BatchCursor):
    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Any: ...

# `answer`: called with the `_id` and whether the write is acknowledged; what it returns is the operation's result.
def insert_one(
    database: str,
    command: Mapping[str, Any],
    document: Any,
    codec: Codec,
    replies: int,
    max_document_size: int,
    answer: Callable[[Any, bool], object],
) -> Operation: ...
def transfer(exchange: Exchange) -> None: ...
def send_some(exchange: Exchange, offset: int) -> int: ...
def receive_ready(link: Link) -> bool: ...
