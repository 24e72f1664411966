"""A regular expression as the server stores it. Spec: bson, type 0x0B.

The driver never compiles a pattern by itself: the server's dialect (PCRE) accepts patterns that `re` rejects, and a
hostile pattern can keep `re` busy forever. The codec sets the two slots directly.
"""

from __future__ import annotations

import re

from mangonel._arguments import expect
from mangonel._light import Generic, TypeVar
from mangonel.bson import schema_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_T = TypeVar("_T", str, bytes)

RE_TYPE = re.Pattern

_FLAGS: dict[str, int] = {
    "i": re.IGNORECASE,
    "l": re.LOCALE,
    "m": re.MULTILINE,
    "s": re.DOTALL,
    "u": re.UNICODE,
    "x": re.VERBOSE,
}


def str_flags_to_int(str_flags: str) -> int:
    """Return the `re` flags for the letters `ilmsux`; other letters are ignored.

    Args:
        str_flags: letters.

    Raises:
        TypeError: `str_flags` is not a string.

    Example:
        >>> import re
        >>> bson.regex.str_flags_to_int("im") == re.IGNORECASE | re.MULTILINE
        True
    """
    expect("str_flags", str_flags, str, "str")
    flags = 0
    for letter in str_flags:
        flags |= _FLAGS.get(letter, 0)
    return flags


class Regex(Generic[_T]):
    """A pattern with its flags, not compiled.

    Args:
        pattern: str or bytes.
        flags: `re` flags as an int, or letters from `ilmsux` (others are ignored).

    Raises:
        TypeError: `pattern` is neither str nor bytes, or `flags` neither str nor int.

    Example:
        >>> Regex("^a", "i").try_compile().match("Ada") is not None
        True
    """

    __slots__ = ("flags", "pattern")
    _type_marker = 11

    pattern: _T
    flags: int

    @classmethod
    def from_native(cls: type[Regex[Any]], regex: re.Pattern[_T]) -> Regex[_T]:
        """Return the Regex of a compiled pattern.

        The two dialects differ: the server may interpret the same pattern differently than `re`.

        Args:
            regex: the result of `re.compile`.

        Raises:
            TypeError: `regex` is not a compiled pattern.

        Example:
            >>> import re
            >>> Regex.from_native(re.compile("^a", re.IGNORECASE)).pattern
            '^a'
        """
        expect("regex", regex, re.Pattern, "a compiled pattern")
        return Regex(regex.pattern, regex.flags)

    def __init__(self, pattern: _T, flags: str | int = 0) -> None:
        expect("pattern", pattern, (str, bytes), "str or bytes")
        if isinstance(flags, str):
            flags = str_flags_to_int(flags)
        elif not isinstance(flags, int):
            raise TypeError(f'expected str or int for "flags", got {type(flags).__name__}')
        self.pattern = pattern
        self.flags = flags

    def try_compile(self) -> re.Pattern[_T]:
        """Return the compiled pattern.

        Matching a pattern from an untrusted source may take exponential time; this method only compiles.

        Raises:
            re.error: the pattern is valid for the server but not for `re`.
        """
        return re.compile(self.pattern, self.flags)

    def __getstate__(self) -> Mapping[Any, Any]:
        return {"flags": self.flags, "pattern": self.pattern}

    def __setstate__(self, state: Any) -> None:
        self.flags = state["flags"]
        self.pattern = state["pattern"]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Regex):
            return bool(self.pattern == other.pattern and self.flags == other.flags)
        return NotImplemented

    # Not hashable, since it is mutable.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Regex({self.pattern!r}, {self.flags!r})"

    __get_pydantic_core_schema__ = classmethod(schema_of)
