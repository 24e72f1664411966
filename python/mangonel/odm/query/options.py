"""Options that operations pass to the driver, by name, for type checkers. Not imported at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict


class SessionOptions(TypedDict, total=False):
    """Options of the driver's `start_session`."""

    causal_consistency: bool | None
    default_transaction_options: Any
    snapshot: bool | None


class TransactionOptions(TypedDict, total=False):
    """Options of the driver's `start_transaction`."""

    read_concern: Any
    write_concern: Any
    read_preference: Any
    max_commit_time_ms: int | None


class FindOptions(TypedDict, total=False):
    """Options of the driver's `find`, and of its collection."""

    read_preference: Any
    read_concern: Any
    write_concern: Any
    let: Mapping[str, Any] | None
    no_cursor_timeout: bool
    cursor_type: int
    allow_partial_results: bool
    oplog_replay: bool
    max: Any
    min: Any
    return_key: bool | None
    show_record_id: bool | None
    prefetch: bool
    sort: Any
    limit: int
    skip: int
    hint: Any
    comment: Any
    collation: Any
    max_time_ms: int | None
    batch_size: int
    allow_disk_use: bool | None


class AggregateOptions(TypedDict, total=False):
    """Options of the driver's `aggregate`."""

    let: Mapping[str, Any] | None
    comment: Any
    allowDiskUse: bool
    batchSize: int
    bypassDocumentValidation: bool
    collation: Any
    hint: Any
    maxTimeMS: int
    maxAwaitTimeMS: int
    session: Any


class WatchOptions(TypedDict, total=False):
    """Options of the driver's `watch`."""

    full_document_before_change: str | None
    resume_after: Mapping[str, Any] | None
    start_after: Mapping[str, Any] | None
    start_at_operation_time: Any
    max_await_time_ms: int | None
    batch_size: int | None
    collation: Any
    comment: Any
    show_expanded_events: bool | None
    session: Any
