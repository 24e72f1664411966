"""Concerns, preferences, collations, write models and results, compared with PyMongo's on the same input."""

from __future__ import annotations

import copy
import importlib
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest


def _outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the classes of its exception, without the packages' names."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = call()
        except Exception as error:
            return "raises", [base.__name__ for base in type(error).__mro__ if base.__name__ not in ADDED]
    return value, sorted(warning.category.__name__ for warning in caught)


# Classes of this driver's error tree that PyMongo's lacks.
ADDED = {"UsageError", "NetworkError"}

# Module, class, and arguments as evaluated for each package: `m` is the package's module finder.
CONSTRUCTIONS = [
    ("write_concern", "WriteConcern", arguments)
    for arguments in [
        {},
        *({"w": w} for w in (0, 1, 3, -1, "majority", "0", True, False, 1.5, [])),
        *({"wtimeout": t} for t in (0, 100, -1, "5", 1.5)),
        *({"j": j} for j in (True, False, 1, "true")),
        *({"fsync": f} for f in (True, False, 0)),
        {"j": True, "fsync": True},
        {"j": False, "fsync": True},
        {"w": 0, "j": True},
        {"w": 0, "j": False},
        {"w": "majority", "wtimeout": 5, "j": True},
    ]
]
CONSTRUCTIONS += [
    ("read_concern", "ReadConcern", {"level": level})
    for level in (None, "local", "majority", "", 1, b"local")
]
CONSTRUCTIONS += [
    ("read_preferences", name, arguments)
    for name in ("PrimaryPreferred", "Secondary", "SecondaryPreferred", "Nearest")
    for arguments in [
        {},
        *({"tag_sets": t} for t in ([{}], [{"dc": "ny"}, {}], ({"dc": "ny"},), [], {}, [1], "dc", None)),
        *({"max_staleness": s} for s in (-1, 90, 0, -2, 1.5, "90", True)),
        *({"hedge": h} for h in ({}, {"enabled": True}, [], None)),
    ]
]
CONSTRUCTIONS += [
    ("collation", "Collation", arguments)
    for arguments in [
        {"locale": "en_US"},
        {"locale": 1},
        {"locale": "en", "caseLevel": True, "strength": 2, "numericOrdering": True, "backwards": False},
        {"locale": "en", "caseFirst": "upper", "alternate": "shifted", "maxVariable": "punct"},
        {"locale": "en", "normalization": True, "extra": 1},
        {"locale": "en", "strength": "2"},
        {"locale": "en", "strength": "x"},
        {"locale": "en", "strength": 1.5},
        {"locale": "en", "caseLevel": 1},
        {"locale": "en", "caseFirst": 1},
    ]
]
CONSTRUCTIONS += [
    ("server_api", "ServerApi", arguments)
    for arguments in [
        {"version": "1"},
        {"version": "2"},
        {"version": "1", "strict": True, "deprecation_errors": False},
        {"version": "1", "strict": 1},
        {"version": "1", "deprecation_errors": "yes"},
    ]
]
CONSTRUCTIONS += [
    ("driver_info", "DriverInfo", arguments)
    for arguments in [
        {"name": "a"},
        {"name": "a", "version": "1", "platform": "p"},
        {"name": None},
        {"name": 1},
        {"name": "a|b"},
        {"name": "a", "version": 1},
    ]
]
FILTERED = [
    {"filter": {}},
    {"filter": {"a": 1}, "collation": {"locale": "en"}, "hint": "a_1"},
    {"filter": {"a": 1}, "hint": [("a", 1)]},
    {"filter": {"a": 1}, "hint": {"a": -1}},
    {"filter": {"a": 1}, "hint": ["a", ("b", "2d")]},
    {"filter": {"a": 1}, "hint": []},
    {"filter": {"a": 1}, "hint": 5},
    {"filter": {"a": 1}, "hint": [(1, 1)]},
    {"filter": {"a": 1}, "hint": [("a", 1.5)]},
    {"filter": None},
    {"filter": []},
    {"filter": {}, "namespace": "db.c"},
]
CONSTRUCTIONS += [("operations", name, a) for name in ("DeleteOne", "DeleteMany") for a in FILTERED]
UPSERTS = [{}, {"upsert": True}, {"upsert": False}, {"upsert": 1}]
CONSTRUCTIONS += [
    ("operations", name, {**f, "update": {"$set": {"a": 1}}, **u, **extra})
    for name in ("UpdateOne", "UpdateMany")
    for f in FILTERED
    for u in UPSERTS
    for extra in ({}, {"array_filters": [{"x": 1}]}, {"array_filters": {}}, {"sort": {"a": 1}})
]
CONSTRUCTIONS += [
    ("operations", "ReplaceOne", {**f, "replacement": {"a": 1}, **u, **extra})
    for f in FILTERED
    for u in UPSERTS
    for extra in ({}, {"sort": {"a": 1}})
]
CONSTRUCTIONS += [
    ("operations", "InsertOne", a)
    for a in ({"document": {"a": 1}}, {"document": {"a": 1}, "namespace": "d.c"})
]
CONSTRUCTIONS += [
    ("operations", "IndexModel", a)
    for a in [
        {"keys": "a"},
        {"keys": ["a", ("b", -1)]},
        {"keys": [("a", "text"), ("b", {"x": 1})], "unique": True, "name": "n"},
        {"keys": {"a": 1, "b": "2d"}, "collation": {"locale": "en"}},
        {"keys": []},
        {"keys": {}},
        {"keys": 5},
        {"keys": [("a", 1.5)]},
        {"keys": [(1, 1)]},
        {"keys": "a", "collation": 5},
        {"keys": "a", "name": None},
    ]
]
CONSTRUCTIONS += [
    ("operations", "SearchIndexModel", a)
    for a in [
        {"definition": {}},
        {"definition": {"mappings": {}}, "name": "n", "type": "vectorSearch", "extra": 1},
        {"definition": None},
    ]
]
REPLIES: list[dict[str, Any]] = [
    {"n": 1, "nModified": 1},
    {"n": 1, "nModified": 0, "upserted": 5},
    {"n": 1, "nModified": 0, "upserted": None},
    {"n": 0, "nModified": 0},
    {"n": 1, "nModified": 0, "upserted": {"_id": 5, "index": 0}},
]
CONSTRUCTIONS += [
    ("results", "UpdateResult", {"raw_result": r, "acknowledged": a, "in_client_bulk": b})
    for r in REPLIES
    for a in (True, False)
    for b in (True, False)
    # Not as a server replies to a client's bulk_write, where `upserted` is a document.
    if not (b and not isinstance(r.get("upserted", {}), dict))
]
CONSTRUCTIONS += [
    ("results", "DeleteResult", {"raw_result": r, "acknowledged": a})
    for r in ({"n": 2}, {})
    for a in (True, False)
]
CONSTRUCTIONS += [
    ("results", "InsertOneResult", {"inserted_id": 1, "acknowledged": a}) for a in (True, False)
]
CONSTRUCTIONS += [
    ("results", "InsertManyResult", {"inserted_ids": [1], "acknowledged": a}) for a in (True, False)
]
BULK = {"nInserted": 1, "nMatched": 2, "nModified": 3, "nUpserted": 4, "upserted": [{"index": 1, "_id": 2}]}
CONSTRUCTIONS += [
    ("results", "BulkWriteResult", {"bulk_api_result": r, "acknowledged": a})
    for r in ({**BULK, "nRemoved": 5}, {})
    for a in (True, False)
]
CONSTRUCTIONS += [
    (
        "results",
        "ClientBulkWriteResult",
        {"bulk_api_result": {**BULK, "nDeleted": 5}, "acknowledged": a, "has_verbose_results": v},
    )
    for a in (True, False)
    for v in (True, False)
]


