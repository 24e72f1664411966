"""The driver's version. A test compares it with Cargo.toml, which has the wheel's version."""

from __future__ import annotations

__version__ = "0.1.0"
version = __version__
version_tuple = tuple(int(part) for part in __version__.split("."))


def get_version_string() -> str:
    """Return the version as text."""
    return __version__
