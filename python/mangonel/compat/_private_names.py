"""Locations of the private names that libraries and agents take from PyMongo; loaded at first use.

Only names that a known program uses: mongomock calls `_add_to_bulk` of write models, Elastic's agent wraps
`Cursor._refresh`, Flask-PyMongo reads `_Collection__database`, Datadog's agent checks for `_GetMore`,
mongoengine-plus replaces a method of `_EncryptionIO`, and three programs import `datetime` from `bson`.
"""

from __future__ import annotations

from mangonel import _light

_MODULES = {
    "_agents": ("AsyncCollection", "Collection", "Cursor", "_GetMore", "_Query"),
    "_encoders": ("_ENCODERS", "datetime"),
    "_encryption_io": ("_EncryptionIO",),
    "_write_models": ("DeleteMany", "DeleteOne", "InsertOne", "ReplaceOne", "UpdateMany", "UpdateOne"),
}
_HOMES = {name: f"mangonel.compat.{module}" for module, names in _MODULES.items() for name in names}

__getattr__ = _light.late_names(__name__, _HOMES)
