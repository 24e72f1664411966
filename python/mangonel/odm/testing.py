"""Documents for tests: `make` builds valid ones by the model's types, `from_model` is a strategy of hypothesis.

    >>> from mangonel.odm.testing import make
    >>> make(User, age=40).age
    40

Both make instances that are new and not stored. A field with a default keeps it in `make`; `from_model` varies it too.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import itertools
import math
import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from mangonel.bson import (
    Binary,
    Code,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from mangonel.odm._registry import is_model
from mangonel.odm.errors import OdmError
from mangonel.odm.expressions import geo
from mangonel.odm.model.specs import default_of, spec_of
from mangonel.odm.model.texts import Email, Url

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["from_model", "make"]

T = TypeVar("T")

_numbers = itertools.count(1)
_START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
# BSON holds milliseconds.
_MILLISECOND, _DAY = dt.timedelta(milliseconds=1), dt.timedelta(days=1)
# Values tried for a field whose constraints are functions of the program.
_TRIES = 200


def make(model: type[T], **values: Any) -> T:
    """Return a new, valid instance of a model; values that are not given are made to fit type and constraints.

    Texts, numbers, ids and dates differ from call to call, so unique fields do not clash. Fields with a default keep
    it. A reference that must have a value gets a fresh id, of a document that does not exist.

    Args:
        model: a class of documents or of embedded documents.
        values: values by attribute; a dict for an embedded document names some of its values.

    Raises:
        TypeError: the model has no such field, or it is no model.
        OdmError: a value for a field could not be found, because of a pattern or a condition of the program; pass one.
            Or no value can meet its constraints, since they contradict one another.
        ValidationError: a given value does not fit its field.

    Example:
        >>> make(User, name="Ada").name, make(Post).title != make(Post).title
        ('Ada', True)
        >>> make(User, address={"city": "Oslo"}).address.city
        'Oslo'
    """
    if not is_model(model):
        raise TypeError(f"expected a model, got {model!r}")
    cls: Any = model
    unknown = values.keys() - cls.__plan__.fields.keys()
    if unknown:
        raise TypeError(f"{cls.__name__} has no field {', '.join(map(repr, sorted(unknown)))}")
    given: dict[str, Any] = {}
    for name, field in cls.__plan__.fields.items():
        spec = spec_of(field.type, field.metadata, field.nullable, cls, field.info)
        if name in values:
            value = values[name]
            part = field.model if isinstance(value, dict) and not field.is_list else None
            given[name] = make(part, **value) if part is not None and spec["op"] == "embedded" else value
        elif default_of(field, spec)[0] == "required":
            given[name] = _valid(f"{cls.__name__}.{name}", spec)
    return cls(**given)


def _valid(where: str, spec: dict[str, Any]) -> Any:
    """Return a value for a field that its constraints accept; `where` names the field."""
    checks = [check for kind, check in spec["checks"] if kind in ("pattern", "predicate")]
    if not checks:
        return _value(where, spec)
    sizes = _constraints(where, spec)
    candidates = itertools.chain(
        (_of_pattern(check) for check in checks),
        _texts() if spec["op"] == "str" else (),
        (_value(where, spec) for _ in range(_TRIES)),
    )
    for candidate in candidates:
        is_text = isinstance(candidate, str)
        if candidate is None or (is_text and not _of_length(sizes)(candidate)):
            continue
        if all(_passes(check, candidate) for check in checks):
            return candidate
    model, _, name = where.partition(".")
    raise OdmError(
        f"cannot make a value of {where} that its pattern or its condition accepts: pass one, as "
        f"make({model}, {name}=…)"
    )


def _passes(check: Callable[[Any], Any], value: Any) -> bool:
    found = check(value)
    # A regular expression finds a match or None.
    return found is not None and found is not False


def _of_pattern(check: Any) -> Any:
    """Return a text that a simple pattern matches: digits, letters and literals; None for others."""
    pattern = getattr(getattr(check, "__self__", None), "pattern", None)
    if not isinstance(pattern, str):
        return None
    text = re.sub(r"\\d|\[0-9\]", "7", pattern.strip("^$"))
    text = re.sub(r"\[A-Z\]", "K", re.sub(r"\\w|\[a-z\]|\[a-zA-Z\]", "k", text))
    text = re.sub(r"(.)\{(\d+)(?:,\d*)?\}", lambda found: found[1] * int(found[2]), text)
    return re.sub(r"\\(.)", r"\1", text.replace("+", ""))


def _number(checks: dict[str, Any], kind: Callable[[Any], Any]) -> Any:
    """Return the next number within bounds."""
    step = checks.get("multiple_of", 1)
    low: Any = checks.get("ge", checks.get("gt"))
    high: Any = checks.get("le", checks.get("lt"))
    count = next(_numbers)
    if low is None and high is None:
        return kind(count * step)
    if low is None or high is None:
        # Away from the only bound.
        bound = low if low is not None else high
        first = -(-bound // step) * step if low is not None else bound // step * step
        return kind(first + (count if low is not None else -count) * step)
    if kind is int or "multiple_of" in checks:
        first, last = _whole(checks, low, high)
        size = int((last - first) // step) + 1
        return kind(first + count % max(size, 1) * step)
    part = kind(count % 999 + 1) / kind(1000)
    return kind(low) + (kind(high) - kind(low)) * part


def _whole(checks: dict[str, Any], low: Any, high: Any) -> tuple[Any, Any]:
    """Return the first and the last multiple within bounds; of integers without a step, of 1."""
    step = checks.get("multiple_of", 1)
    first = -(-low // step) * step + (step if "gt" in checks and low % step == 0 else 0)
    last = high // step * step - (step if "lt" in checks and high % step == 0 else 0)
    return first, last


def _text(checks: dict[str, Any], prefix: str = "text") -> str:
    low, high = checks.get("min_length", 0), checks.get("max_length", 1000)
    number = str(next(_numbers))
    text = f"{prefix} {number}"
    if len(text) > high:
        text = number[-high:] if high else ""
    return text.ljust(low, "x")


def _moment(checks: dict[str, Any], start: Any, unit: dt.timedelta) -> Any:
    """Return the next moment, or day, within bounds."""
    first, last = _span(checks, unit)
    count = next(_numbers)
    if first is not None:
        return first + (count if last is None else count % max((last - first) // unit + 1, 1)) * unit
    if last is not None:
        return last - count * unit
    return start + count * max(unit, dt.timedelta(minutes=1))


def _span(checks: dict[str, Any], unit: dt.timedelta) -> tuple[Any, Any]:
    """Return the first and the last moment, or day, in whole units that bounds allow; None: there is no bound."""
    first = last = None
    for kind, bound in checks.items():
        if kind not in ("ge", "gt", "le", "lt"):
            continue
        is_moment = isinstance(bound, dt.datetime)
        origin = dt.datetime.min.replace(tzinfo=bound.tzinfo) if is_moment else dt.date.min
        # At the bound, or the unit before it.
        whole = bound - (bound - origin) % unit
        if kind in ("ge", "gt"):
            whole += unit if whole < bound or kind == "gt" else 0 * unit
            first = whole if first is None else max(first, whole)
        else:
            whole -= unit if whole == bound and kind == "lt" else 0 * unit
            last = whole if last is None else min(last, whole)
    return first, last


_WISHES = {
    "ge": ">= {}",
    "gt": "> {}",
    "le": "<= {}",
    "lt": "< {}",
    "min_length": "a length of at least {}",
    "max_length": "a length of at most {}",
    "multiple_of": "a multiple of {}",
}


def _constraints(where: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the constraints of a type.

    Raises:
        OdmError: they contradict one another.
    """
    checks = dict(spec["checks"])
    if _is_contradiction(spec["op"], spec["argument"], checks):
        wishes = [_WISHES[kind].format(bound) for kind, bound in checks.items() if kind in _WISHES]
        label = spec["label"].partition(",")[0]
        raise OdmError(
            f"cannot make {where}: no {label} meets its constraints, {' and '.join(wishes)}, which contradict one "
            "another; correct them"
        )
    return checks


