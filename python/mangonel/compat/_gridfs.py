"""GridFS's classes for PyMongo's programs: with a foreign database, they make objects of `_foreign_files`.

A foreign database is made from a stand-in for a client, like Ming's, or its class has replaced
`gridfs.synchronous.grid_file.Database`, as after mongomock's `enable_gridfs_integration`. Importing this changes the
classes.
"""

from __future__ import annotations

import sys
from typing import Any

from mangonel._faces.stand_in import StandInPort
from mangonel.api import Collection, Cursor, Database
from mangonel.gridfs import GridFS, GridFSBucket, GridIn, GridOut, GridOutCursor

__all__ = ["Collection", "Cursor", "Database", "GridFS", "GridFSBucket", "GridIn", "GridOut", "GridOutCursor"]

_ALIAS = "gridfs.synchronous.grid_file"


def _is_foreign(owner: object, kind: type) -> bool:
    """Return whether a database or collection is not this driver's own."""
    if isinstance(owner, kind):
        return isinstance(getattr(owner, "_port", None), StandInPort)
    allowed = vars(sys.modules[_ALIAS]).get(kind.__name__, kind) if _ALIAS in sys.modules else kind
    return isinstance(owner, allowed)


def _made_by(own: Any, argument: str, kind: type, foreign: str) -> None:
    """Make the constructor of a class return a `_foreign_files` object if the first argument is foreign."""

    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        owner = args[0] if args else kwargs.get(argument)
        if cls is own and _is_foreign(owner, kind):
            from mangonel.compat import _foreign_files

            made = getattr(_foreign_files, foreign)
            # For a subclass of `own`, Python runs its `__init__` next.
            return inherited(made) if issubclass(made, own) else made(*args, **kwargs)
        return inherited(cls)

    inherited = own.__new__ if "__new__" in vars(own) else super(own, own).__new__
    own.__new__ = make


_made_by(GridFS, "database", Database, "ForeignGridFS")
_made_by(GridFSBucket, "db", Database, "ForeignGridFSBucket")
_made_by(GridIn, "root_collection", Collection, "ForeignGridIn")
_made_by(GridOut, "root_collection", Collection, "ForeignGridOut")
_made_by(GridOutCursor, "collection", Collection, "ForeignFiles")
