"""The small value types behave as in PyMongo's package: construction, repr, comparison, hash."""

from __future__ import annotations

from collections.abc import Callable

import pytest

TIMESTAMP = """
Timestamp(1, 2)
Timestamp(time=1, inc=2)
Timestamp("a", 2)
Timestamp(1, "x")
Timestamp(1, 2.5)
Timestamp(1.5, 2)
Timestamp(None, 2)
Timestamp(2**32, 2)
Timestamp(-1, 2)
Timestamp(1, -1)
Timestamp(1, 2**32)
Timestamp(2**32 - 1, 2**32 - 1).as_datetime()
Timestamp(0, 0).as_datetime()
Timestamp(dt(2020, 1, 1), 1)
Timestamp(dt(2020, 1, 1, 0, 0, 0, 999999), 1)
Timestamp(dt(2020, 1, 1, tzinfo=east), 1)
Timestamp(dt(1960, 1, 1), 1)
Timestamp(dt(2200, 1, 1), 1)
Timestamp(1, 2) == Timestamp(1, 2), Timestamp(1, 2) != Timestamp(1, 2)
Timestamp(1, 2) == (1, 2), Timestamp(1, 2) != (1, 2)
Timestamp(1, 2) < Timestamp(1, 3), Timestamp(2, 0) > Timestamp(1, 9)
Timestamp(1, 1) <= Timestamp(1, 1), Timestamp(1, 1) >= Timestamp(1, 2)
Timestamp(1, 2) < 5
Timestamp(1, 2) >= None
hash(Timestamp(1, 2)), hash(Timestamp(2**31, 7))
Timestamp(1, 2).time, Timestamp(1, 2).inc
setattr(Timestamp(1, 2), "time", 3)
setattr(Timestamp(1, 2), "other", 3)
Timestamp(1, 2)._type_marker
Timestamp(1, 2).__getstate__()
"""

REGEX = """
Regex("a", "i").flags, Regex("a", "ilmsux").flags, Regex("a", "iq").flags
Regex("a", "")
Regex("a", 5)
Regex("a", re.I | re.M)
Regex(b"a", 2)
Regex(pattern="a", flags="x")
Regex("a", None)
Regex("a", 1.5)
Regex(5, 1)
Regex(None)
Regex("a", 2) == Regex("a", 2), Regex("a", 2) != Regex("a", 2), Regex("a") == Regex("b")
Regex("a", 1) == Regex("a", 2), Regex("a") == re.compile("a"), Regex("a") == "a"
hash(Regex("a"))
Regex("a", "i").try_compile()
Regex(b"a").try_compile()
Regex("(").try_compile()
Regex.from_native(re.compile("a", re.I))
Regex.from_native(re.compile(b"a", re.I))
Regex.from_native("a")
MyRegex("a", 2)
regex.str_flags_to_int("imxlsuz")
Regex("a")._type_marker
Regex("a").__getstate__()
repr(Regex[str]), repr(CodecOptions[int])
setattr(Regex("a"), "other", 1)
"""

CODE = """
Code("x")
Code("x", {"a": 1})
Code("x", {"a": 1}, b=2)
Code("x", b=2)
Code(Code("x", {"a": 1}), {"b": 1})
Code(Code("x", {"a": 1}))
Code(Code("x", {"a": 1}), b=3)
Code(Code("x"), b=3)
Code(5)
Code(b"x")
Code("x", 5)
Code("x", [1])
Code("x", {}).scope, Code("x").scope
Code("x", UserDict(a=1))
Code("x") == Code("x"), Code("x") != Code("x"), Code("x") == "x", "x" == Code("x"), Code("x") != "x"
Code("x") == Code("y"), Code("x", {}) == Code("y", {}), Code("x") != Code("y")
Code("x") == Code("x", {}), Code("x", {"a": 1}) == Code("x", {"a": 1})
hash(Code("x"))
str(Code("x", {})), len(Code("abc")), Code("abc") + "d", Code("abc")[1:]
Code("x").__getnewargs__()
Code("x")._type_marker
setattr(Code("x"), "scope", {})
(lambda scope: Code("x", scope).scope is scope)({})
(lambda scope: (Code("x", scope, b=1), scope))({})
"""

DBREF = """
DBRef("c", 1)
DBRef("c", 1, "d")
DBRef("c", 1, "d", x=1)
DBRef("c", 1, "d", {"x": 1}, y=2)
DBRef("c", 1, None, {"x": 1})
DBRef("c", 1, _extra={"x-y": 1})
DBRef(collection="c", id=1, database="d")
DBRef("c", 1, x=1).x
DBRef("c", 1, x=1).y
DBRef("c", 1).__wrapped__
DBRef(5, 1)
DBRef("c", 1, 5)
DBRef("c", OID).id, DBRef("c", 1).collection, DBRef("c", 1).database, DBRef("c", 1, "d").database
DBRef("c", 1, x=1).as_doc()
DBRef("c", 1, "d", x=1).as_doc()
DBRef("c", 1, "d") == DBRef("c", 1, "d"), DBRef("c", 1) == DBRef("c", 1, "d"), DBRef("c", 1) != DBRef("c", 1)
DBRef("c", 1) == DBRef("c", 1, x=1), DBRef("c", 1) == 5, DBRef("c", 1) != 5
hash(DBRef("c", 1)) == hash(DBRef("c", 1)), hash(DBRef("c", 1, x=1, y=2)) == hash(DBRef("c", 1, y=2, x=1))
hash(DBRef("c", {}))
DBRef("c", 1).__dict__
setattr(DBRef("c", 1), "foo", 2)
setattr(DBRef("c", 1), "id", 2)
DBRef("c", 1)._type_marker
DBRef("c", 1, "d", x=2).__getstate__()
"""

