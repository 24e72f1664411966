"""The find command: checks the arguments of `find` and turns them into fields. Sends nothing.

`find_one`, the cursor of a query and the mapper make their commands here.
Spec: crud (find), find-getmore-killcursors-commands.
"""

from __future__ import annotations

from mangonel._light import Mapping
from mangonel._options.index_keys import bounds, index_document
from mangonel.collation import validate_collation_or_none
from mangonel.errors import InvalidOperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from mangonel.typings import _CollationIn, _IndexKeyHint, _IndexList

# Flags with their bits in the old wire protocol, which `CursorType` and `add_option` still use.
TAILABLE = 2
OPLOG_REPLAY = 8
NO_CURSOR_TIMEOUT = 16
AWAIT_DATA = 32
EXHAUST = 64
PARTIAL = 128
FLAG_FIELDS = {
    TAILABLE: "tailable",
    OPLOG_REPLAY: "oplogReplay",
    NO_CURSOR_TIMEOUT: "noCursorTimeout",
    AWAIT_DATA: "awaitData",
    PARTIAL: "allowPartialResults",
}
_CURSOR_TYPES = (0, TAILABLE, TAILABLE | AWAIT_DATA, EXHAUST)

# The query modifiers of the old wire protocol, and their current fields.
_MODIFIERS = {
    "$orderby": "sort",
    "$hint": "hint",
    "$comment": "comment",
    "$maxScan": "maxScan",
    "$max": "max",
    "$min": "min",
    "$returnKey": "returnKey",
    "$showDiskLoc": "showRecordId",
    "$showRecordId": "showRecordId",
    "$maxTimeMS": "maxTimeMS",
    "$snapshot": "snapshot",
}
# The fields that the operation expresses in other ways.
_DROPPED = ("$query", "$readPreference")

# The positional arguments of find, in order; the last three are not fields of the command.
FIND_ARGUMENTS = (
    "projection",
    "skip",
    "limit",
    "no_cursor_timeout",
    "cursor_type",
    "sort",
    "allow_partial_results",
    "oplog_replay",
    "batch_size",
    "collation",
    "hint",
    "max_scan",
    "max_time_ms",
    "max",
    "min",
    "return_key",
    "show_record_id",
    "snapshot",
    "comment",
    "session",
    "allow_disk_use",
    "let",
    "prefetch",
    "into",
)


