"""Shared by the modules of GridFS: default sizes, checks of a database, running collection methods in a flow."""

from __future__ import annotations

from mangonel import _core
from mangonel._arguments import expect
from mangonel._light import Any
from mangonel._shared.client.database import _Database
from mangonel._shared.collection.collection import _Collection
from mangonel.errors import ConfigurationError
from mangonel.gridfs.errors import CorruptGridFile
from mangonel.write_concern import WriteConcern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mangonel._shared.sessions.session import _ClientSession
    from mangonel.read_preferences import _ServerMode

DEFAULT_CHUNK_SIZE = 255 * 1024
"""Default bytes per chunk, such that a chunk with its document stays below a power of two."""


def root_of_bucket(
    database: _Database[Any],
    name: str,
    is_async: bool,
    write_concern: WriteConcern | None = None,
    read_preference: _ServerMode | None = None,
) -> _Collection[Any]:
    """Return a bucket's root collection.

    Raises:
        TypeError: `database` is not a database of this face.
        ConfigurationError: its write concern is unacknowledged.
    """
    if not isinstance(database, _Database) or database._port.is_async != is_async:
        wanted = "AsyncDatabase" if is_async else "Database"
        raise TypeError(f"database must be an instance of {wanted}, not {type(database)}")
    concern = database.write_concern if write_concern is None else write_concern
    expect("write_concern", concern, WriteConcern, "a WriteConcern")
    if not concern.acknowledged:
        raise ConfigurationError(
            "database must use acknowledged write_concern: a file is whole only if all its chunks are known to be"
        )
    return without_custom_types(database[name].with_options(None, read_preference, write_concern))


def check_root(collection: object, is_async: bool) -> None:
    """Raise TypeError unless `collection` is a collection of the right face."""
    if not isinstance(collection, _Collection) or collection._port.is_async != is_async:
        wanted = "AsyncCollection" if is_async else "Collection"
        raise TypeError(f"root_collection must be an instance of {wanted}, not {type(collection)}")


def without_custom_types(
    collection: _Collection[Any], read_preference: _ServerMode | None = None
) -> _Collection[Any]:
    """Return the collection with a codec that knows no custom types: chunks and file documents have none."""
    options = collection.codec_options.with_options(type_registry=None)
    return collection.with_options(codec_options=options, read_preference=read_preference)


def is_in_transaction(session: _ClientSession | None) -> bool:
    """Return whether commands in this session belong to a transaction."""
    return session is not None and bool(session.in_transaction)


def size_in(file: Mapping[str, Any], name: str) -> int:
    """Return a field of a file's document that holds a size in bytes; 0 if it is missing.

    Raises:
        CorruptGridFile: the field is not a number.
    """
    size = file.get(name)
    # Some shells store every number as a double.
    if isinstance(size, int) or (isinstance(size, float) and size.is_integer()):
        return int(size)
    if size is None:
        return 0
    raise CorruptGridFile(f"file {file.get('_id')!r}: expected a number of bytes in {name!r}, got {size!r}")


def equal_to(value: Any) -> dict[str, Any]:
    """Return a query condition for equality with this value, even if it looks like an operator."""
    return {"$eq": value}


def file_operation(files: _Collection[Any], file_id: Any, session: _ClientSession | None) -> _core.Operation:
    """Return the operation that reads a file's document."""
    command = {"find": files._name, "filter": {"_id": equal_to(file_id)}, "limit": 1, "singleBatch": True}
    return files._read_operation(command, _core.READ_FIRST, session=session)


def warn_deprecated(kind: str, name: str) -> None:
    """Issue a warning that points to the code that uses a deprecated property; the property itself calls this.

    Args:
        kind: name of the class without its prefix, such as "GridOut".
        name: the field in the file's document.
    """
    import warnings

    warnings.warn(
        f"{kind} property {name!r} is deprecated by the GridFS specification; keep it in the file's metadata",
        DeprecationWarning,
        stacklevel=3,
    )
