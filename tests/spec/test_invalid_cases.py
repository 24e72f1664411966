"""The cases of the unified test format that must fail: a runner that passes them would pass wrong results too.

Spec: unified-test-format, "valid-fail".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spec.unified.deployments import Deployment
from spec.unified.driver import FACES, Face, load_driver
from spec.unified.runner import run_case
from spec.unified.suites import DEPLOYMENTS, NO_FOLDER, Case, folder, read_cases

SUITE = "unified-test-format"


def _runs() -> Iterator[Any]:
    root = folder()
    if root is None:
        yield pytest.param(None, None, marks=pytest.mark.skip(reason=NO_FOLDER))
        return
    for path in sorted((root / SUITE / "tests" / "valid-fail").glob("*.json")):
        try:
            cases = list(read_cases(SUITE, path))
        except AssertionError:
            # The version of the format is refused, and the whole file with it.
            yield pytest.param(path, None, id=path.stem)
            continue
        for case in cases:
            yield pytest.param(path, case, id=case.key)


@pytest.mark.timeout(60)
@pytest.mark.each_once("case")
@pytest.mark.parametrize("face_name", FACES)
@pytest.mark.parametrize(("path", "case"), list(_runs()))
def test_invalid_case_fails(
    path: Path, case: Case | None, face_name: str, find_deployment: Callable[[str], Deployment]
) -> None:
    if case is None:
        with pytest.raises(AssertionError, match="is not supported"):
            list(read_cases(SUITE, path))
        return
    deployment = find_deployment(DEPLOYMENTS[0])
    with pytest.raises(Exception) as caught:
        run_case(case, Face(load_driver(), face_name), deployment)
    # On a machine that is too slow every case would fail.
    assert not getattr(caught.value, "timeout", False)