def by_name(arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `find` after the filter, by name.

    Raises:
        TypeError: there are more arguments than `find` has, or one is passed twice.
    """
    if len(arguments) > len(FIND_ARGUMENTS):
        raise TypeError(
            f"expected at most {len(FIND_ARGUMENTS)} arguments beside the filter, got {len(arguments)}"
        )
    return dict(zip(FIND_ARGUMENTS, arguments, strict=False), **named)


def find_command(
    name: str,
    filter: Mapping[str, Any],
    projection: Mapping[str, Any] | Sequence[str] | None = None,
    skip: int = 0,
    limit: int = 0,
    no_cursor_timeout: bool = False,
    cursor_type: int = 0,
    sort: _IndexList | None = None,
    allow_partial_results: bool = False,
    oplog_replay: bool = False,
    batch_size: int = 0,
    collation: _CollationIn | None = None,
    hint: _IndexKeyHint | None = None,
    max_scan: int | None = None,
    max_time_ms: int | None = None,
    max: _IndexList | None = None,
    min: _IndexList | None = None,
    return_key: bool | None = None,
    show_record_id: bool | None = None,
    snapshot: bool | None = None,
    comment: Any | None = None,
    allow_disk_use: bool | None = None,
    let: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the find command of a collection, without a read concern.

    Args:
        name: the collection.
        filter: query document; `$query` and its modifiers become fields of the command, since servers no longer accept
            them.
        others: as for `find`.

    Raises:
        TypeError, ValueError: an argument has the wrong type or range.
        InvalidOperation: an exhaust cursor has a limit, or the filter has `$explain`.

    Example:
        >>> find_command("orders", {"total": {"$gt": 5}}, sort=[("_id", -1)], limit=-1)
        {'find': 'orders', 'filter': {'total': {'$gt': 5}}, 'sort': {'_id': -1}, 'limit': 1, 'singleBatch': True}
    """
    command: dict[str, Any] = {"find": name, "filter": filter}
    if "$query" in filter:
        _unwrap(command, filter)
    if sort:
        # Unlike `sort()`, and as in PyMongo, this accepts no single key, and an empty value means no sorting.
        command["sort"] = index_document(sort)
    if projection:
        command["projection"] = (
            {**projection} if type(projection) is dict else projection_document(projection)
        )
    elif projection is not None:
        projection_document(projection)
    if skip or type(skip) is not int:
        if not isinstance(skip, int):
            raise TypeError(f"skip must be an instance of int, not {type(skip)}")
        if skip:
            command["skip"] = skip
    if limit or type(limit) is not int:
        if not isinstance(limit, int):
            raise TypeError(f"limit must be an instance of int, not {type(limit)}")
        if cursor_type == EXHAUST and limit:
            raise InvalidOperation("Can't use limit and exhaust together.")
    if type(batch_size) is not int or batch_size < 0:
        check_size(batch_size)
    if limit or batch_size:
        set_bounds(command, limit, batch_size)
    # Almost every query has the defaults, so each is checked only if it differs.
    if not (no_cursor_timeout is allow_partial_results is oplog_replay is False) or cursor_type != 0:
        _set_flags(command, cursor_type, no_cursor_timeout, allow_partial_results, oplog_replay)
    if hint is not None and (index := hint if isinstance(hint, str) else index_document(hint)):
        command["hint"] = index
    if collation is not None:
        rules = collation if type(collation) is dict else validate_collation_or_none(collation)
        if rules:
            command["collation"] = rules
    if comment is not None:
        command["comment"] = comment
    if max:
        command["max"] = dict(max) if type(max) is list else bounds(max)
    if min:
        command["min"] = dict(min) if type(min) is list else bounds(min)
    if max_time_ms is not None:
        command["maxTimeMS"] = max_time_ms if type(max_time_ms) is int else milliseconds(max_time_ms)
    if return_key is not None:
        command["returnKey"] = return_key
    if show_record_id is not None:
        command["showRecordId"] = show_record_id
    if snapshot is not None:
        command["snapshot"] = snapshot
    if max_scan:
        command["maxScan"] = max_scan
    if allow_disk_use is not None:
        if not isinstance(allow_disk_use, bool):
            raise TypeError(f"allow_disk_use must be a bool, not {type(allow_disk_use)}")
        command["allowDiskUse"] = allow_disk_use
    if let is not None:
        if type(let) is not dict and not isinstance(let, Mapping):
            raise TypeError(f"let must be an instance of dict or of another Mapping, not {type(let)}")
        # Left out if empty: servers older than 5.0 do not support variables.
        if let:
            command["let"] = let
    return command


# Errors about wrong keywords show this name, since `find_one` passes its keywords on.
find_command.__qualname__ = "find_one"


def set_bounds(command: dict[str, Any], limit: int, batch_size: int) -> None:
    """Set the number of documents in total and in one reply; 0 means no bound."""
    if limit:
        command["limit"] = abs(limit)
        if limit < 0:
            # A negative limit requests a single batch (crud, "limit").
            command["singleBatch"] = True
    if batch_size:
        # With equal sizes the server would keep the cursor open for another, empty batch.
        command["batchSize"] = batch_size + 1 if batch_size == limit else batch_size


def refuse_bounds() -> NoReturn:
    """Raise InvalidOperation for `min` or `max` without `hint`."""
    raise InvalidOperation(
        "Passing a 'hint' is required when using the min/max query option to ensure the query utilizes the "
        "correct index"
    )


def check_size(batch_size: int) -> None:
    """Raise TypeError or ValueError unless the size of a batch is valid."""
    if not isinstance(batch_size, int):
        raise TypeError(f"batch_size must be an integer, not {type(batch_size)}")
    if batch_size < 0:
        raise ValueError(f"batch_size must be >= 0, not {batch_size}")


def milliseconds(time: Any) -> int:
    """Return a whole number as int, 1500 for 1500.0: programs often write `find(max_time_ms=seconds * 1000)`.

    Raises:
        TypeError: `time` is not a whole number.
    """
    whole: Any = int(time) if isinstance(time, float) and time.is_integer() else time
    if not isinstance(whole, int):
        raise TypeError(f"max_time_ms must be an integer or None, not {type(whole)}")
    return whole


def projection_document(projection: Any) -> dict[str, Any]:
    """Return a projection as a document.

    Raises:
        TypeError: `projection` is neither a document nor names of fields.
    """
    if type(projection) is dict or isinstance(projection, Mapping):
        return dict(projection)
    if isinstance(projection, (list, tuple, set, frozenset)):
        if not all(isinstance(name, str) for name in projection):
            raise TypeError(f"projection must be a list of field names, each as str, not {projection!r}")
        return dict.fromkeys(projection, 1)
    raise TypeError(f"projection must be a mapping or a list of field names, not {type(projection)}")


def _set_flags(
    command: dict[str, Any],
    cursor_type: int,
    no_cursor_timeout: bool,
    allow_partial_results: bool,
    oplog_replay: bool,
) -> None:
    named = {
        "no_cursor_timeout": no_cursor_timeout,
        "allow_partial_results": allow_partial_results,
        "oplog_replay": oplog_replay,
    }
    for name, flag in named.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be an instance of bool, not {type(flag)}")
    if cursor_type not in _CURSOR_TYPES:
        raise ValueError(f"not a valid value for cursor_type: {cursor_type!r}; CursorType has them")
    flags = (
        cursor_type
        | NO_CURSOR_TIMEOUT * no_cursor_timeout
        | PARTIAL * allow_partial_results
        | OPLOG_REPLAY * oplog_replay
    )
    command.update((field, True) for flag, field in FLAG_FIELDS.items() if flags & flag)


def _unwrap(command: dict[str, Any], query: Mapping[str, Any]) -> None:
    if "$explain" in query:
        raise InvalidOperation("$explain in a query is not supported; call explain() of the cursor")
    command["filter"] = query["$query"]
    command.update((_MODIFIERS.get(key, key), value) for key, value in query.items() if key not in _DROPPED)
