"""The bare interpreter: what every whole-process figure contains."""

from __future__ import annotations

from mangonel.lab.contender import IMPORT, PROGRAM, Contender, Target


def _program(kind: str, target: Target) -> str:
    return "pass\n"


CONTENDERS = (Contender("bare", "bare interpreter", frozenset({PROGRAM, IMPORT, "floor"}), program=_program),)
