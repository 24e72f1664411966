"""Decimal numbers of 34 digits. Spec: bson-decimal128; IEEE 754-2008 decimal128, binary integer encoding.

`decimal` is imported at first use only. The codec sets the two slots directly.
"""

from __future__ import annotations

from mangonel._arguments import expect
from mangonel.bson import schema_of
from mangonel.bson.codec_options import TypeDecoder, TypeEncoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    import decimal
    from collections.abc import Sequence
    from typing import Any

    _VALUE_OPTIONS = decimal.Decimal | float | str | tuple[int, Sequence[int], int]

_EXPONENT_BIAS = 6176
_EXPONENT_MAX = 6144
_EXPONENT_MIN = -6143
_MAX_DIGITS = 34
_MAX_COEFFICIENT = 10**_MAX_DIGITS - 1

_SIGN = 0x8000_0000_0000_0000
_INF = 0x7800_0000_0000_0000
_NAN = 0x7C00_0000_0000_0000
_SNAN = 0x7E00_0000_0000_0000
# If both bits are set, the coefficient exceeds 34 digits, and the number counts as zero.
_LARGE_COEFFICIENT = 0x6000_0000_0000_0000
_COEFFICIENT_HIGH = 0x0001_FFFF_FFFF_FFFF
_UINT64_MAX = 0xFFFF_FFFF_FFFF_FFFF


def _context(*, trap: bool) -> decimal.Context:
    import decimal

    return decimal.Context(
        prec=_MAX_DIGITS,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=_EXPONENT_MIN,
        Emax=_EXPONENT_MAX,
        capitals=1,
        clamp=1,
        flags=[],
        traps=[decimal.InvalidOperation, decimal.Overflow, decimal.Inexact] if trap else [],
    )


def create_decimal128_context() -> decimal.Context:
    """Return a context whose results always fit a Decimal128: 34 digits, rounding half to even, no traps.

    Example:
        >>> with decimal.localcontext(create_decimal128_context()):
        ...     Decimal128(Decimal(1) / 3)
        Decimal128('0.3333333333333333333333333333333333')
    """
    return _context(trap=False)


def _decimal_to_128(value: Any) -> tuple[int, int]:
    """Return the two halves of a Decimal, or of a str that spells one."""
    import decimal

    with decimal.localcontext(_context(trap=True)) as context:
        value = context.create_decimal(value)
    sign, digits, exponent = value.as_tuple()
    high = _SIGN if sign else 0
    if value.is_infinite():
        return high | _INF, 0
    if value.is_nan():
        if digits:
            raise ValueError("a NaN with a payload cannot be stored in a Decimal128")
        return high | (_SNAN if value.is_snan() else _NAN), 0
    coefficient = int("".join(map(str, digits)))
    # The context limits the coefficient to 34 digits (113 bits) and the exponent to 14 bits.
    return (
        high | (exponent + _EXPONENT_BIAS) << 49 | coefficient >> 64,
        coefficient & _UINT64_MAX,
    )