def _is_contradiction(op: str, argument: Any, checks: dict[str, Any]) -> bool:
    """Whether no value of a type can fulfil these constraints."""
    if checks.get("min_length", 0) > checks.get("max_length", math.inf):
        return True
    if op in ("datetime", "date"):
        first, last = _span(checks, _DAY if op == "date" else _MILLISECOND)
        return first is not None and last is not None and first > last
    low, high = checks.get("ge", checks.get("gt")), checks.get("le", checks.get("lt"))
    if low is None or high is None:
        return False
    if op == "int" or argument is Int64 or "multiple_of" in checks:
        first, last = _whole(checks, low, high)
        return bool(first > last)
    return bool(low > high or (low == high and ("gt" in checks or "lt" in checks)))


def _size(checks: dict[str, Any]) -> int:
    """Return the smallest allowed length above zero; 0 if only an empty value is allowed."""
    return max(checks.get("min_length", 0), min(1, checks.get("max_length", 1)))


def _value(where: str, spec: dict[str, Any]) -> Any:
    """Return a value of a described type, of the field `where`."""
    op, argument, checks = spec["op"], spec["argument"], _constraints(where, spec)
    if op in _PLAIN:
        return _PLAIN[op](checks)
    if op == "datetime":
        return _moment(checks, _START if argument else _START.replace(tzinfo=None), _MILLISECOND)
    if op in ("set", "frozenset"):
        kind: Any = set if op == "set" else frozenset
        return kind(_distinct(where, argument, _size(checks)))
    if op in ("list", "tuple_of"):
        made = [_value(where, argument) for _ in range(_size(checks))]
        return made if op == "list" else tuple(made)
    if op == "tuple":
        return tuple(_value(where, inner) for inner in argument)
    if op == "dict":
        return {f"key{number}": _value(where, argument) for number in range(_size(checks))}
    if op == "embedded":
        return make(argument)
    if op == "literal":
        return argument[0]
    if op == "enum":
        return next(iter(argument[0]))
    if op == "union":
        _, rows, others = argument
        return make(rows[0][1]) if rows else _value(where, others[0])
    if op == "ref":
        return _value(where, argument[2])
    if op == "refs":
        return [_value(where, argument[2]) for _ in range(checks.get("min_length", 0))]
    if op == "geo":
        return _GEOMETRIES[argument[1]]()
    if op == "instance" and argument is Int64:
        return Int64(_number(checks, int))
    if op == "instance":
        return _INSTANCES[argument]() if argument in _INSTANCES else argument()
    if op == "custom":
        return _custom(argument, spec["label"])
    raise OdmError(f"cannot make a value of the type {spec['label']} for {where}: pass one")