KEYS_AND_INT64 = """
MinKey(), MaxKey(), MinKey()._type_marker, MaxKey()._type_marker, Int64(1)._type_marker
[MinKey() < x for x in (1, None, MinKey(), MaxKey())], [MinKey() <= x for x in (1, None, MinKey(), MaxKey())]
[MinKey() > x for x in (1, None, MinKey(), MaxKey())], [MinKey() >= x for x in (1, None, MinKey(), MaxKey())]
[MaxKey() < x for x in (1, None, MinKey(), MaxKey())], [MaxKey() <= x for x in (1, None, MinKey(), MaxKey())]
[MaxKey() > x for x in (1, None, MinKey(), MaxKey())], [MaxKey() >= x for x in (1, None, MinKey(), MaxKey())]
1 > MinKey(), 1 < MinKey(), 1 >= MaxKey(), "a" < MaxKey(), 1 == MinKey(), 1 != MaxKey()
MinKey() == MinKey(), MinKey() != MinKey(), MinKey() == MaxKey(), MaxKey() == MaxKey(), MaxKey() != 1
hash(MinKey()), hash(MaxKey())
MinKey(1)
setattr(MinKey(), "a", 1)
sorted([3, MaxKey(), MinKey(), 1], key=lambda x: x)
Int64(5), str(Int64(5)), Int64("7"), Int64(5) == 5, hash(Int64(5)) == hash(5), type(Int64(5) + 1)
Int64(2**70)
Int64("x")
Int64(5).__getstate__(), MaxKey().__getstate__()
setattr(Int64(5), "a", 1)
"""

TIME_ZONES = """
FixedOffset(60, "x")
FixedOffset(timedelta(hours=1), "y")
FixedOffset(1.5, "y")
FixedOffset("a", "y")
tz_util.utc, tz_util.utc is utc, tz_util.ZERO
utc.utcoffset(None), utc.tzname(None), utc.dst(None), utc.__getinitargs__()
utc == FixedOffset(0, "UTC"), utc == utc, hash(utc) == hash(utc)
dt(2020, 1, 1, tzinfo=utc).astimezone(east)
dt(2020, 1, 1, tzinfo=east) == dt(2019, 12, 31, 23, tzinfo=utc)
"""

SON_TABLE = """
SON([("a", 1)]), SON({"a": 1}, b=2), SON(b=2), SON(None), SON(), SON(data={"a": 1})
SON(5)
SON([1])
SON([("a", 1), ("b", 2)]) == SON([("b", 2), ("a", 1)]), SON([("a", 1), ("b", 2)]) == {"b": 2, "a": 1}
{"b": 2, "a": 1} == SON([("a", 1), ("b", 2)]), SON([("a", 1)]) != {"a": 1}, SON([("a", 1)]) == [("a", 1)]
SON([("a", SON([("x", 1), ("y", 2)]))]) == SON([("a", SON([("y", 2), ("x", 1)]))])
SON([("a", {"x": 1, "y": 2})]) == SON([("a", {"y": 2, "x": 1})]), SON(a=1) == UserDict(a=1)
SON([("a", 1)]) == OrderedDict(a=1)
hash(SON())
(lambda s: (s.popitem(), s))(SON([("a", 1), ("b", 2)]))
SON().popitem()
SON(a=1).pop("a"), SON(a=1).pop("z", 5)
SON(a=1).pop("z")
SON(a=1).pop("z", 5, 6)
SON(a=1, b=2).keys(), SON(a=1, b=2).values(), SON(a=1, b=2).items(), list(SON(a=1, b=2)), len(SON(a=1))
SON(a=1).get("a"), SON(a=1).get("q"), SON(a=1).get("q", 3), "a" in SON(a=1)
SON(a=1).get()
(lambda s: (s.setdefault("z", 3), s.setdefault("z", 4), s))(SON(a=1))
SON(a=1).setdefault("z")
(lambda s: (s.update({"q": 1}), s.update([("r", 1)]), s.update(t=5), s.update(None), s))(SON(a=1))
SON(a=1).update(5)
(lambda s: (s.copy(), type(s.copy()), s.copy() is s))(SON(a=1))
(lambda s: (s.clear(), s, len(s)))(SON(a=1))
(lambda s: (s.__delitem__("a"), s.__setitem__("a", 3), s))(SON([("a", 1), ("b", 2)]))
(lambda s: (s.__setitem__("a", 3), s))(SON([("a", 1), ("b", 2)]))
SON([("a", SON([("b", [SON(c=1)])]))]).to_dict(), SON([("a", (SON(c=1),))]).to_dict()
type(SON(a=SON(b=1)).to_dict()["a"])
SON(a=1)["zz"]
SON(a=1) | {"b": 2}, list(reversed(SON(a=1, b=2))), SON.fromkeys(["a", "b"]), str(SON(a=1))
repr(SON[str, int])
"""


def lines(*tables: str) -> list[str]:
    return [line for table in tables for line in table.strip().splitlines()]


@pytest.mark.parametrize(
    "expression", lines(TIMESTAMP, REGEX, CODE, DBREF, KEYS_AND_INT64, TIME_ZONES, SON_TABLE)
)
def test_value_types_agree_with_the_field(expression: str, agree: Callable[[str], None]) -> None:
    agree(expression)


@pytest.mark.parametrize("method", ["has_key", "iterkeys", "itervalues"])
def test_old_methods_of_son_warn(method: str, ours: Callable[[str], object]) -> None:
    argument = "'a'" if method == "has_key" else ""

    with pytest.warns(DeprecationWarning, match=method):
        ours(f"list([SON(a=1).{method}({argument})])")
