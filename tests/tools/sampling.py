"""`--sample`: of tests with many faces, loops and paths, selects as many as cover each value and each pair once.

Each test has features to cover. Tests are taken, those with the most new features first, until every feature is covered
or enough cases of a test are taken. The choice depends on names alone, so each worker and each run takes the same
tests.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

__all__ = ["deselect", "sample"]

# The two ways of waiting, each with several variants. A test covers both; the variant changes from test to test.
KINDS = {
    "blocking": "blocking",
    "fused": "blocking",
    "reference": "blocking",
    "asyncio": "asyncio",
    "uvloop": "asyncio",
    "streams": "asyncio",
}

# Variants that differ from another only in how bytes are sent and received: played once per file, not per test.
SHARING = ("streams",)

# Cases of one test. A program makes larger tables, and other rows find what one row finds. The cases of `each_once` are
# all taken: most of those are others' tables, such as the official cases. Where a case is slow, for example because it
# starts a process or a server, the mark `enough` sets how many are taken.
ENOUGH = 8

# Marks a test that chooses its own sample.
AGAIN = "plays_a_sample"

# Fixtures whose tests all belong to `--rest`. Chromium takes half a second to start and one second for each page; where
# it is not installed, 13 s to install.
DEAR = ("chromium",)

Feature = tuple[Hashable, ...]
# Prefix of features to cover once in a file; the others start with the name of their test.
FILE = ""
# Parameters that are the same for all cases of a function, by its name and theirs.
Tables = dict[tuple[str, tuple[str, ...]], list[list[str]]]


def features(item: pytest.Item, once: pytest.Mark | None, tables: Tables) -> Iterator[Feature]:
    """Yield the features that this test covers."""
    callspec = getattr(item, "callspec", None)
    here = item.nodeid.partition("[")[0]
    if callspec is None:
        yield (here,)
        return
    values = {name: _identity(value) for name, value in callspec.params.items()}
    faces = {name: value for name, value in values.items() if value in KINDS}
    for name, value in faces.items():
        # Every way of waiting in each file, and in each test of several cases.
        yield (FILE, value)
        if len(values) > len(faces) and value not in SHARING:
            yield (here, name, value)
    alone = once.args if once is not None else ()
    kinds = {name: KINDS[value] if name in faces else value for name, value in values.items()}
    for name in (name for name in alone if name in kinds):
        yield (here, name, kinds.pop(name))
    rows = [
        tuple((name, kinds[name]) for name in names)
        for names in _rows(item, once, (here, tuple(kinds)), tables)
    ]
    for row in rows:
        yield (here, row)
    for pair in combinations(rows, 2):
        yield (here, *pair)


def _rows(
    item: pytest.Item, once: pytest.Mark | None, key: tuple[str, tuple[str, ...]], tables: Tables
) -> list[list[str]]:
    """Return the names of parameters that are given together: those of one mark are the columns of its table."""
    if key not in tables:
        tables[key] = list(_columns(item, once, list(key[1])))
    return tables[key]


def _columns(item: pytest.Item, once: pytest.Mark | None, names: list[str]) -> Iterator[list[str]]:
    if once is None:
        for mark in item.iter_markers("parametrize"):
            given = mark.args[0] if mark.args else mark.kwargs["argnames"]
            columns = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
            if found := [name for name in columns if name in names]:
                yield found
                names = [name for name in names if name not in found]
    for name in sorted(names):
        yield [name]


def _identity(value: Any) -> Hashable:
    """Return a key by which two values of a parameter count as equal."""
    return value if type(value) in (str, int, float, bytes, bool, type(None)) else id(value)


def sample(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that are enough, in their order."""
    by_file: dict[Any, list[pytest.Item]] = defaultdict(list)
    for item in items:
        by_file[item.path].append(item)
    taken: set[pytest.Item] = set()
    for found in by_file.values():
        taken |= _cover(found)
    return [item for item in items if item in taken]


def _cover(items: list[pytest.Item]) -> set[pytest.Item]:
    tables: Tables = {}
    once = {item: next(item.iter_markers("each_once"), None) for item in items}
    limits = {item: _limit(item, once[item]) for item in items}
    about = {item: set(features(item, once[item], tables)) for item in items}
    names = {item: item.nodeid for item in items}
    functions = {item: name.partition("[")[0] for item, name in names.items()}
    # By a hash of their names, so that no way of waiting is always the first.
    waiting = sorted(items, key=lambda item: zlib.crc32(names[item].encode()))
    met: set[Feature] = set()
    taken: set[pytest.Item] = set()
    counts: Counter[str] = Counter()
    for enough in range(max(len(found) for found in about.values()), 0, -1):
        left = []
        for item in waiting:
            new = about[item] - met
            if counts[functions[item]] >= limits[item]:
                # A way of waiting that the file lacks is played in any case.
                new = {feature for feature in new if feature[0] == FILE}
            if len(new) >= enough:
                taken.add(item)
                counts[functions[item]] += 1
                met |= about[item]
            elif new:
                left.append(item)
        waiting = left
    return taken


def _limit(item: pytest.Item, once: pytest.Mark | None) -> float:
    """Return how many cases of this test are taken."""
    mark = next(item.iter_markers("enough"), None)
    if mark is not None:
        return int(mark.args[0])
    return ENOUGH if once is None else math.inf


def _is_property(item: pytest.Item) -> bool:
    # Not from the plugin's mark, which is set only after the selection.
    return is_hypothesis_test(getattr(item, "obj", None))


def _is_left_out(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    return item.get_closest_marker("no_sample") is not None or any(name in fixtures for name in DEAR)


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reduce `items` to the tests that `--sample` takes, or to those left for `--rest`."""
    takes_sample, takes_rest = config.getoption("--sample"), config.getoption("--rest")
    if not takes_sample and not takes_rest:
        return
    taken = set(sample([item for item in items if not _is_left_out(item)]))
    if takes_rest:
        # With more examples than before, or more tests inside.
        again = {item for item in items if item.get_closest_marker(AGAIN) or _is_property(item)}
        taken = (set(items) - taken) | again
    left = [item for item in items if item not in taken]
    items[:] = [item for item in items if item in taken]
    config.hook.pytest_deselected(items=left)