def _distinct(where: str, spec: dict[str, Any], size: int) -> list[Any]:
    """Return different values of a described type.

    Raises:
        OdmError: it has fewer.
    """
    few: dict[str, Callable[[], Any]] = {
        "bool": lambda: (True, False),
        "literal": lambda: spec["argument"],
        "enum": lambda: spec["argument"][0],
        "none": lambda: (None,),
    }
    made = few[spec["op"]]() if spec["op"] in few else (_value(where, spec) for _ in range(_TRIES + size))
    found = list(itertools.islice(dict.fromkeys(made), size))
    if len(found) < size:
        raise OdmError(
            f"cannot make {where}: expected {size} different values of {spec['label']}, got {len(found)}"
        )
    return found


def _texts() -> tuple[str, ...]:
    """Return texts in the usual forms: addresses, names, networks."""
    number = next(_numbers)
    return (
        f"text{number}@example.org",
        f"https://example.org/{number}",
        f"192.0.2.{number % 250 + 1}",
        f"2001:db8::{number % 9999:x}",
        "192.0.2.0/24",
        "2001:db8::/32",
        f"text{number}",
    )


def _custom(argument: Any, label: str) -> Any:
    load, _, kind = argument
    if kind is collections.deque:
        return collections.deque()
    for candidate in (*_texts(), next(_numbers), {}):
        try:
            return load(candidate)
        except (TypeError, ValueError, AttributeError, KeyError, LookupError):
            continue
    raise OdmError(f"cannot make a value of the type {label}: pass one")


