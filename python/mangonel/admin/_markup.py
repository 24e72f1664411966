"""HTML from values: `tag` is the one place that writes markup, and it escapes every text and every attribute."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

VOID = frozenset({"br", "input", "link", "meta"})


class Markup(str):
    """A text that `tag` or `join` made, which needs no escaping."""

    __slots__ = ()


def join(*parts: Any) -> Markup:
    """Return parts one after the other: markup as it is, texts escaped, iterables part by part, nothing for None."""
    return Markup("".join(_written(part) for part in parts))


def tag(name: str, /, *parts: Any, **attributes: Any) -> Markup:
    """Return an element.

    Args:
        name: name of the element.
        parts: its content, as for `join`.
        attributes: a text each; True for one without a value, None or False to leave it out. An underscore becomes a
            hyphen, and one at the end is dropped, as in `class_`.
    """
    written = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            written.append(key)
        elif value is not None and value is not False:
            written.append(f'{key}="{escape(str(value))}"')
    opened = f"<{' '.join(written)}>"
    if name in VOID:
        return Markup(opened)
    # A parser drops the first line break of a text area, so it gets one more.
    return Markup(f"{opened}{chr(10) if name == 'textarea' else ''}{join(*parts)}</{name}>")


def _written(part: Any) -> str:
    if part is None:
        return ""
    if isinstance(part, Markup):
        return part
    if isinstance(part, str):
        return escape(part)
    if isinstance(part, Iterable):
        return "".join(map(_written, part))
    return escape(str(part))
