"""Two drivers side by side: every call is made on this driver and on PyMongo's client of the same face, in databases of
their own on one server, and must end alike: the same value, or an exception of the same class, code, labels and text.

`MANGONEL_MODEL_STEPS` asks for more steps than a usual run, whose number follows the profile of `conftest.py`.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymongo
import pymongo.operations
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

import mangonel
import mangonel.operations
from driver import outcomes
from tools.faces import Face

__all__ = ["Side", "Steps", "TwinMachine", "Twins", "play", "same"]

PER_RUN = 25
LABELS = ("TransientTransactionError", "UnknownTransactionCommitResult", "RetryableWriteError")


@dataclass
class Side:
    """One of the two drivers, and its collection."""

    driver: Any
    operations: Any
    client: Any
    database: Any
    things: Any


class Twins:
    """Both sides on one face, and a blocking PyMongo client for changes behind their backs."""

    def __init__(self, face: Face, uri: str) -> None:
        self.face = face
        self.admin: Any = pymongo.MongoClient(uri)
        # A server that was marked unknown because of a write concern failure is checked again after this time.
        options = {"heartbeatFrequencyMS": 500}
        name = f"twin_{uuid.uuid4().hex[:10]}"
        peer = (pymongo.AsyncMongoClient if face.is_async else pymongo.MongoClient)(uri, **options)
        self.peer = peer
        ours = face.client(uri, **options)
        self.sides = [
            Side(mangonel, mangonel.operations, ours, ours[f"{name}_o"], ours[f"{name}_o"].things),
            Side(pymongo, pymongo.operations, peer, peer[f"{name}_t"], peer[f"{name}_t"].things),
        ]

    def end(self) -> None:
        """Drop both databases, close the clients that do not belong to the face."""
        for side in self.sides:
            self.admin.drop_database(side.database.name)
        self.admin.close()
        self.face.run(self.peer.close)

    def behind(self, work: Callable[[Any], Any]) -> None:
        """Do something to the collections of both, by another client."""
        for side in self.sides:
            work(self.admin[side.database.name].things)

    def each(self, call: Callable[[Side], Any]) -> list[Any]:
        """Return what the call returns on both sides, without any comparison."""
        return [self.face.run(lambda side=side: call(side)) for side in self.sides]

    def fail_once(self, side: Side, **data: Any) -> None:
        """Make the next command of `data["failCommands"]` fail, for any client."""
        point = {"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": data}
        self.admin.admin.command(point)

    def fail_never(self) -> None:
        """Stop all failures."""
        self.admin.admin.command({"configureFailPoint": "failCommand", "mode": "off"})

    def forget_transactions(self) -> None:
        """Abort open transactions on the server."""
        self.admin.admin.command("killAllSessions", [])


def told(
    face: Face, side: Side, call: Callable[[Side], Any], other: Any = None, own_words: tuple[str, ...] = ()
) -> Any:
    """Return the outcome of `call` as text that is equal on both sides; `other` is the object it was called on."""
    try:
        value = face.run(lambda: call(side))
    except Exception as error:
        labels = [label for label in LABELS if getattr(error, "has_error_label", lambda _: False)(label)]
        name = type(error).__name__
        details = getattr(error, "details", None) if name.endswith("WriteError") else None
        text = "" if name in own_words else _text(str(error))
        return (name, getattr(error, "code", None), labels, text, _shape(details))
    if value is not None and value is other:
        return "itself"
    if hasattr(value, "rewind"):
        return "another cursor"
    return _shape(value)


def same(
    twins: Twins,
    call: Callable[[Side], Any],
    objects: tuple[Any, Any] = (None, None),
    own_words: tuple[str, ...] = (),
) -> Any:
    """Make the call on both sides; fail if they end differently, else return how."""
    ours, theirs = (
        told(twins.face, side, call, object, own_words)
        for side, object in zip(twins.sides, objects, strict=True)
    )
    match ours, theirs:
        # This driver adds the value that it got.
        case (*head, str(text), tail), (_, _, _, str(said), _) if text.startswith(f"{said}, not "):
            ours = (*head, said, tail)
    assert ours == theirs, f"expected as PyMongo {theirs}, got {ours}"
    return ours


def _text(said: str) -> str:
    said = said.partition(", full error: ")[0]
    said = re.sub(r"twin_[0-9a-f]+_[ot]", "DATABASE", said)
    said = re.sub(r"[0-9a-f]{24}", "ID", said)
    said = re.sub(r"(txnNumber:|transaction number|number is) -?\d+", r"\1 N", said)
    return re.sub(r"\d{9,}", "NUMBER", said)


def _shape(value: Any) -> Any:
    """As `outcomes.shape`, with the server's texts freed of names that differ between the sides."""
    shaped = outcomes.shape(value)
    if isinstance(shaped, dict):
        return {key: _shape(item) for key, item in shaped.items()}
    if isinstance(shaped, list):
        return [_shape(item) for item in shaped]
    return _text(shaped) if isinstance(shaped, str) else shaped


class Steps(RuleBasedStateMachine):
    """A state machine that counts its steps, for `play`."""

    # Over all runs.
    taken = 0

    def __init__(self) -> None:
        super().__init__()
        # Invariants are checked once before the first step.
        type(self).taken -= 1

    @invariant()
    def every_step_is_counted(self) -> None:
        type(self).taken += 1


class TwinMachine(Steps):
    """A state machine over `Twins`, which `play` gives it."""

    twins: Twins
    # Error classes whose messages are this driver's own: they name the place and the remedy.
    own_words: tuple[str, ...] = ()

    def both(self, call: Callable[[Side], Any], objects: tuple[Any, Any] = (None, None)) -> Any:
        """Make the call on both sides; they must end alike."""
        return same(self.twins, call, objects, self.own_words)

    def pair(self, call: Callable[[Side], Any]) -> dict[int, Any] | None:
        """Make an object on each side, by the side's `id`; None when both refuse in the same way."""
        made: dict[int, Any] = {}

        def keep(side: Side) -> Any:
            value = call(side)
            if hasattr(value, "__await__"):

                async def wait() -> str:
                    made[id(side)] = await value
                    return "made"

                return wait()
            made[id(side)] = value
            return "made"

        return made if self.both(keep) == "made" else None


def play(machine: type[Steps], **bound: Any) -> None:
    """Play a state machine with these attributes, for as many steps as the profile or the environment asks for."""
    usual = settings.default.max_examples * 2 if settings.default is not None else 200
    steps = int(os.environ.get("MANGONEL_MODEL_STEPS", usual))
    played: Any = type("Bound", (machine,), bound)
    while played.taken < steps:
        run_state_machine_as_test(
            played,
            settings=settings(
                max_examples=max(1, min(steps - played.taken, 4000) // PER_RUN),
                stateful_step_count=PER_RUN,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    if "MANGONEL_MODEL_STEPS" in os.environ:
        print(f"{machine.__name__}: {played.taken} steps")
