"""Migrations as files of a folder, `0001_split_name.py`, `0002_….py`, in the order of their numbers. Sends nothing.

A file says which documents it changes and how, for each direction by a function or by an update pipeline:

    COLLECTION = "users"
    FILTER = {"name": {"$type": "string"}}          # optional; what is still in the old form
    BACK_FILTER = {"first": {"$exists": True}}      # optional, likewise for the way back

    def forward(document):                          # of a dict; returns the new one, or None to leave it
        ...

    def backward(document):                         # without it there is no way back
        ...

`FORWARD = [{"$set": …}]` and `BACKWARD` in place of functions run on the server.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = re.compile(r"^(\d+)_\w+\.py$")
Change = Callable[[dict[str, Any]], "Mapping[str, Any] | None"]


@dataclass(frozen=True)
class Migration:
    """One version.

    Attributes:
        number: its place in the order.
        name: the file's, without its ending.
        collection: whose documents change.
        forward, backward: a function of a document, or an update pipeline; None: there is none.
        filter, back_filter: which documents are meant.
    """

    number: int
    name: str
    collection: str
    forward: Change | list[Any] | None
    backward: Change | list[Any] | None = None
    filter: Mapping[str, Any] = field(default_factory=dict)
    back_filter: Mapping[str, Any] = field(default_factory=dict)

    def change(self, is_forward: bool) -> Change | list[Any] | None:
        """Return what is done to each document in a direction.

        Args:
            is_forward: False: the way back.

        Example:
            >>> migration.change(is_forward=True)
            [{'$set': {'n': 1}}]
        """
        return self.forward if is_forward else self.backward

    def meant(self, is_forward: bool) -> dict[str, Any]:
        """Return the filter of a direction.

        Args:
            is_forward: False: the way back.

        Example:
            >>> migration.meant(is_forward=True)
            {}
        """
        return dict(self.filter if is_forward else self.back_filter)


def load(folder: str | Path) -> list[Migration]:
    """Return the migrations of a folder, by their numbers.

    Args:
        folder: files that begin with no number are left alone.

    Raises:
        ValueError: a number comes twice, or a file lacks what a migration needs.

    Example:
        >>> load("migrations")
        []
    """
    found = [
        _migration(path, int(match[1]))
        for path in sorted(Path(folder).iterdir())
        if (match := FILE.match(path.name)) is not None
    ]
    found.sort(key=lambda migration: migration.number)
    for one, other in itertools.pairwise(found):
        if one.number == other.number:
            raise ValueError(
                f"expected one migration of the number {one.number}, found {one.name} and {other.name}"
            )
    return found


def _migration(path: Path, number: int) -> Migration:
    spec = importlib.util.spec_from_file_location(f"migration_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = vars(module)
    collection = names.get("COLLECTION")
    if not isinstance(collection, str):
        raise ValueError(f'expected COLLECTION = "…" in {path}, found {collection!r}')
    forward = names.get("forward", names.get("FORWARD"))
    if forward is None:
        raise ValueError(f"expected a function forward(document) or FORWARD = [...] in {path}, found neither")
    return Migration(
        number,
        path.stem,
        collection,
        forward,
        names.get("backward", names.get("BACKWARD")),
        names.get("FILTER", {}),
        names.get("BACK_FILTER", {}),
    )
