"""Type variables for code written against `bson.typings`. Created at first use, to keep imports light."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping, MutableMapping
    from mmap import mmap
    from typing import Any, TypeVar

    from mangonel.bson.raw_bson import RawBSONDocument

    _DocumentOut = MutableMapping[str, Any] | RawBSONDocument
    _DocumentType = TypeVar("_DocumentType", bound=Mapping[str, Any])
    _DocumentTypeArg = TypeVar("_DocumentTypeArg", bound=Mapping[str, Any])
    _ReadableBuffer = bytes | memoryview | bytearray | mmap | array[Any]
else:

    def __getattr__(name: str) -> object:
        if name not in ("_DocumentType", "_DocumentTypeArg"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from collections.abc import Mapping
        from typing import Any, TypeVar

        variable = globals()[name] = TypeVar(name, bound=Mapping[str, Any])
        return variable
