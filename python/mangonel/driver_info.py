"""The name with which a library built on this driver identifies itself to the server.

Spec: mongodb-handshake (wrapping libraries).
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class _Fields(NamedTuple):
        name: str | None
        version: str | None
        platform: str | None

else:
    _Fields = namedtuple("_Fields", "name version platform")

__all__ = ["DriverInfo"]


class DriverInfo(_Fields):
    """Name, version and platform of a library that wraps this driver; the server logs them.

    Args:
        name: the library's name.
        version: its version.
        platform: its platform, if that adds to the driver's own.

    Raises:
        TypeError: a field is neither a string nor None.
        ValueError: a field contains `|`, which separates libraries in the server's log.
    """

    __slots__ = ()

    def __new__(cls, name: str | None, version: str | None = None, platform: str | None = None) -> DriverInfo:
        for field, value in (("name", name), ("version", version), ("platform", platform)):
            if value is not None and not isinstance(value, str):
                raise TypeError(
                    f"Wrong type for DriverInfo {field} option, value must be an instance of str, not {type(value)}"
                )
            if value and "|" in value:
                raise ValueError(f"DriverInfo {field} must not contain '|', which separates libraries")
        return super().__new__(cls, name, version, platform)
