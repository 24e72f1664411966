"""Parses BSON only where needed: every part that is not examined stays the same bytes.

So a command keeps every type, even those that Python would convert. Knows no model and no cipher.
"""

from __future__ import annotations

from typing import Any, TypeAlias

DOCUMENT, ARRAY, STRING, BINARY, NULL, UNDEFINED, REGEX, CODE, SCOPED = 3, 4, 2, 5, 10, 6, 11, 13, 15
ENCRYPTED = 6
_INT, _DOUBLE, _BOOL, _LONG, _DECIMAL = 16, 1, 8, 18, 19
NUMBERS = (_INT, _DOUBLE, _BOOL, _LONG, _DECIMAL)

# The sizes of values by type; other types contain their length.
_FIXED = {1: 8, 6: 0, 7: 12, 8: 1, 9: 8, 10: 0, 16: 4, 17: 8, 18: 8, 19: 16, 0x7F: 0, 0xFF: 0}
# The number to add to the length in the first four bytes of a value.
_MEASURED = {2: 4, 3: 0, 4: 0, 5: 5, 12: 16, 13: 4, 14: 4, 15: 0}

# libmongocrypt's payloads begin with their kind, followed by the key's id or by a document. Two kinds are requests to
# encrypt, and hold plain values.
_SHORTEST, _PLAIN_KINDS, _LAST_KIND = 17, (0, 3), 31

Plain: TypeAlias = tuple[int, bytes]


class Group:
    """A document or an array: its elements by name; each is a plain value, a group or a pending value."""

    __slots__ = ("items", "kind")

    def __init__(self, items: list[list[Any]], kind: int = DOCUMENT) -> None:
        self.items = items
        self.kind = kind

    def get(self, name: str) -> Any:
        """Return the value of a name, or None."""
        return next((value for key, value in self.items if key == name), None)

    def group(self, name: str) -> Group | None:
        """Return the document or array of a name, parsed in place, or None if it is something else."""
        for item in self.items:
            if item[0] == name:
                return opened(item)
        return None


class Pending:
    """A value to be encrypted.

    Attributes:
        value: the plain value.
        rule: the mark of the field.
        key: id or alternative name of its key.
        query: None for a stored value; "equality" or "range" for an operand.
        done: the encrypted value, afterwards.
    """

    __slots__ = ("done", "key", "query", "rule", "value")

    def __init__(self, value: Any, rule: Any, key: Any, query: str | None) -> None:
        self.value = value
        self.rule = rule
        self.key = key
        self.query = query
        self.done: Plain | None = None

    def __repr__(self) -> str:
        return f"Pending({self.rule!r})"


def take_apart(data: bytes, kind: int = DOCUMENT) -> Group:
    """Return the elements of a document or array; nested values stay bytes.

    Raises:
        ValueError: the bytes are neither.
    """
    at, end, items = 4, len(data) - 1, []
    while at < end:
        name_end = data.index(0, at + 1)
        start = name_end + 1
        type_ = data[at]
        stop = start + _size(type_, data, start)
        items.append([data[at + 1 : name_end].decode(), (type_, data[start:stop])])
        at = stop
    return Group(items, kind)


def _size(type_: int, data: bytes, start: int) -> int:
    size = _FIXED.get(type_)
    if size is not None:
        return size
    more = _MEASURED.get(type_)
    if more is not None:
        return int.from_bytes(data[start : start + 4], "little") + more
    if type_ != REGEX:
        raise ValueError(f"expected a type that BSON has, got {type_}")
    return data.index(0, data.index(0, start) + 1) + 1 - start


def opened(item: list[Any]) -> Group | None:
    """Return an element's document or array, parsed in place, or None for any other value."""
    value = item[1]
    if isinstance(value, Group):
        return value
    if isinstance(value, tuple) and value[0] in (DOCUMENT, ARRAY):
        item[1] = take_apart(value[1], value[0])
        return item[1]
    return None


def items_of(group: Group | None) -> list[list[Any]]:
    """Return the elements of a document or array; none if there is no such value."""
    return group.items if group is not None else []


def put_together(value: Any) -> Plain:
    """Return the type and bytes of a value, including nested ones."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, Pending):
        if value.done is None:
            raise ValueError("expected an encrypted value, got one that is not")
        return value.done
    out = bytearray(4)
    for index, (name, inner) in enumerate(value.items):
        type_, data = put_together(inner)
        out.append(type_)
        out += (str(index) if value.kind == ARRAY else name).encode()
        out.append(0)
        out += data
    out.append(0)
    out[:4] = len(out).to_bytes(4, "little")
    return value.kind, bytes(out)


def text_of(value: Any) -> str | None:
    """Return the text of a string value, or None for any other."""
    if isinstance(value, tuple) and value[0] == STRING:
        data: bytes = value[1]
        return data[4:-1].decode(errors="replace")
    return None


def is_encrypted(value: Any) -> bool:
    """Whether a value is encrypted already; the subtype alone proves little, since any program can set it."""
    if not isinstance(value, tuple) or value[0] != BINARY or value[1][4] != ENCRYPTED:
        return False
    data: bytes = value[1][5:]
    return len(data) > _SHORTEST and data[0] <= _LAST_KIND and data[0] not in _PLAIN_KINDS


def document_of(name: str, value: Any) -> bytes:
    """Return a document with one element."""
    return put_together(Group([[name, value]]))[1]
