"""An experiment without a driver and contenders that misbehave, for the conductor's tests."""

from __future__ import annotations

import atexit
import os
import time

from mangonel.lab.contender import Codec, Contender
from mangonel.lab.experiment import Bench, Experiment, Part, Size, Task

SAMPLES = 2


def _codec(answer: bytes, act=None):
    calls = []

    def encode(value):
        calls.append(value)
        if act is not None and len(calls) > 1:
            act()
        return answer

    return lambda: Codec(encode, bytes, list, None)


def _abort_at_exit():
    atexit.register(os.abort)


def _fail():
    raise RuntimeError("planted failure")


class _PlantedTask(Task):
    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._codec = bench.contender.codec()

        if bench.contender.blocking is not None:
            bench.connect()

    def verify(self) -> str:
        return self._codec.encode("first").hex()

    def act(self) -> int:
        self._codec.encode("timed")
        time.sleep(0.001)
        return 10


class _Planted(Experiment):
    id = "planted"
    version = 3
    title = "planted"

    def parts(self, size: Size) -> list[Part]:
        return [Part("only", "the only part", frozenset({"codec", "planted"}), 10, SAMPLES, server=False)]

    def task(self, part: Part, bench: Bench) -> Task:
        return _PlantedTask(bench)


class _SlowToClose:
    def __init__(self, target) -> None:
        pass

    def close(self) -> None:
        time.sleep(1.5)


def _contender(name: str, codec, **options) -> Contender:
    return Contender(name, f"planted {name}", frozenset({"codec", "planted"}), codec=codec, **options)


EXPERIMENT = _Planted()
CONTENDERS = (
    _contender("sound-1", _codec(b"right")),
    _contender("sound-2", _codec(b"right")),
    _contender("sound-3", _codec(b"right")),
    _contender("liar", _codec(b"wrong")),
    _contender("aborts", _codec(b"right", os.abort)),
    _contender("aborts-at-exit", _codec(b"right", _abort_at_exit)),
    _contender("raises", _codec(b"right", _fail)),
    _contender("hangs", _codec(b"right", lambda: time.sleep(60))),
    _contender("slow-to-close", _codec(b"right"), blocking=_SlowToClose),
    _contender("absent", _codec(b"right"), packages=("no_such_package_anywhere",)),
    _contender("unfinished", _codec(b"right"), names=("json:no_such_name",)),
)
