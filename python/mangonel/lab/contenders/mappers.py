"""Document mappers, and the dicts and the raw socket that they are compared with."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

from mangonel.lab.contender import Contender, Target
from mangonel.lab.contenders._pymongo_like import uri_with

OBJECTS = "objects"  # reads collections into objects, or says what that costs at least
POSTS_TOO = "posts"
DECODES_ALONE = "decodes-alone"
SAVES_FIELDS = "saves-fields"


def _reader(name: str) -> Callable[[Target], Any]:
    def make(target: Target) -> Any:
        file, _, reader = name.partition(".")
        module = importlib.import_module(f"mangonel.lab.contenders._mappers.{file}")
        return getattr(module, reader)(dataclasses.replace(target, uri=uri_with(target)))

    return make


def _contender(id: str, title: str, reader: str, packages: tuple[str, ...], *offers: str) -> Contender:
    return Contender(
        id, title, frozenset({OBJECTS, *offers}), packages=("pymongo", *packages), blocking=_reader(reader)
    )


CONTENDERS = (
    _contender("objects-floor", "floor: raw socket, bytes only", "reader.DrainReader", (), POSTS_TOO),
    _contender("objects-pymongo", "PyMongo, dicts", "reader.PyMongoReader", (), POSTS_TOO, DECODES_ALONE),
    _contender(
        "objects-dicts", "mangonel, dicts", "reader.MangonelReader", ("mangonel",), POSTS_TOO, DECODES_ALONE
    ),
    _contender(
        "odm", "mangonel.odm, eager", "odm.OdmReader", ("mangonel",), POSTS_TOO, DECODES_ALONE, SAVES_FIELDS
    ),
    _contender(
        "odm-lazy", "mangonel.odm, lazy", "odm.LazyOdmReader", ("mangonel",), POSTS_TOO, DECODES_ALONE
    ),
    _contender(
        "mongoengine",
        "MongoEngine",
        "mongoengine.MongoEngineReader",
        ("mongoengine",),
        POSTS_TOO,
        DECODES_ALONE,
        SAVES_FIELDS,
    ),
    _contender(
        "beanie", "Beanie", "beanie.BeanieReader", ("beanie",), POSTS_TOO, DECODES_ALONE, SAVES_FIELDS
    ),
    _contender("odmantic", "ODMantic", "odmantic.OdmanticReader", ("odmantic",), DECODES_ALONE),
    _contender("umongo", "umongo", "umongo.UmongoReader", ("umongo",), DECODES_ALONE),
)
