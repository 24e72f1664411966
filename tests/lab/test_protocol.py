"""Messages over pipes: pieces, silence, the end, and children that die."""

from __future__ import annotations

import os
import sys

import pytest

from mangonel.lab.protocol import Channel, Child, ChildError


@pytest.fixture
def pipe():
    """A channel and the descriptor that feeds it."""
    read_fd, write_fd = os.pipe()
    channel = Channel(read_fd, os.open(os.devnull, os.O_WRONLY))
    yield channel, write_fd
    channel.close()


@pytest.fixture
def child_of(tmp_path, monkeypatch):
    """Make a child process from source text; it finds its channel as `channel`."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(source: str) -> Child:
        (tmp_path / "a_child.py").write_text(
            f"import os, sys\nfrom mangonel.lab import protocol\nchannel = protocol.inherited()\n{source}\n"
        )
        return Child("a_child")

    return make


def test_a_message_cut_into_pieces_arrives_whole(pipe):
    channel, feed = pipe
    os.write(feed, b'{"a": 1}\n{"b"')
    assert channel.receive(1) == {"a": 1}
    os.write(feed, b": 2}\n")
    assert channel.receive(1) == {"b": 2}
    os.close(feed)


def test_silence_is_a_timeout_and_loses_nothing(pipe):
    channel, feed = pipe
    os.write(feed, b'{"a":')
    with pytest.raises(TimeoutError):
        channel.receive(0.05)
    os.write(feed, b" 1}\n")
    assert channel.receive(1) == {"a": 1}
    os.close(feed)


def test_the_end_of_the_stream_is_none(pipe):
    channel, feed = pipe
    os.close(feed)
    assert channel.receive(1) is None


def test_a_channel_closes_twice_without_touching_foreign_descriptors(pipe):
    channel, feed = pipe
    channel.close()
    stranger = os.dup(sys.__stderr__.fileno())
    channel.close()
    os.fstat(stranger)
    os.close(stranger)
    os.close(feed)


def test_what_a_child_prints_is_no_message(child_of):
    child = child_of(
        "print('{\"noise\": 1}', flush=True)\nchannel.send({'told': channel.receive()['asked']})"
    )
    assert child.ask({"asked": 5}, 20) == {"told": 5}
    assert child.finish()["clean"]


def test_a_child_that_exits_is_reported_with_status_and_last_words(child_of):
    child = child_of("channel.receive(); print('last words', file=sys.stderr); sys.exit(3)")
    with pytest.raises(ChildError, match=r"exit status 3.*last words"):
        child.ask({}, 20)
    end = child.finish()
    assert (end["status"], end["clean"]) == (3, False)


def test_a_child_ended_by_a_signal_is_reported_by_its_name(child_of):
    child = child_of("channel.receive(); os.abort()")
    with pytest.raises(ChildError, match="SIGABRT"):
        child.ask({}, 20)
    assert child.finish()["signal"] == "SIGABRT"


def test_a_child_that_does_not_end_is_killed_and_that_is_said(child_of):
    child = child_of("import time\nchannel.send({'up': 1})\ntime.sleep(60)")
    child.hear(20)
    end = child.finish(timeout=0.2)
    assert "did not end within" in end["signal"]
    assert not end["clean"]


def test_telling_a_child_that_has_ended_reports_how(child_of):
    child = child_of("os._exit(4)")
    child.process.wait(20)
    with pytest.raises(ChildError, match="exit status 4"):
        child.tell({"go": True})
    child.finish()


def test_an_error_answer_is_raised(child_of):
    child = child_of("channel.receive(); channel.send({'error': 'no such thing'})")
    with pytest.raises(ChildError, match="no such thing"):
        child.ask({}, 20)
    child.finish()
