"""The cases in the unified test format, of every specification, on both faces and each suitable deployment."""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from mangonel.bson import Int64
from spec.unified import skipped
from spec.unified.deployments import Deployment
from spec.unified.driver import FACES, Face, load_driver
from spec.unified.runner import run_case
from spec.unified.suites import NO_FOLDER, Case, Facts, find_cases, folder, started, suites, where_it_runs
from tools import official, target

# The limits of these cases are 20 to 500 ms, which a busy machine uses up before a server answers. All of their times
# are multiplied: a driver that does not keep its limits fails as before. 1 plays them as they are published.
TIMED = "client-side-operations-timeout"
TIMES = int(os.environ.get("MANGONEL_SPECIFICATION_TIMES", "8"))
# Milliseconds from which a time counts as long.
LONG = 200
# Here a command that follows an expired one must get its reply within the same limit, 50 to 100 ms. A process of a busy
# continuous integration can stand still for eight times as long, so these times are doubled once more.
NARROW = ("gridfs-download",)
IN_CI = "CI" in os.environ and TIMES > 1
# Here a socket's limit is 100 ms and the reply comes after 125 ms: a client that stands still for the difference finds
# the reply, and no timeout occurs. So the reply is delayed, which costs a second for each.
CLOSE = ("retryability-legacy-timeouts",)

needs_folder = pytest.mark.skipif(folder() is None, reason=NO_FOLDER)
needs_all = pytest.mark.skipif(
    folder() is None or official.is_partial(), reason="the lists are of the published cases, all of them"
)


def _runs() -> Iterator[Any]:
    if folder() is None:
        yield pytest.param(None, "", "", marks=needs_folder)
        return
    version = target.version()
    deployments = [_running()] if target.URI else list(started(version))
    # The list is about this driver; the peer shows its own failures.
    gaps = skipped.read_gaps() if load_driver().name == "mangonel" else []
    for suite in suites():
        has_limit: dict[str, bool] = {}
        for case in find_cases(suite):
            if case.file not in has_limit:
                has_limit[case.file] = _names("connectTimeoutMS", case.shared)
            names, reason = where_it_runs(case, version, deployments)
            for face, name in _pairs(case.key, names):
                gap = skipped.find_gap(gaps, case, face, name)
                marks = [_gap_mark(gap)] if gap else []
                marks += [pytest.mark.needs_calm] if has_limit[case.file] else []
                yield pytest.param(case, face, name, id=f"{case.key} [{face}, {name}]", marks=marks)
            for face in () if names else FACES:
                mark = pytest.mark.skip(reason=reason)
                yield pytest.param(case, face, "", id=f"{case.key} [{face}]", marks=mark)


def _gap_mark(gap: skipped.Gap) -> pytest.MarkDecorator:
    """Return the mark of a listed case. A case whose result depends on timing proves nothing, so it is not played."""
    return (
        pytest.mark.skip(reason=gap.reason)
        if gap.is_chance
        else pytest.mark.xfail(reason=gap.reason, strict=True)
    )


def _pairs(key: str, names: list[str]) -> list[tuple[str, str]]:
    """Return where a case is played: on both faces and on each deployment, but not on each pair of these.

    The name of a case determines the pairs, so the cases of a file cover all of them.
    """
    if len(names) == 1:
        return [(face, names[0]) for face in FACES]
    first = zlib.crc32(key.encode())
    return [(FACES[(first + place) % len(FACES)], name) for place, name in enumerate(names)]


def _names(key: str, value: Any) -> bool:
    """Return whether a part of a file has this key. A limit for connecting applies to each hello, too."""
    if isinstance(value, Mapping):
        return key in value or any(_names(key, each) for each in value.values())
    return isinstance(value, list) and any(_names(key, each) for each in value)


def _running() -> Facts:
    server = target.running()
    name, topology = ("replica set", "replicaset") if server.replica_set_name else ("standalone", "single")
    return Facts(name, topology, server.has_users, tuple(server.parameters.items()))


RUNS = list(_runs())


