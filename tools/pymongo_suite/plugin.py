"""The pytest plugin that runs PyMongo's instrumented tests: prepares helpers, records outcomes and touches.

PYMONGO_SUITE_DRIVER: `mangonel` (through the shim) or `pymongo`. PYMONGO_SUITE_RESULTS: the file that receives a line
of JSON for each test. PYMONGO_SUITE_WANTED: a file that lists the ids to run.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pymongo_suite import touch

DRIVER = os.environ.get("PYMONGO_SUITE_DRIVER", "mangonel")
# A file with the ids of the tests to run; all if unset.
WANTED = os.environ.get("PYMONGO_SUITE_WANTED")
RESULTS = Path(os.environ.get("PYMONGO_SUITE_RESULTS", os.devnull))

if DRIVER == "mangonel":
    from pymongo_suite import inside, standins

    standins.install()
elif shutil.which("mongocryptd") is None:
    # About three hundred tests wait twice ten seconds each for a program that is not installed.
    import pymongo.asynchronous.encryption
    import pymongo.synchronous.encryption

    for module in (pymongo.asynchronous.encryption, pymongo.synchronous.encryption):
        module._MONGOCRYPTD_TIMEOUT_MS = 200  # type: ignore[attr-defined]

# PyMongo's asyncio tests need one fixture of a plugin that this project does not use.
if "pytest_asyncio" not in sys.modules:
    sys.modules["pytest_asyncio"] = ModuleType("pytest_asyncio")
    sys.modules["pytest_asyncio"].fixture = lambda *arguments, **keywords: lambda function: function  # type: ignore[attr-defined]

# Touches made for a whole class, by the class's node id.
_shared: dict[str, set[str]] = {}


if DRIVER == "mangonel":

    def attribute(value: Any, name: str) -> Any:
        """Return a private attribute that a helper or the runner reads; report all other readers."""
        code = sys._getframe(1).f_code
        touch.note(value, name, code)
        if code.co_filename.endswith((*touch.HELPERS, "unified_format.py")):
            return inside.answer(value, name)
        return value

    touch.attribute = attribute


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give tests without a marker the default one, as PyMongo's configuration does; select the wanted tests."""
    if WANTED is not None:
        wanted = set(json.loads(Path(WANTED).read_text(encoding="utf-8")))
        left = [item for item in items if item.nodeid not in wanted]
        items[:] = [item for item in items if item.nodeid in wanted]
        config.hook.pytest_deselected(items=left)
    for item in items:
        default = "default_async" if "asynchronous" in item.path.parts else "default"
        if not [
            mark for mark in item.iter_markers() if mark.name not in ("async", "parametrize", "usefixtures")
        ]:
            item.add_marker(default)


@pytest.fixture(scope="session", autouse=True)
def _suite(request: pytest.FixtureRequest) -> Iterator[None]:
    asynchronous = any("asynchronous" in item.path.parts for item in request.session.items)
    blocking = any("asynchronous" not in item.path.parts for item in request.session.items)
    import test

    if blocking:
        test.setup()
    if asynchronous:
        import test.asynchronous as twin

        twin.get_loop().run_until_complete(twin.async_setup())
    touch.current.clear()
    yield
    warnings.simplefilter("ignore")
    if asynchronous:
        twin.get_loop().run_until_complete(twin.async_teardown())
    if blocking:
        test.teardown()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Any:
    """Record the touches of a class's set-up for each of its tests."""
    if fixturedef.scope not in ("class", "module"):
        return (yield)
    before, touch.current = touch.current, set()
    try:
        return (yield)
    finally:
        _shared.setdefault(request.node.nodeid, set()).update(touch.current)
        touch.current = before


_last: dict[str, Any] = {}


def pytest_runtest_logstart(nodeid: str) -> None:
    """Start a test's record."""
    touch.current = set()
    _last.clear()
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": nodeid, "begun": True}) + "\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the worst of a test's three phases."""
    outcome: str = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = "xfailed" if outcome == "skipped" else "passed"
    if _last.get("outcome") in ("failed", "error"):
        return
    if report.when == "call" or outcome != "passed":
        reason = ""
        if outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash is not None else str(report.longrepr)[-600:]
        elif outcome == "skipped" and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2]
        _last.update(outcome=outcome, reason=reason[:600])


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Write a test's record."""
    if DRIVER == "mangonel":
        # A test that fails before it restores defaults must not make the next one fail.
        standins.take_defaults_back()
    touches = set(touch.current)
    for scope, shared in _shared.items():
        if nodeid.startswith(scope):
            touches |= shared
    record = {"id": nodeid, "touches": sorted(touches), **_last}
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Record a module that could not be imported."""
    if report.failed:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(
                json.dumps(
                    {"id": report.nodeid, "outcome": "uncollected", "reason": str(report.longrepr)[-600:]}
                )
                + "\n"
            )


_status = 1


def pytest_sessionfinish(exitstatus: int) -> None:
    """Record the exit status: of the tests, or of an earlier error of pytest."""
    global _status
    _status = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """End the process even if a failed test left a waiting thread."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        sys.stdout.flush()
        os._exit(_status)
