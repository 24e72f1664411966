"""The names of algorithms and query types, and the options of encrypted indexes. Names are PyMongo's."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypedDict

from mangonel.bson.int64 import Int64


class Algorithm(str, Enum):  # noqa: UP042  # shown as PyMongo's
    """The algorithm that encrypts a value.

    The names of client-side field level encryption begin with AEAD; the others belong to Queryable Encryption.
    """

    AEAD_AES_256_CBC_HMAC_SHA_512_Deterministic = "AEAD_AES_256_CBC_HMAC_SHA_512-Deterministic"
    """Equal values give equal results, so queries can find them, and readers of the stored values can count them."""
    AEAD_AES_256_CBC_HMAC_SHA_512_Random = "AEAD_AES_256_CBC_HMAC_SHA_512-Random"
    """Equal values give different results."""
    INDEXED = "Indexed"
    """For queries for equal values; needs a `contention_factor`."""
    UNINDEXED = "Unindexed"
    """For fields that no query uses."""
    RANGE = "Range"
    """For queries for ranges; needs `RangeOpts`."""
    STRING = "String"
    """For queries for parts of strings; needs `StringOpts`."""
    TEXTPREVIEW = "TextPreview"
    """The former name of STRING."""


class QueryType(str, Enum):  # noqa: UP042  # shown as PyMongo's
    """The type of query that searches for an encrypted value; only for values that are part of a query."""

    EQUALITY = "equality"
    """Equal values."""
    RANGE = "range"
    """Values between others."""
    PREFIX = "prefix"
    """Strings that start with it."""
    SUFFIX = "suffix"
    """Strings that end with it."""
    SUBSTRING = "substring"
    """Strings that contain it."""


class RangeOpts:
    """Options of a field for range queries; they must equal those of the field's index.

    Args:
        sparsity: store every n-th level of the index's tree; a higher number makes the index smaller and slower.
        trim_factor: how many upper levels of the tree to leave out.
        min, max: the bounds of all values, of the same type as the values.
        precision: digits after the decimal point, for doubles and decimals.

    Example:
        >>> RangeOpts(sparsity=1, min=0, max=200).document
        {'sparsity': 1, 'min': 0, 'max': 200}
    """

    def __init__(
        self,
        sparsity: int | None = None,
        trim_factor: int | None = None,
        min: Any | None = None,
        max: Any | None = None,
        precision: int | None = None,
    ) -> None:
        self.min = min
        self.max = max
        self.sparsity = sparsity
        self.trim_factor = trim_factor
        self.precision = precision

    @property
    def document(self) -> dict[str, Any]:
        """The options that were passed, by the server's names."""
        given = {
            "sparsity": Int64(self.sparsity) if self.sparsity else None,
            "trimFactor": self.trim_factor,
            "precision": self.precision,
            "min": self.min,
            "max": self.max,
        }
        return {name: value for name, value in given.items() if value is not None}


class SubstringOpts(TypedDict):
    """Length limits of the stored strings and of the substrings to search for."""

    strMaxLength: int
    strMinQueryLength: int
    strMaxQueryLength: int


class PrefixOpts(TypedDict):
    """Length limits of the prefix to search for."""

    strMinQueryLength: int
    strMaxQueryLength: int


class SuffixOpts(TypedDict):
    """Length limits of the suffix to search for."""

    strMinQueryLength: int
    strMaxQueryLength: int


class StringOpts:
    """Options of a field for searches by parts of strings.

    Args:
        substring, prefix, suffix: the searches to support, with their length limits.
        case_sensitive, diacritic_sensitive: whether `a` differs from `A`, and `a` from `ä`.

    Example:
        >>> StringOpts(prefix={"strMinQueryLength": 2, "strMaxQueryLength": 10}, case_sensitive=True).document
        {'prefix': {'strMinQueryLength': 2, 'strMaxQueryLength': 10}, 'caseSensitive': True}
    """

    def __init__(
        self,
        substring: SubstringOpts | None = None,
        prefix: PrefixOpts | None = None,
        suffix: SuffixOpts | None = None,
        case_sensitive: bool | None = None,
        diacritic_sensitive: bool | None = None,
    ) -> None:
        self.substring = substring
        self.prefix = prefix
        self.suffix = suffix
        self.case_sensitive = case_sensitive
        self.diacritic_sensitive = diacritic_sensitive

    @property
    def document(self) -> dict[str, Any]:
        """The options that were passed, by the server's names."""
        given = {
            "substring": self.substring,
            "prefix": self.prefix,
            "suffix": self.suffix,
            "caseSensitive": self.case_sensitive,
            "diacriticSensitive": self.diacritic_sensitive,
        }
        return {name: value for name, value in given.items() if value is not None}
