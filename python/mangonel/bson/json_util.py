"""Extended JSON: documents as JSON text and back, with every BSON type kept. Spec: extended-json.

    >>> dumps({"_id": ObjectId("5f5f5f5f5f5f5f5f5f5f5f5f"), "at": datetime.datetime(2020, 1, 2)})
    '{"_id": {"$oid": "5f5f5f5f5f5f5f5f5f5f5f5f"}, "at": {"$date": "2020-01-02T00:00:00Z"}}'

The options and the public functions are here. `_core` reads and writes the usual types; `_json_write` and `_json_read`
handle all other values and report errors.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mangonel import _core
from mangonel._arguments import expect
from mangonel._light import Mapping
from mangonel.bson import _json_read, _json_write
from mangonel.bson.codec_options import CodecOptions
from mangonel.bson.tz_util import utc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

# Looked up once: a lookup in the module would take a tenth of the time for a short text.
_json_loads = _core.json_loads


class JSONMode:
    """The format to write. Every format can be read."""

    LEGACY = 0
    """The oldest: `$date` is a number, and `$regex` has `$options` beside it."""
    RELAXED = 1
    """Easy to read: numbers are plain where JSON can hold them, dates are ISO-8601 text."""
    CANONICAL = 2
    """Every type can be distinguished from every other: int32, int64 and double are written differently."""


class DatetimeRepresentation:
    """How dates are written."""

    LEGACY = 0
    """`{"$date": 0}`: milliseconds since 1970."""
    NUMBERLONG = 1
    """`{"$date": {"$numberLong": "0"}}`."""
    ISO8601 = 2
    """`{"$date": "1970-01-01T00:00:00Z"}`; as NUMBERLONG outside the years 1970 to 9999."""


# For each mode: strict_number_long, datetime_representation, strict_uuid; only LEGACY allows other values.
_MODES = {
    JSONMode.LEGACY: ("LEGACY", False, DatetimeRepresentation.LEGACY, False),
    JSONMode.RELAXED: ("RELAXED", False, DatetimeRepresentation.ISO8601, True),
    JSONMode.CANONICAL: ("CANONICAL", True, DatetimeRepresentation.NUMBERLONG, True),
}
_OWN_OPTIONS = ("strict_number_long", "datetime_representation", "strict_uuid", "json_mode")


class JSONOptions(CodecOptions[Any]):
    """Options of `dumps` and `loads`: the JSON format to write, and, as CodecOptions, the objects to read.

    Args:
        strict_number_long: True: write Int64 as `$numberLong`. None: the mode decides.
        datetime_representation: one of DatetimeRepresentation. None: the mode decides.
        strict_uuid: True: write UUIDs as `$binary`. False: as `$uuid`. None: the mode decides.
        json_mode: one of JSONMode.
        *args: the arguments of CodecOptions.
        **kwargs: the arguments of CodecOptions; with `tz_aware`, `tzinfo` is UTC unless given.

    Raises:
        ValueError: an option has an unknown value or contradicts the mode.
        TypeError: an option of CodecOptions is unknown or has the wrong type.

    Example:
        >>> dumps({"n": 1}, json_options=JSONOptions(json_mode=JSONMode.CANONICAL))
        '{"n": {"$numberInt": "1"}}'
    """

    json_mode: int
    strict_number_long: bool
    datetime_representation: int
    strict_uuid: bool

    def __new__(
        cls,
        strict_number_long: bool | None = None,
        datetime_representation: int | None = None,
        strict_uuid: bool | None = None,
        json_mode: int = JSONMode.RELAXED,
        *args: Any,
        **kwargs: Any,
    ) -> Self:
        if len(args) < 2 and kwargs.get("tz_aware"):
            kwargs.setdefault("tzinfo", utc)
        if datetime_representation not in (None, 0, 1, 2):
            raise ValueError(
                'expected a DatetimeRepresentation for "datetime_representation", '
                f"got {datetime_representation!r}"
            )
        if not isinstance(json_mode, int) or json_mode not in _MODES:
            raise ValueError(f'expected a JSONMode for "json_mode", got {json_mode!r}')
        mode, *defaults = _MODES[json_mode]
        given = (strict_number_long, datetime_representation, strict_uuid)
        for name, value, default in zip(_OWN_OPTIONS, given, defaults, strict=False):
            if json_mode != JSONMode.LEGACY and value not in (None, default):
                raise ValueError(f'expected "{name}" to be {default!r} with JSONMode.{mode}, got {value!r}')
        self = super().__new__(cls, *args, **kwargs)
        self.json_mode = json_mode
        for name, value, default in zip(_OWN_OPTIONS, given, defaults, strict=False):
            setattr(self, name, default if value is None else value)
        return self

    def _arguments_repr(self) -> str:
        own = ", ".join(f"{name}={getattr(self, name)!r}" for name in _OWN_OPTIONS)
        return f"{own}, {super()._arguments_repr()}"

    def _options(self) -> dict[str, Any]:
        return self._asdict() | {name: getattr(self, name) for name in _OWN_OPTIONS}

    # The tuple holds the options of CodecOptions, which come last in the arguments; the others are in `__dict__`.
    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), self._asdict()

    def _replace(self, /, **kwargs: Any) -> JSONOptions:
        return self.with_options(**kwargs)

    def with_options(self, **kwargs: Any) -> JSONOptions:
        """Return these options with some of them replaced.

        If you change `json_mode`, also replace the options that contradict the new mode.

        Raises:
            ValueError: an option has an unknown value or contradicts the mode.
            TypeError: an option is unknown.

        Example:
            >>> bson.json_util.DEFAULT_JSON_OPTIONS.with_options(tz_aware=True).tz_aware
            True
        """
        return JSONOptions(**{**self._options(), **kwargs})


LEGACY_JSON_OPTIONS: JSONOptions = JSONOptions(json_mode=JSONMode.LEGACY)
CANONICAL_JSON_OPTIONS: JSONOptions = JSONOptions(json_mode=JSONMode.CANONICAL)
RELAXED_JSON_OPTIONS: JSONOptions = JSONOptions(json_mode=JSONMode.RELAXED)
DEFAULT_JSON_OPTIONS: JSONOptions = RELAXED_JSON_OPTIONS

# The arguments of `json.dumps` that `_core` knows.
_WRITTEN_BY_CORE = frozenset({"ensure_ascii", "separators"})


def dumps(obj: Any, *args: Any, **kwargs: Any) -> str:
    """Return documents as extended JSON.

    Args:
        obj: a document, a list of them, or any BSON value.
        *args: arguments of `json.dumps`.
        **kwargs: arguments of `json.dumps`, and `json_options`, a JSONOptions (default: relaxed).

    Raises:
        TypeError: a value has neither a JSON nor a BSON type.
        ValueError: there is a UUID, and `uuid_representation` is UNSPECIFIED.
        RecursionError: the documents are nested too deep, or contain themselves.

    Example:
        >>> dumps({"n": Int64(5), "of": MaxKey()})
        '{"n": 5, "of": {"$maxKey": 1}}'
    """
    json_options = kwargs.pop("json_options", DEFAULT_JSON_OPTIONS)
    if not args and kwargs.keys() <= _WRITTEN_BY_CORE and type(json_options) is JSONOptions:
        separators = kwargs.get("separators")
        between, after_key = (", ", ": ") if separators is None else separators
        is_ascii = kwargs.get("ensure_ascii", True)
        if type(is_ascii) is bool and type(between) is str and type(after_key) is str:
            text: str = _core.json_dumps(obj, json_options, is_ascii, between, after_key)
            if text is not NotImplemented:
                return text
    return _dumps_in_python(obj, json_options, *args, **kwargs)


def _dumps_in_python(obj: Any, json_options: JSONOptions, *args: Any, **kwargs: Any) -> str:
    _check_options(json_options)
    return json.dumps(_json_write.convert(obj, json_options), *args, **kwargs)


def loads(s: str | bytes | bytearray, *args: Any, **kwargs: Any) -> Any:
    """Return the documents in extended JSON text; all three formats are accepted.

    Args:
        s: JSON text, or UTF-8, UTF-16 or UTF-32 bytes.
        *args: arguments of `json.loads`.
        **kwargs: arguments of `json.loads`, and `json_options`, a JSONOptions (default: relaxed).

    Raises:
        json.JSONDecodeError: the text is not JSON.
        TypeError: a `$` key has a value of the wrong type, lacks a companion, or has a surplus one.
        ValueError: a value does not have the format of its type. InvalidId is raised for an ObjectId.
        InvalidBSON: a date is outside the years 1 to 9999; see `datetime_conversion`.
        RecursionError: the documents are nested too deep.

    Example:
        >>> loads('{"at": {"$date": {"$numberLong": "0"}}}')
        {'at': datetime.datetime(1970, 1, 1, 0, 0)}
    """
    json_options = kwargs.pop("json_options", DEFAULT_JSON_OPTIONS) if kwargs else DEFAULT_JSON_OPTIONS
    if not args and not kwargs and type(json_options) is JSONOptions:
        value = _json_loads(s, json_options)
        if value is not NotImplemented:
            return value
    return _loads_in_python(s, json_options, *args, **kwargs)


def _loads_in_python(s: str | bytes | bytearray, json_options: JSONOptions, *args: Any, **kwargs: Any) -> Any:
    _check_options(json_options)
    # Only pairs keep their order in every document class. One call per object, since calls take most of the time.
    document_class, read = json_options.document_class, _json_read.read
    kwargs.setdefault("object_pairs_hook", lambda pairs: read(document_class(pairs), json_options))
    return json.loads(s, *args, **kwargs)


def object_pairs_hook(
    pairs: Sequence[tuple[str, Any]], json_options: JSONOptions = DEFAULT_JSON_OPTIONS
) -> Any:
    """Return the BSON value that one JSON object represents; for `json.loads(object_pairs_hook=…)`.

    Args:
        pairs: keys and values of the object.
        json_options: how to read it.

    Raises:
        TypeError, ValueError: as for `object_hook`.

    Example:
        >>> bson.json_util.object_pairs_hook([("$oid", "65e1a0b2c3d4e5f6a7b8c9d0")])
        ObjectId('...')
    """
    _check_options(json_options)
    document_class: Any = json_options.document_class
    try:
        document = document_class(pairs)
    except (TypeError, ValueError) as error:
        raise type(error)(f'expected keys and values for "pairs", got {pairs!r}') from None
    return object_hook(document, json_options)


def _check_options(json_options: Any) -> None:
    expect("json_options", json_options, JSONOptions, "JSONOptions")


def object_hook(dct: Mapping[str, Any], json_options: JSONOptions = DEFAULT_JSON_OPTIONS) -> Any:
    """Return the BSON value that one JSON object represents; for `json.loads(object_hook=…)`.

    Args:
        dct: the object.
        json_options: how to read it.

    Raises:
        TypeError: a `$` key has a value of the wrong type, lacks a companion, or has a surplus one.
        ValueError: a value does not have the format of its type.

    Example:
        >>> bson.json_util.object_hook({"$numberLong": "3"})
        3
    """
    expect("dct", dct, Mapping, "a mapping")
    return _json_read.read(dct, json_options)


def default(obj: Any, json_options: JSONOptions = DEFAULT_JSON_OPTIONS) -> Any:
    """Return the JSON form of one BSON value; for `json.dumps(default=…)`.

    Args:
        obj: the value.
        json_options: how to write it.

    Raises:
        TypeError: `obj` is not a BSON value.

    Example:
        >>> bson.json_util.default(Int64(3))
        3
    """
    return _json_write.write(obj, json_options)


def get_size(obj: Any, max_size: int, current_size: int = 0) -> int:
    """Return the approximate length of `obj` as JSON.

    Args:
        obj: any value; an unknown type counts as 0.
        max_size: stop counting after this many characters; the result may be a little more.
        current_size: characters to start from.

    Raises:
        TypeError: a size is no integer.

    Example:
        >>> bson.json_util.get_size({"name": "Ada"}, 1_000)
        7
    """
    for name, size in (("max_size", max_size), ("current_size", current_size)):
        expect(name, size, int, "an int")
    return _json_write.measure(obj, max_size, current_size)