class Decimal128:
    """A BSON decimal number: up to 34 digits, exact, with infinities and NaN.

    It has no arithmetic; use `to_decimal`. Two values are equal if their 16 bytes are, so 1.0 is not equal to 1.00.

    Args:
        value: a decimal.Decimal, a str that spells one, or the two halves of the number as unsigned 64-bit ints (high,
            low).

    Raises:
        TypeError: `value` has another type. A float is refused, since it has no exact decimal value.
        decimal.Inexact: more than 34 digits. Nothing is rounded silently.
        decimal.Overflow: the exponent is too large.
        decimal.InvalidOperation: the str is not a number.
        ValueError: a NaN has a payload, or the list does not hold two 64-bit numbers.

    Example:
        >>> Decimal128("0.10")
        Decimal128('0.10')
    """

    __slots__ = ("__high", "__low")
    _type_marker = 19

    __high: int
    __low: int

    def __init__(self, value: _VALUE_OPTIONS) -> None:
        if isinstance(value, str):
            self.__high, self.__low = _decimal_to_128(value)
        elif isinstance(value, list | tuple):
            self.__high, self.__low = _checked_halves(value)
        else:
            import decimal

            if not isinstance(value, decimal.Decimal):
                raise TypeError(
                    f'expected decimal.Decimal or str for "value", got {type(value).__name__}: {value!r}'
                )
            self.__high, self.__low = _decimal_to_128(value)

    @classmethod
    def from_bid(cls: type[Decimal128], value: bytes) -> Decimal128:
        """Return the number in `value`: 16 bytes of binary integer decimal, little-endian.

        Args:
            value: as `bid` returns it.

        Raises:
            TypeError: `value` is not bytes.
            ValueError: `value` is not 16 bytes long.

        Example:
            >>> Decimal128.from_bid(Decimal128("1.5").bid)
            Decimal128('1.5')
        """
        expect("value", value, bytes, "bytes")
        if len(value) != 16:
            raise ValueError(f"expected 16 bytes, got {len(value)}")
        return cls((int.from_bytes(value[8:], "little"), int.from_bytes(value[:8], "little")))  # type: ignore[arg-type]

    @property
    def bid(self) -> bytes:
        """The number as 16 bytes of binary integer decimal, little-endian."""
        return self.__low.to_bytes(8, "little") + self.__high.to_bytes(8, "little")

    def to_decimal(self) -> decimal.Decimal:
        """Return the same number as a decimal.Decimal."""
        import decimal

        high = self.__high
        sign = 1 if high & _SIGN else 0
        # From the longest bit pattern to the shortest, since each begins with the next.
        for pattern, name in ((_SNAN, "sNaN"), (_NAN, "NaN"), (_INF, "Infinity")):
            if high & pattern == pattern:
                return decimal.Decimal(f"-{name}" if sign else name)
        if high & _LARGE_COEFFICIENT == _LARGE_COEFFICIENT:
            exponent = (high >> 47 & 0x3FFF) - _EXPONENT_BIAS
            coefficient = 0
        else:
            exponent = (high >> 49 & 0x3FFF) - _EXPONENT_BIAS
            coefficient = (high & _COEFFICIENT_HIGH) << 64 | self.__low
            if coefficient > _MAX_COEFFICIENT:
                coefficient = 0
        return decimal.Decimal((sign, tuple(map(int, str(coefficient))), exponent))

    def __getstate__(self) -> tuple[int, int]:
        return self.__high, self.__low

    def __setstate__(self, value: tuple[int, int]) -> None:
        self.__high, self.__low = value

    def __str__(self) -> str:
        number = self.to_decimal()
        # The server writes NaN without a sign or a signal.
        return "NaN" if number.is_nan() else str(number)

    def __repr__(self) -> str:
        return f"Decimal128('{self!s}')"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Decimal128):
            return self.__high == other.__high and self.__low == other.__low
        return NotImplemented

    # Unequal objects can be the same number, so no hash fits both.
    __hash__ = None  # type: ignore[assignment]

    __get_pydantic_core_schema__ = classmethod(schema_of)


def _checked_halves(value: Any) -> tuple[int, int]:
    if len(value) != 2:
        raise ValueError(f"expected two 64-bit numbers (high, low), got {len(value)} items")
    for half in value:
        if not isinstance(half, int):
            raise TypeError(f"expected two ints (high, low), got {type(half).__name__}")
        if not 0 <= half <= _UINT64_MAX:
            raise ValueError(f"expected two unsigned 64-bit numbers (high, low), got {half}")
    return value[0], value[1]


class DecimalEncoder(TypeEncoder):
    """Stores decimal.Decimal as Decimal128; for use in a TypeRegistry."""

    @property
    def python_type(self) -> type[decimal.Decimal]:
        """decimal.Decimal."""
        import decimal

        return decimal.Decimal

    def transform_python(self, value: Any) -> Decimal128:
        """Return `value` as a Decimal128."""
        return Decimal128(value)


class DecimalDecoder(TypeDecoder):
    """Decodes Decimal128 as decimal.Decimal; for use in a TypeRegistry."""

    @property
    def bson_type(self) -> type[Decimal128]:
        """Decimal128."""
        return Decimal128

    def transform_bson(self, value: Any) -> decimal.Decimal:
        """Return `value` as a decimal.Decimal."""
        return value.to_decimal()
