"""Sites for the experiments `web`, `websessions` and `live`, as `sites.toml` has them."""

from __future__ import annotations

import tomllib
from functools import partial
from pathlib import Path

from mangonel.lab.contender import Contender
from mangonel.lab.contenders import _wire

PREFIX, DATABASE, ORIGINAL, WIRE = "page-", "page-database", "page-original", "web-wire"
BESIDE = "live-beside"
BROWSERS = {"live-alone": 0, BESIDE: 200, "live-200": 200}


def _without(program: str, uri: str) -> str:
    from mangonel.engines.programs import Missing, find_program

    try:
        find_program(program)
    except Missing as error:
        return str(error)
    return ""


def _site(id: str, title: str, packages: list[str], program: str, offers: list[str]) -> Contender:
    unsuited = _wire.unsuited if id == "page-thin" else partial(_without, program) if program else None
    return Contender(id, title, frozenset(offers), packages=tuple(packages), unsuited=unsuited)


TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CONTENDERS = tuple(_site(*row) for rows in TABLES.values() for row in rows)