_PLAIN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "str": _text,
    "int": lambda checks: _number(checks, int),
    "float": lambda checks: _number(checks, float),
    "decimal": lambda checks: _number(checks, decimal.Decimal),
    "bool": lambda checks: True,
    "bytes": lambda checks: _text(checks).encode(),
    "object_id": lambda checks: ObjectId(),
    "date": lambda checks: _moment(checks, _START.date(), _DAY),
    "none": lambda checks: None,
    "any": lambda checks: _text(checks),
}
_RING = [[0.0, 0.0], [3.0, 6.0], [6.0, 1.0], [0.0, 0.0]]
_GEOMETRIES: dict[str, Callable[[], Any]] = {
    "Point": lambda: geo.Point(next(_numbers) % 180, next(_numbers) % 80),
    "LineString": lambda: geo.LineString([(0, 0), (1, 1)]),
    "Polygon": lambda: geo.Polygon(_RING),
    "MultiPoint": lambda: geo.MultiPoint([(0, 0), (1, 1)]),
    "MultiLineString": lambda: geo.MultiLineString([[(0, 0), (1, 1)]]),
    "MultiPolygon": lambda: geo.MultiPolygon([[_RING]]),
}
_INSTANCES: dict[Any, Callable[[], Any]] = {
    uuid.UUID: uuid.uuid4,
    Decimal128: lambda: Decimal128(str(next(_numbers))),
    Binary: lambda: Binary(_text({}).encode()),
    Code: lambda: Code("return 1"),
    DBRef: lambda: DBRef("collection", next(_numbers)),
    Regex: lambda: Regex("^a"),
    Timestamp: lambda: Timestamp(next(_numbers), 1),
    MinKey: MinKey,
    MaxKey: MaxKey,
}


# The strategies of models, by model.
_strategies: dict[Any, Any] = {}


def from_model(model: type[T], **strategies: Any) -> SearchStrategy[T]:
    """Return a strategy of hypothesis for valid instances of a model, every field varied by type and constraint.

    Args:
        model: a class of documents or of embedded documents.
        strategies: by attribute: a strategy of other values for a field, or one fixed value.

    Raises:
        ImportError: hypothesis is not installed.
        TypeError: the model has no such field, or it is no model.
        OdmError: a type has no strategy; pass one.

    Example:
        >>> from hypothesis import given
        >>> @given(from_model(User, name="Ada"))
        ... def test_a_user_has_an_age(user):
        ...     assert user.name == "Ada" and user.age is not None
    """
    from hypothesis import strategies as st

    if not is_model(model):
        raise TypeError(f"expected a model, got {model!r}")
    cls: Any = model
    unknown = strategies.keys() - cls.__plan__.fields.keys()
    if unknown:
        raise TypeError(f"{cls.__name__} has no field {', '.join(map(repr, sorted(unknown)))}")
    if strategies:
        return st.deferred(lambda: _instances(st, cls, strategies))
    if cls not in _strategies:
        # One strategy for each model: a model that contains itself would otherwise get new ones at every depth.
        _strategies[cls] = st.deferred(lambda: _instances(st, cls, {}))
    return _strategies[cls]


def _instances(st: Any, cls: Any, strategies: dict[str, Any]) -> Any:
    from hypothesis.strategies import SearchStrategy

    parts: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for name, field in cls.__plan__.fields.items():
        spec = spec_of(field.type, field.metadata, field.nullable, cls, field.info)
        kind = default_of(field, spec)[0]
        if name in strategies:
            given = strategies[name]
            parts[name] = given if isinstance(given, SearchStrategy) else st.just(given)
        elif field.is_version or field.sequence is not None:
            # Saves count these.
            continue
        elif kind == "required":
            parts[name] = _strategy(st, f"{cls.__name__}.{name}", spec)
        else:
            optional[name] = _strategy(st, f"{cls.__name__}.{name}", spec)
    return st.fixed_dictionaries(parts, optional=optional).map(lambda values: cls(**values))


def _strategy(st: Any, where: str, spec: dict[str, Any]) -> Any:
    """Return the strategy of a described type, of the field `where`."""
    checks = _constraints(where, spec)
    found = _plain_strategy(st, where, checks, spec)
    for kind, check in spec["checks"]:
        if kind == "pattern":
            # The expression matches a text generated from it.
            pattern = check.__self__
            found = _matching(st, pattern).filter(_of_length(checks))
        elif kind == "predicate":
            found = found.filter(lambda value, check=check: _passes(check, value))
    return st.none() | found if spec["nullable"] else found


