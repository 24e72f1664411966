"""The BSON value that sorts after every other value. Spec: bson, type 0x7F."""

from __future__ import annotations

from mangonel.bson.min_key import _Extreme


class MaxKey(_Extreme):
    """The BSON MaxKey: greater than any value but itself."""

    __slots__ = ()
    _type_marker = 127
    _is_least = False