@pytest.mark.timeout(200)
@pytest.mark.each_once("case")
@pytest.mark.parametrize(("case", "face_name", "deployment_name"), RUNS)
def test_unified_spec(
    case: Case,
    face_name: str,
    deployment_name: str,
    find_deployment: Callable[..., Deployment],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("spec", f"{case.suite}, {face_name}")
    if case.suite == TIMED:
        # The file's shared parts include its cases.
        shared = {key: value for key, value in case.shared.items() if key != "tests"}
        times = _times([case.test, shared]) * (2 if IN_CI and case.file in NARROW else 1)
        test = _later(case.test) if case.file in CLOSE and TIMES > 1 else case.test
        case = dataclasses.replace(case, test=_slower(test, times), shared=_slower(shared, times))
    run_case(case, Face(load_driver(), face_name), find_deployment(deployment_name, case.suite))


def _times(case: Any) -> int:
    """Return the factor for the times of a case: half of the usual one if all of them are long."""
    return TIMES if min(_found(case), default=0) < LONG else max(1, TIMES // 2)


def _found(value: Any, is_time: bool = False) -> Iterator[float]:
    """Yield the limits, delays and their expectations in a part of a case, except 0, which is no limit."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _found(each, is_time or _is_time(key))
    elif isinstance(value, list):
        for each in value:
            yield from _found(each, is_time)
    elif is_time and type(value) in (int, float, Int64) and value:
        yield value


def _is_time(key: str) -> bool:
    return key.endswith("MS") or key == "wtimeout"


def _slower(value: Any, times: int, is_time: bool = False) -> Any:
    """Return a part of a case with its limits, its delays and their expectations multiplied."""
    if times == 1:
        return value
    if isinstance(value, dict):
        return {key: _slower(each, times, is_time or _is_time(key)) for key, each in value.items()}
    if isinstance(value, list):
        return [_slower(each, times, is_time) for each in value]
    return value * times if is_time and type(value) in (int, float, Int64) else value


def _later(value: Any) -> Any:
    """Return a part of a case with its delays doubled."""
    if isinstance(value, dict):
        return {key: each * 2 if key == "blockTimeMS" else _later(each) for key, each in value.items()}
    return [_later(each) for each in value] if isinstance(value, list) else value


def test_delays_are_doubled_and_limits_are_not() -> None:
    data = {"timeoutMS": 100, "data": [{"blockTimeMS": 125}], "n": 5}
    assert _later(data) == {"timeoutMS": 100, "data": [{"blockTimeMS": 250}], "n": 5}


def test_the_times_of_a_case_are_multiplied_and_nothing_else() -> None:
    case = {
        "timeoutMS": 50,
        "list": [{"maxTimeMS": {"$$lte": 50}, "n": 1, "wtimeout": 50}],
        "mode": {"times": 2},
        "isMS": True,
    }
    slower = {
        "timeoutMS": 200,
        "list": [{"maxTimeMS": {"$$lte": 200}, "n": 1, "wtimeout": 200}],
        "mode": {"times": 2},
        "isMS": True,
    }
    assert _slower(case, 4) == slower


def test_a_case_without_a_short_time_is_multiplied_by_half() -> None:
    long = {"timeoutMS": 250, "data": [{"blockTimeMS": 350}], "n": 5, "none": {"timeoutMS": 0}}
    assert _times(long) == max(1, TIMES // 2)
    assert _times([long, {"wtimeout": 10}]) == _times({"n": 1}) == TIMES


@pytest.mark.parametrize("names", [["one"], ["one", "two"], ["one", "two", "three"]], ids=len)
def test_a_case_is_played_on_both_faces_and_on_each_deployment(names: list[str]) -> None:
    met = set()
    for number in range(10):
        found = _pairs(f"case {number}", names)
        assert {face for face, _ in found} == set(FACES)
        assert [name for _, name in found if name in names] == (names if len(names) > 1 else names * 2)
        met.update(found)
    assert len(met) == len(FACES) * len(names)


@needs_folder
def test_cases_with_a_limit_for_connecting_are_begun_last() -> None:
    marks = {
        row.id: [mark.name for mark in row.marks] for row in RUNS if "interruptInUse-pool" in str(row.id)
    }
    assert marks
    assert all("needs_calm" in found for found in marks.values())


@needs_all
def test_every_listed_gap_is_a_case_of_the_specifications() -> None:
    keys = {case.key for suite in suites() for case in find_cases(suite)}
    assert [gap.key for gap in skipped.read_gaps() if gap.key not in keys] == []


@needs_all
def test_list_of_cases_that_cannot_run_is_current() -> None:
    # Without the library, cases that require it cannot run either.
    pytest.importorskip("pymongocrypt")
    assert skipped.LIST.read_text().endswith(skipped.cannot_run_list())