def _made(package: str, module: str, name: str, arguments: dict[str, Any]) -> Any:
    return getattr(importlib.import_module(f"{package}.{module}"), name)(**copy.deepcopy(arguments))


def _visible(value: Any) -> Iterator[tuple[str, Any]]:
    """Return each public property with its value."""
    for name in sorted(dir(type(value))):
        if not name.startswith("_") and not callable(getattr(type(value), name)):
            yield name, _outcome(lambda name=name: getattr(value, name))  # type: ignore[misc]


@pytest.mark.parametrize(("module", "name", "arguments"), CONSTRUCTIONS, ids=repr)
def test_value_is_made_and_shows_itself_as_pymongos_does(module: str, name: str, arguments: Any) -> None:
    ours = _outcome(lambda: _made("mangonel", module, name, arguments))
    theirs = _outcome(lambda: _made("pymongo", module, name, arguments))

    if theirs[0] == "raises" or isinstance(ours[0], str):
        assert ours == theirs
        return
    assert ours[1] == theirs[1]
    if module != "server_api":  # PyMongo's has no repr of its own.
        assert repr(ours[0]) == repr(theirs[0])
    assert [fact for fact in _visible(ours[0]) if fact[0] != "did_upsert"] == [
        fact for fact in _visible(theirs[0]) if fact[0] != "did_upsert"
    ]


