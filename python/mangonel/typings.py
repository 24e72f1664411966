"""Type aliases that several modules share. Holds no behaviour."""

from __future__ import annotations

from mangonel._light import Any, Mapping, Sequence, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from mangonel.collation import Collation

__all__ = ["_Address", "_CollationIn", "_DocumentIn", "_DocumentOut", "_DocumentType", "_Pipeline"]

# A port of None means that the host is the path of a Unix domain socket.
_Address: TypeAlias = tuple[str, int | None]
_CollationIn: TypeAlias = "Mapping[str, Any] | Collation"
_Pipeline: TypeAlias = Sequence[Mapping[str, Any]]
_DocumentIn: TypeAlias = Mapping[str, Any]
_DocumentOut: TypeAlias = dict[str, Any]
_DocumentType = TypeVar("_DocumentType", bound=Mapping[str, Any])

# An index by name, by keys, by (key, direction) pairs, or by a mapping of them.
_IndexList: TypeAlias = Sequence[str | tuple[str, int | str | Mapping[str, Any]]] | Mapping[str, Any]
_IndexKeyHint: TypeAlias = str | _IndexList
