"""`mangonel doctor`: its output, as text and as JSON, and the exit status."""

from __future__ import annotations

import io
import json
import sys

import pytest

from mangonel.cli import main
from mangonel.doctor.report import STEPS
from mangonel.server import Server


def test_each_step_is_printed_and_the_verdict_comes_last(
    standalone: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", standalone.uri]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "standalone" in "".join(lines)
    assert lines[-1] in ("All is well.", "Can be used; 1 warning.")


def test_json_is_one_document_with_stable_codes(
    standalone: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--json", "--pings", "1", standalone.uri]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["exit_status"] == 0
    assert {finding["code"] for finding in report["findings"]} >= {"uri-read", "hello-answered", "latency"}


def test_a_failure_is_the_exit_status_of_its_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "mongodb://a:b:c@d/"]) == STEPS["uri"][1] == 3
    assert "Cannot be used as it is: URI failed." in capsys.readouterr().out


def test_the_uri_may_come_from_standard_input(
    standalone: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{standalone.uri}\n"))
    assert main(["doctor", "-"]) == 0
    assert "TCP" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--timeout", "0"], ["--pings", "0"]])
def test_arguments_that_cannot_be_meant_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["doctor", "mongodb://localhost", *arguments])
    assert caught.value.code == 2


def test_exit_statuses_are_different() -> None:
    statuses = [status for _, status in STEPS.values()]
    assert len({0, 1, 2, 10, *statuses}) == len(statuses) + 4
