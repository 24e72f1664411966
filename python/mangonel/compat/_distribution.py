"""The metadata of PyMongo's and Motor's distributions, for `importlib.metadata`; loaded when it is searched for."""

from __future__ import annotations

from importlib.metadata import Distribution
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike
    from typing import NoReturn


class AliasDistribution(Distribution):
    """A distribution with a name and a version, without files.

    Instrumentations look for PyMongo's before they do anything.
    """

    def __init__(self, name: str, version: str) -> None:
        self._name, self._version = name, version

    def read_text(self, filename: str) -> str | None:
        """Return the metadata, or None for any other file."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {self._version}\n"

    def locate_file(self, path: str | PathLike[str]) -> NoReturn:
        """Raise: there are no files."""
        raise FileNotFoundError(f"{self._name} is mangonel.compat here and has no file {path}")
