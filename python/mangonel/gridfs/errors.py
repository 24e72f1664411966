"""Exceptions of GridFS.

PyMongoError
└── GridFSError
    ├── NoFile              no file of this id, name or version
    ├── FileExists          the id belongs to another file already
    └── CorruptGridFile     the chunks are not what the file says; no byte of a damaged chunk is handed out
"""

from __future__ import annotations

from mangonel.errors import PyMongoError

__all__ = ["CorruptGridFile", "FileExists", "GridFSError", "NoFile"]


class GridFSError(PyMongoError):
    """Base of the errors that only stored files have."""


class CorruptGridFile(GridFSError):
    """A chunk is missing, too short, too long, or one too many; or the file was replaced while it was read.

    The message names the chunk. What was read before it is whole.
    """


class NoFile(GridFSError):
    """No file has this id, name or version."""


class FileExists(GridFSError):
    """Another file has this id already. It was not changed, and nothing of the new one is left."""