def _matching(st: Any, pattern: re.Pattern[str]) -> Any:
    """Return the strategy of the texts that a pattern matches."""
    word = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=8)
    # hypothesis finds few texts for patterns with lookahead, such as these.
    if pattern is get_args(Email)[1]:
        return st.builds("{}.{}@{}.example.org".format, word, word, word)
    if pattern is get_args(Url)[1]:
        return st.builds(
            "{}://{}.example.org/{}".format, st.sampled_from(["http", "https", "ftp"]), word, word
        )
    return st.from_regex(pattern)


def _of_length(sizes: dict[str, Any]) -> Callable[[str], bool]:
    low, high = sizes.get("min_length", 0), sizes.get("max_length")

    def fits(text: str) -> bool:
        is_text = not any(0xD800 <= ord(letter) <= 0xDFFF for letter in text)
        return is_text and low <= len(text) and (high is None or len(text) <= high)

    return fits


def _plain_strategy(st: Any, where: str, checks: dict[str, Any], spec: dict[str, Any]) -> Any:
    op, argument = spec["op"], spec["argument"]
    sizes: dict[str, Any] = {}
    if "min_length" in checks:
        sizes["min_size"] = checks["min_length"]
    if "max_length" in checks:
        sizes["max_size"] = checks["max_length"]
    few = {"max_size": 5 + checks.get("min_length", 0), **sizes}
    if op == "str":
        return st.text(st.characters(exclude_categories=("Cs",)), **sizes)
    if op in ("int", "float", "decimal"):
        return _numbers_of(st, op, checks)
    if op == "datetime":
        low, high = (
            bound if bound is None or bound.tzinfo is None else bound.astimezone(dt.UTC).replace(tzinfo=None)
            for bound in _span(checks, _MILLISECOND)
        )
        moments = st.datetimes(low or dt.datetime(1, 1, 2), high or dt.datetime(9999, 12, 30)).map(
            lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        )
        return moments.map(lambda moment: moment.replace(tzinfo=dt.UTC)) if argument else moments
    if op == "list":
        return st.lists(_strategy(st, where, argument), **few)
    if op in ("set", "frozenset"):
        kind = st.sets if op == "set" else st.frozensets
        return kind(_strategy(st, where, argument), **few)
    if op == "tuple_of":
        return st.lists(_strategy(st, where, argument), **few).map(tuple)
    if op == "tuple":
        return st.tuples(*(_strategy(st, where, inner) for inner in argument))
    if op == "dict":
        # The server takes names with dots and dollars only in some places.
        keys = st.text("abcdefghijklmnopqrstuvwxyz_0123456789", min_size=1, max_size=8)
        return st.dictionaries(keys, _strategy(st, where, argument), **few)
    if op == "embedded":
        return from_model(argument)
    if op == "literal":
        return st.sampled_from(argument)
    if op == "enum":
        return st.sampled_from(list(argument[0]))
    if op == "union":
        models = list(dict.fromkeys(model for _, model in argument[1]))
        return st.one_of(*map(from_model, models), *(_strategy(st, where, other) for other in argument[2]))
    if op == "ref":
        return _strategy(st, where, argument[2])
    if op == "refs":
        return st.lists(_strategy(st, where, argument[2]), unique_by=repr, **few)
    if op == "geo":
        return _geometries(st, argument[1])
    if op == "object_id":
        return st.binary(min_size=12, max_size=12).map(ObjectId)
    simple: dict[str, Callable[[], Any]] = {
        "bool": st.booleans,
        "bytes": lambda: st.binary(**sizes),
        "date": lambda: st.dates(
            *(bound or edge for bound, edge in zip(_span(checks, _DAY), _DATES, strict=True))
        ),
        "none": st.none,
        "any": lambda: st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text("abc"),
    }
    if op in simple:
        return simple[op]()
    if op == "instance" and argument is uuid.UUID:
        return st.uuids()
    if op == "instance" and argument is Int64:
        return _numbers_of(st, "int", checks).map(Int64)
    # Each example gets a fresh value, as in `make`.
    return st.builds(lambda: _value(where, {**spec, "nullable": False}))


