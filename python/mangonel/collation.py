"""Collation: the rules by which the server compares strings. The server knows the locales, this module does not."""

from __future__ import annotations

from mangonel.common import validate_boolean, validate_integer, validate_string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = [
    "Collation",
    "CollationAlternate",
    "CollationCaseFirst",
    "CollationMaxVariable",
    "CollationStrength",
    "validate_collation_or_none",
]


class CollationStrength:
    """Values for `strength`: what makes two strings differ. Each level includes those before it."""

    #: Base letters only: `a` and `b` differ, `a` and `á` do not.
    PRIMARY = 1
    #: Accents too.
    SECONDARY = 2
    #: Case too. The server's default.
    TERTIARY = 3
    #: Punctuation too, where `alternate` would ignore it.
    QUATERNARY = 4
    #: Every code point.
    IDENTICAL = 5


class CollationAlternate:
    """Values for `alternate`: whether spaces and punctuation count."""

    #: They count like letters.
    NON_IGNORABLE = "non-ignorable"
    #: They count only from strength QUATERNARY on.
    SHIFTED = "shifted"


class CollationMaxVariable:
    """Values for `maxVariable`: the characters that SHIFTED ignores."""

    #: Punctuation and spaces.
    PUNCT = "punct"
    #: Only spaces.
    SPACE = "space"


class CollationCaseFirst:
    """Values for `caseFirst`: which case sorts first."""

    UPPER = "upper"
    LOWER = "lower"
    #: The locale decides. The server's default.
    OFF = "off"


# Option -> its check, in the order of the fields in the document.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "caseLevel": validate_boolean,
    "caseFirst": validate_string,
    "strength": validate_integer,
    "numericOrdering": validate_boolean,
    "alternate": validate_string,
    "maxVariable": validate_string,
    "normalization": validate_boolean,
    "backwards": validate_boolean,
}


class Collation:
    """The rules by which the server compares strings in an operation, an index or a collection. Immutable.

    Args:
        locale: ICU locale id in exactly the server's spelling, such as `"en_US"`, or `"simple"` to compare bytes.
        caseLevel: True: case counts even at strength 1 and 2.
        caseFirst: see CollationCaseFirst.
        strength: see CollationStrength.
        numericOrdering: True: digits compare as numbers, so `"10"` comes after `"9"`.
        alternate: see CollationAlternate.
        maxVariable: see CollationMaxVariable.
        normalization: True: compare after Unicode NFD.
        backwards: True: accents compare from the end of the word, as in French dictionaries.
        kwargs: sent to the server unchanged.

    Raises:
        TypeError, ValueError: an option has the wrong type.
    """

    __slots__ = ("_document",)

    def __init__(
        self,
        locale: str,
        caseLevel: bool | None = None,  # noqa: N803  (PyMongo's argument names)
        caseFirst: str | None = None,  # noqa: N803
        strength: int | None = None,
        numericOrdering: bool | None = None,  # noqa: N803
        alternate: str | None = None,
        maxVariable: str | None = None,  # noqa: N803
        normalization: bool | None = None,
        backwards: bool | None = None,
        **kwargs: Any,
    ) -> None:
        given = {
            "caseLevel": caseLevel,
            "caseFirst": caseFirst,
            "strength": strength,
            "numericOrdering": numericOrdering,
            "alternate": alternate,
            "maxVariable": maxVariable,
            "normalization": normalization,
            "backwards": backwards,
        }
        self._document: dict[str, Any] = {"locale": validate_string("locale", locale)}
        for name, value in given.items():
            if value is not None:
                self._document[name] = _CHECKS[name](name, value)
        self._document.update(kwargs)

    @property
    def document(self) -> dict[str, Any]:
        """This collation as a new dict, in the form of commands."""
        return self._document.copy()

    def __repr__(self) -> str:
        return f"Collation({', '.join(f'{name}={value!r}' for name, value in self._document.items())})"

    def __eq__(self, other: object) -> bool:
        return self._document == other._document if isinstance(other, Collation) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


def validate_collation_or_none(value: Mapping[str, Any] | Collation | None) -> dict[str, Any] | None:
    """Return the collation as a document, or None.

    Args:
        value: a Collation, a document of its options, or None.

    Raises:
        TypeError: the value is neither a Collation nor a dict nor None.

    Example:
        >>> validate_collation_or_none(Collation("en", strength=2))
        {'locale': 'en', 'strength': 2}
    """
    if value is None:
        return None
    if isinstance(value, Collation):
        return value._document.copy()
    if isinstance(value, dict):
        return value
    raise TypeError(f"collation must be a Collation, a dict or None, not {type(value)}")
