"""Registers modules of upper rooms whose objects lower rooms return: `to_polars`, `find(into=...)`.

Imported with the package, so that every module is registered before it is needed; a room is imported at first use.
"""

from __future__ import annotations

from mangonel._shared.upper_modules import register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def _frames() -> ModuleType:
    from mangonel.arrow import frames

    return frames


def _schema() -> ModuleType:
    from mangonel.arrow import schema

    return schema


def _errors() -> ModuleType:
    from mangonel.arrow import errors

    return errors


def _inferred() -> ModuleType:
    from mangonel.arrow import inferred

    return inferred


def _documents() -> ModuleType:
    from mangonel.odm.store import document

    return document


def _lazy() -> ModuleType:
    from mangonel.arrow import _lazy

    return _lazy


def _model_fields() -> ModuleType:
    from mangonel.odm.model import arrow_fields

    return arrow_fields


def _shapes() -> ModuleType:
    from mangonel.odm.model import shapes

    return shapes


register("mangonel.arrow.frames", _frames)
register("mangonel.arrow._lazy", _lazy)
register("mangonel.arrow.schema", _schema)
register("mangonel.arrow.errors", _errors)
register("mangonel.arrow.inferred", _inferred)
register("mangonel.odm.store.document", _documents)
register("mangonel.odm.model.arrow_fields", _model_fields)
register("mangonel.odm.model.shapes", _shapes)