_DATES = dt.date(1, 1, 2), dt.date(9999, 12, 30)


def _geometries(st: Any, name: str) -> Any:
    """Return the strategy of a geometry that a 2dsphere index takes: distinct points, and rings that do not cross."""
    if name == "Point":
        return st.builds(geo.Point, st.floats(-180, 180), st.floats(-90, 90))
    # Thousandths of a degree: the server takes nearer points for the same one.
    degrees = st.integers(-80_000, 80_000).map(lambda number: number / 1000)
    lines = st.lists(st.tuples(degrees, degrees), min_size=2, max_size=5, unique=True)
    sizes = st.tuples(*[st.integers(2, 9)] * 4)
    made: dict[str, Callable[[], Any]] = {
        "LineString": lambda: lines.map(geo.LineString),
        "Polygon": lambda: st.tuples(sizes, st.booleans()).map(lambda each: geo.Polygon(*_rings(0, *each))),
        "MultiPoint": lambda: lines.map(geo.MultiPoint),
        "MultiLineString": lambda: st.lists(lines, min_size=1, max_size=3).map(geo.MultiLineString),
        # Side by side, since the polygons of one geometry may not overlap.
        "MultiPolygon": lambda: st.lists(st.tuples(sizes, st.booleans()), min_size=1, max_size=3).map(
            lambda parts: geo.MultiPolygon([_rings(place, *part) for place, part in enumerate(parts)])
        ),
    }
    return made[name]()


def _rings(place: int, sizes: tuple[int, int, int, int], has_hole: bool) -> list[list[tuple[float, float]]]:
    """Return the rings of a rectangle, with or without a hole, in the band of longitudes of this number."""
    left, low, width, height = sizes
    left += 20 * place

    def ring(inset: float) -> list[tuple[float, float]]:
        west, east, south, north = left + inset, left + width - inset, low + inset, low + height - inset
        return [(west, south), (east, south), (east, north), (west, north), (west, south)]

    return [ring(0), ring(0.5)] if has_hole else [ring(0)]


def _numbers_of(st: Any, op: str, checks: dict[str, Any]) -> Any:
    low = checks.get("ge", checks.get("gt"))
    high = checks.get("le", checks.get("lt"))
    step = checks.get("multiple_of")
    if op == "int":
        least, most = -(2**63), 2**63 - 1
        if low is not None:
            least = max(least, -(-low // 1) + (1 if "gt" in checks and low == low // 1 else 0))
        if high is not None:
            most = min(most, high // 1 - (1 if "lt" in checks and high == high // 1 else 0))
        if step is not None:
            return st.integers(-(-int(least) // step), int(most) // step).map(lambda number: number * step)
        return st.integers(int(least), int(most))
    if step is not None:
        kind: Any = float if op == "float" else decimal.Decimal
        # Without a bound on one side, use two thousand steps from the other.
        least, most = -1000, 1000
        if low is not None:
            least = int(low // step)
            most = least + 2000
        if high is not None:
            most = int(high // step)
            least = most - 2000 if low is None else least
        return st.integers(least, most).map(lambda number: kind(number * step)).filter(_within(checks))
    if op == "float":
        edges = {"exclude_min": "gt" in checks, "exclude_max": "lt" in checks}
        return st.floats(low, high, allow_nan=False, allow_infinity=False, **edges)
    bounds = [decimal.Decimal(str(bound)) for bound in (low, high) if bound is not None]
    # One decimal place more than the bounds have, so that there is a number between them.
    places = max(2, *(1 - int(bound.as_tuple().exponent) for bound in bounds), 2)
    found = st.decimals(low, high, allow_nan=False, allow_infinity=False, places=places)
    return found.filter(_within(checks)).filter(lambda number: len(number.as_tuple().digits) <= 34)


def _within(checks: dict[str, Any]) -> Callable[[Any], bool]:
    def is_within(number: Any) -> bool:
        step = checks.get("multiple_of")
        return (
            ("gt" not in checks or number > checks["gt"])
            and ("ge" not in checks or number >= checks["ge"])
            and ("lt" not in checks or number < checks["lt"])
            and ("le" not in checks or number <= checks["le"])
            and (step is None or number % step == 0)
        )

    return is_within
