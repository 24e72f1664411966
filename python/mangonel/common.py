"""Limits, defaults and the checks of single values that several modules share. Knows no option table.

PyMongo keeps these under the same names in its `common`; programs in the field import some of them.
"""

from __future__ import annotations

from mangonel._light import Mapping, MutableMapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The supported servers: MongoDB 4.4 (wire version 9) and newer.
MIN_SUPPORTED_SERVER_VERSION = "4.4"
MIN_SUPPORTED_WIRE_VERSION = 9
MAX_SUPPORTED_WIRE_VERSION = 29

# Limits of a server that reports none; bytes, bytes, documents.
MAX_BSON_SIZE = 16 * 1024 * 1024
MAX_MESSAGE_SIZE = 2 * MAX_BSON_SIZE
MAX_WRITE_BATCH_SIZE = 100_000
MIN_WIRE_VERSION = 0
MAX_WIRE_VERSION = 0

# Defaults of client options; seconds unless the name says otherwise.
CONNECT_TIMEOUT = 20.0
SERVER_SELECTION_TIMEOUT = 30
HEARTBEAT_FREQUENCY = 10
MIN_HEARTBEAT_INTERVAL = 0.5
MIN_SRV_RESCAN_INTERVAL = 60
KILL_CURSOR_FREQUENCY = 1
LOCAL_THRESHOLD_MS = 15
MAX_POOL_SIZE = 100
MIN_POOL_SIZE = 0
MAX_CONNECTING = 2
MAX_IDLE_TIME_MS: int | None = None
MAX_IDLE_TIME_SEC: int | None = None
WAIT_QUEUE_TIMEOUT: int | None = None
RETRY_WRITES = True
RETRY_READS = True
SRV_SERVICE_NAME = "mongodb"
SERVER_MONITORING_MODE = "auto"
MAX_ADAPTIVE_RETRIES = 2
ENABLE_OVERLOAD_RETARGETING = False


def validate_boolean(option: str, value: Any) -> bool:
    """Return `value`; raise TypeError if it is neither True nor False."""
    if isinstance(value, bool):
        return value
    raise TypeError(f"{option} must be True or False, was: {option}={value}")


def validate_integer(option: str, value: Any) -> int:
    """Return `value` as an int; a str is parsed. Raise TypeError or ValueError for anything else."""
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise ValueError(f"{option} must be an integer, not {value!r}") from None
    raise TypeError(f"Wrong type for {option}, value must be an integer, not {type(value)}")


def validate_string(option: str, value: Any) -> str:
    """Return `value`; raise TypeError if it is not a string."""
    if isinstance(value, str):
        return value
    raise TypeError(f"Wrong type for {option}, value must be an instance of str, not {type(value)}")


def validate_string_or_none(option: str, value: Any) -> str | None:
    """Return `value`; raise TypeError if it is neither a string nor None."""
    return None if value is None else validate_string(option, value)


def validate_list(option: str, value: Any) -> list[Any]:
    """Return `value`; raise TypeError if it is not a list."""
    if isinstance(value, list):
        return value
    raise TypeError(f"{option} must be a list, not {type(value)}")


def validate_list_or_none(option: str, value: Any) -> list[Any] | None:
    """Return `value`; raise TypeError if it is neither a list nor None."""
    return None if value is None else validate_list(option, value)


def validate_is_mapping(option: str, value: Any) -> None:
    """Raise TypeError unless `value` is a mapping, as filters and commands must be."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{option} must be an instance of dict or of another Mapping, not {type(value)}")


def validate_list_or_mapping(option: str, value: Any) -> None:
    """Raise TypeError unless `value` is a list or a mapping, as updates must be."""
    if not isinstance(value, (list, Mapping)):
        raise TypeError(f"{option} must be a list, a dict or another Mapping, not {type(value)}")


def validate_is_document_type(option: str, value: Any) -> None:
    """Raise TypeError unless `value` can be stored: raw BSON, or a mapping to which an `_id` can be added."""
    if not isinstance(value, MutableMapping) and not _is_raw(value):
        raise TypeError(
            f"{option} must be an instance of dict, RawBSONDocument or another MutableMapping, not {type(value)}"
        )


def validate_ok_for_replace(replacement: Mapping[str, Any]) -> None:
    """Raise unless `replacement` is a document without update operators.

    Raises:
        TypeError: `replacement` is not a mapping.
        ValueError: the first key starts with `$`, so an update was most likely meant.
    """
    if type(replacement) is not dict:
        validate_is_mapping("replacement", replacement)
        # Raw BSON is sent unchanged; checked first, since the check below would decode it.
        if _is_raw(replacement):
            return
    if replacement and next(iter(replacement)).startswith("$"):
        raise ValueError("replacement can not include $ operators: use an update for them")


def validate_ok_for_update(update: Any) -> None:
    """Raise unless `update` is a pipeline or a document of update operators.

    Raises:
        TypeError: `update` is neither a list nor a mapping.
        ValueError: `update` is empty, or its first key is not an operator, so a replacement was most likely meant.
    """
    if type(update) is not dict:
        validate_list_or_mapping("update", update)
    if not update:
        raise ValueError("update cannot be empty")
    if not isinstance(update, list) and not next(iter(update)).startswith("$"):
        raise ValueError("update only works with $ operators: use a replacement for a whole document")


def partition_node(node: str) -> tuple[str, int]:
    """Return host and port of `host:port`, `[ipv6]:port` or `host`."""
    host, colon, port = node.rpartition(":")
    if not colon:
        host, port = node, "27017"
    return host[1:-1] if host.startswith("[") else host, int(port)


def clean_node(node: str) -> tuple[str, int]:
    """Return host and port of a member's name from a hello reply, the host in lower case."""
    host, port = partition_node(node)
    return host.lower(), port


def _is_raw(value: Any) -> bool:
    # Raw documents of every bson package carry this marker, so the class need not be imported here.
    return getattr(value, "_type_marker", None) == 101
