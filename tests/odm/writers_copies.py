"""The writers' model of one copy of the document: its belief about the stored state, and its changes."""

from __future__ import annotations

from typing import Any

from odm.other_writer import Part

LISTS = ("tags", "parts", "keys", "spare")
FIELDS = ("n", *LISTS)

# A list as rows: the name of each element, and the rest of it.
Rows = list[tuple[str, Any]]


def rows_of(value: Any) -> Rows | None:
    """A list of the database or of memory as rows."""
    if value is None:
        return None
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    found: Rows = []
    for item in value:
        if isinstance(item, str):
            found.append((item, None))
        elif isinstance(item, Part):
            found.append((item.name, (item.n, item.note)))
        else:
            found.append((item["name"], (int(item.get("n", 0)), item.get("note"))))
    return found


def state_of(document: Any) -> dict[str, Any]:
    """Return the state of a copy in memory."""
    return {"n": document.n, **{name: rows_of(getattr(document, name)) for name in LISTS}}


class Copy:
    """A copy of the document: its belief of the stored state, and its changes."""

    def __init__(self, document: Any, row: dict[str, Any], is_far: bool) -> None:
        self.document = document
        # Loaded by a connection that can be cut.
        self.is_far = is_far
        self.loaded: dict[str, Any] = {}
        self.was_null: set[str] = set()
        self.assigned: set[str] = set()
        self.is_uncertain = False
        self.rev: int | None = None
        self.took(row)

    def took(self, row: dict[str, Any]) -> None:
        """Note that the copy now has the values of the stored document."""
        self.loaded = {"n": row.get("n", 0)}
        for name in LISTS:
            found = rows_of(row.get(name, None if name == "spare" else []))
            self.loaded[name] = sorted(found) if name == "keys" and found else found
        self.was_null = {name for name in LISTS if name in row and row[name] is None}
        self.assigned, self.is_uncertain, self.rev = set(), False, row.get("rev")

    def believes(self, memory: dict[str, Any], changed: set[str]) -> None:
        """A save stored these fields."""
        self.loaded |= {name: memory[name] for name in changed}
        self.was_null -= changed
        self.assigned, self.is_uncertain = set(), False
        if self.rev is not None and changed:
            self.rev += 1

    @property
    def changed(self) -> set[str]:
        memory = state_of(self.document)
        return {name for name in FIELDS if memory[name] != self.loaded[name]}


def merged(base: Rows, mine: Rows, stored: Rows) -> Rows | None:
    """Return the merge of three lists of named rows; None: a row was changed on both sides, or was removed."""
    known, now, there = dict(base), dict(mine), dict(stored)
    for name, rest in known.items():
        if now.get(name, rest) != rest and there.get(name, object()) != rest:
            return None
    kept = [
        (name, now[name] if name in known and now.get(name) != known[name] else rest)
        for name, rest in stored
        if name not in known or name in now
    ]
    # Elements stored by a save of unknown outcome appear once.
    return kept + [row for row in mine if row[0] not in known and row[0] not in there]


def is_append(base: Rows | None, mine: Rows | None) -> bool:
    """Return whether a list was only appended to."""
    base = base or []
    return mine is not None and len(mine) > len(base) and mine[: len(base)] == base


def kept_set(base: Rows | None, mine: Rows | None, stored: Rows | None) -> Rows:
    """Return a stored set with the changes of a copy."""
    known, now, there = set(base or []), set(mine or []), set(stored or [])
    return sorted((there | (now - known)) - (known - now))


def names_in(rows: Any) -> set[str]:
    """Return the names of the elements of a list."""
    return {key for key, _ in rows_of(rows) or []}
