"""Messages over pipes: silence, the end, and children that die."""

from __future__ import annotations

import os

import pytest

from mangonel.lab.protocol import Child, ChildError


@pytest.fixture
def child_of(tmp_path, monkeypatch):
    """Return a child process made from source text; it finds its channel as `channel`."""
    known = filter(None, [os.environ.get("PYTHONPATH")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *known]))

    def make(source: str) -> Child:
        (tmp_path / "a_child.py").write_text(
            f"import os, sys\nfrom mangonel.lab import protocol\nchannel = protocol.inherited()\n{source}\n"
        )
        return Child("a_child")

    return make


def test_what_a_child_prints_is_no_message(child_of):
    child = child_of(
        "print('{\"noise\": 1}', flush=True)\nchannel.send({'told': channel.receive()['asked']})"
    )
    assert child.ask({"asked": 5}, 60) == {"told": 5}
    assert child.finish()["clean"]


@pytest.mark.parametrize(
    ("source", "told", "end"),
    [
        ("print('last words', file=sys.stderr); sys.exit(3)", r"exit status 3.*last words", {"status": 3}),
        ("os.abort()", "SIGABRT", {"signal": "SIGABRT"}),
        ("channel.send({'error': 'no such thing'})", "no such thing", {"status": 0, "clean": True}),
    ],
)
def test_a_child_that_breaks_off_is_reported_by_status_signal_error_and_last_words(
    child_of, source, told, end
):
    child = child_of(f"channel.receive(); {source}")
    with pytest.raises(ChildError, match=told):
        child.ask({}, 60)
    assert {"clean": False, **end}.items() <= child.finish().items()


def test_a_child_that_does_not_end_is_killed_and_that_is_said(child_of):
    child = child_of("import time\nchannel.send({'up': 1})\ntime.sleep(60)")
    child.hear(60)
    end = child.finish(timeout=0.2)
    assert "did not end within" in end["signal"]
    assert not end["clean"]


def test_telling_a_child_that_has_ended_reports_how(child_of):
    child = child_of("os._exit(4)")
    child.process.wait(60)
    with pytest.raises(ChildError, match="exit status 4"):
        child.tell({"go": True})
    child.finish()


def test_silence_is_told_and_loses_nothing(child_of):
    child = child_of("channel.receive(); channel.send({'told': 5}); channel.receive()")
    with pytest.raises(ChildError, match="no answer within 0 s"):
        child.hear(0.01)
    assert child.ask({}, 60) == {"told": 5}
    assert child.finish()["clean"]