COMPARED = [case for case in CONSTRUCTIONS if case[0] not in ("results", "server_api")]


@pytest.mark.parametrize(
    "module", ["write_concern", "read_concern", "read_preferences", "collation", "operations"]
)
def test_values_are_equal_when_pymongos_are(module: str) -> None:
    def made(package: str) -> list[Any]:
        cases = [case for case in COMPARED if case[0] == module and case[1] != "IndexModel"]
        values = [_outcome(lambda case=case: _made(package, *case)) for case in cases]  # type: ignore[misc]
        return [
            value for value, _ in values if value != "raises" and type(value).__name__ != "SearchIndexModel"
        ]

    ours, theirs = made("mangonel"), made("pymongo")
    assert len(ours) == len(theirs) > 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for left in range(0, len(ours), 3):
            for right in range(len(ours)):
                assert (ours[left] == ours[right]) == (theirs[left] == theirs[right]), (
                    ours[left],
                    ours[right],
                )
                assert (ours[left] != ours[right]) == (theirs[left] != theirs[right])
        assert all(value.__hash__ is None for value in ours)


@pytest.mark.parametrize("mode", range(5))
@pytest.mark.parametrize("tags", [None, [{}], [{"a": "b"}]], ids=str)
@pytest.mark.parametrize("staleness", [-1, 90])
def test_read_preference_is_made_by_mode_as_in_pymongo(mode: int, tags: Any, staleness: int) -> None:
    def made(package: str) -> Any:
        module = importlib.import_module(f"{package}.read_preferences")
        return _outcome(lambda: module.make_read_preference(mode, tags, staleness))

    assert repr(made("mangonel")) == repr(made("pymongo"))


def test_index_keys_may_be_the_items_of_a_dict() -> None:
    from mangonel.operations import IndexModel

    assert IndexModel({"a": 1, "b": -1}.items()) == IndexModel([("a", 1), ("b", -1)])  # type: ignore[arg-type]


def test_read_preferences_pickle() -> None:
    from mangonel.read_preferences import Nearest, ReadPreference

    for preference in (ReadPreference.PRIMARY, Nearest([{"dc": "ny"}], 90)):
        assert pickle.loads(pickle.dumps(preference)) == preference


def test_a_moving_average_goes_as_pymongos() -> None:
    import pymongo.read_preferences

    from mangonel import read_preferences

    averages = read_preferences.MovingAverage(), pymongo.read_preferences.MovingAverage()
    for sample in (10.0, 20.0, 5.0, 0.0, 7.5):
        for average in averages:
            average.add_sample(sample)
        assert averages[0].get() == pytest.approx(averages[1].get())
    for average in averages:
        with pytest.raises(ValueError):
            average.add_sample(-1)
        average.reset()
        assert average.get() is None


def test_constants_have_pymongos_values() -> None:
    import pymongo
    import pymongo.collation
    import pymongo.cursor_shared
    import pymongo.server_type

    from mangonel import collation, constants, cursor_shared, server_type

    for name in ("ASCENDING", "DESCENDING", "GEO2D", "GEOSPHERE", "HASHED", "TEXT"):
        assert getattr(constants, name) == getattr(pymongo, name)
    pairs = [(constants.ReturnDocument, pymongo.ReturnDocument)]
    pairs += [(cursor_shared.CursorType, pymongo.CursorType)]
    names = ("CollationStrength", "CollationAlternate", "CollationMaxVariable", "CollationCaseFirst")
    pairs += [(getattr(collation, name), getattr(pymongo.collation, name)) for name in names]
    for ours, theirs in pairs:
        assert _constants(ours) == _constants(theirs)
    assert server_type.SERVER_TYPE._asdict() == pymongo.server_type.SERVER_TYPE._asdict()


def _constants(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if name.isupper()}
