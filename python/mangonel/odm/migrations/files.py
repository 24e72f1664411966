"""Migrations as files in a folder, `0001_split_name.py`, `0002_….py`, ordered by number. Sends nothing.

A file defines which documents to change and how, with a function or an update pipeline for each direction:

    COLLECTION = "users"
    FILTER = {"name": {"$type": "string"}}          # optional: documents still in the old form
    BACK_FILTER = {"first": {"$exists": True}}      # optional: the same for the way back

    def forward(document):                          # a dict; returns the new one, or None to leave it
        ...

    def backward(document):                         # without it there is no way back
        ...

`FORWARD = [{"$set": …}]` and `BACKWARD` in place of functions run on the server.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = re.compile(r"^(\d+)_\w+\.py$")
NAMES = ("COLLECTION", "FILTER", "BACK_FILTER", "FORWARD", "BACKWARD", "forward", "backward")
Change = Callable[[dict[str, Any]], "Mapping[str, Any] | None"]


@dataclass(frozen=True)
class Migration:
    """One version.

    Attributes:
        number: its place in the order.
        name: the file's name, without its suffix.
        collection: name of the collection.
        forward, backward: a function of a document, or an update pipeline. None: there is none.
        filter, back_filter: query documents that select the documents.
    """

    number: int
    name: str
    collection: str
    forward: Change | list[Any] | None
    backward: Change | list[Any] | None = None
    filter: Mapping[str, Any] = field(default_factory=dict)
    back_filter: Mapping[str, Any] = field(default_factory=dict)

    def change(self, is_forward: bool) -> Change | list[Any] | None:
        """Return the change for a direction.

        Args:
            is_forward: False: the way back.

        Example:
            >>> migration.change(is_forward=True)
            [{'$set': {'n': 1}}]
        """
        return self.forward if is_forward else self.backward

    def meant(self, is_forward: bool) -> dict[str, Any]:
        """Return the filter for a direction.

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
        folder: the folder; files whose name does not begin with a number are ignored.

    Raises:
        ValueError: a number is used twice, a file that begins with a number has another form of name, or a file lacks a
            needed definition or has an unknown one.

    Example:
        >>> load("migrations")
        []
    """
    found = []
    for path in sorted(Path(folder).iterdir()):
        match = FILE.match(path.name)
        if match is not None and int(match[1]):
            found.append(_migration(path, int(match[1])))
        elif path.suffix == ".py" and path.name[:1].isdigit():
            raise ValueError(
                f"expected a name such as 0001_split_name.py, with a number from 1 on, got {path.name}"
            )
    found.sort(key=lambda migration: migration.number)
    for one, other in itertools.pairwise(found):
        if one.number == other.number:
            raise ValueError(
                f"expected one migration of the number {one.number}, got {one.name} and {other.name}"
            )
    return found


def check_target(to: int | None, migrations: Sequence[Migration]) -> None:
    """Refuse a version that no file has.

    Args:
        to: number of a version; 0 for none, None for all.
        migrations: as `load` returns them.

    Raises:
        ValueError: there is no such migration.

    Example:
        >>> check_target(0, [])
    """
    numbers = [migration.number for migration in migrations]
    if to is not None and to and to not in numbers:
        known = f" or the number of a migration, {numbers[0]} to {numbers[-1]}," if numbers else ""
        raise ValueError(f"expected 0{known} as the version to have, got {to!r}")


def _migration(path: Path, number: int) -> Migration:
    spec = importlib.util.spec_from_file_location(f"migration_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"expected a migration as a Python file, got {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = vars(module)
    collection = names.get("COLLECTION")
    if not isinstance(collection, str):
        raise ValueError(f'expected COLLECTION = "…" in {path}, got {collection!r}')
    forward = names.get("forward", names.get("FORWARD"))
    if forward is None:
        raise ValueError(f"expected a function forward(document) or FORWARD = [...] in {path}, got neither")
    for name in names:
        # An ignored filter would mean every document.
        if name not in NAMES and name.upper().rstrip("S") in {known.upper() for known in NAMES}:
            raise ValueError(f"expected one of {', '.join(NAMES)} in {path}, got {name}")
    for name in ("FILTER", "BACK_FILTER"):
        if not isinstance(names.get(name, {}), Mapping):
            raise ValueError(f"expected a query document for {name} in {path}, got {names[name]!r}")
    for one, other in (("forward", "FORWARD"), ("backward", "BACKWARD")):
        if one in names and other in names:
            raise ValueError(f"expected {one} or {other} in {path}, got both")
        _check_change(names.get(one, names.get(other)), one, path)
    return Migration(
        number,
        path.stem,
        collection,
        forward,
        names.get("backward", names.get("BACKWARD")),
        names.get("FILTER", {}),
        names.get("BACK_FILTER", {}),
    )


def _check_change(change: Any, name: str, path: Path) -> None:
    is_pipeline = isinstance(change, list) and all(isinstance(stage, Mapping) for stage in change)
    if inspect.iscoroutinefunction(change) or not (change is None or callable(change) or is_pipeline):
        raise ValueError(
            f"expected a plain function {name}(document) or a list of stages {name.upper()} in {path}, got {change!r}"
        )
