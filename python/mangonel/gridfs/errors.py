"""Exceptions of GridFS.

PyMongoError
└── GridFSError
    ├── NoFile              no file has this id, name or version
    ├── FileExists          the id belongs to another file already
    └── CorruptGridFile     the chunks contradict the file's document; no byte of a damaged chunk is returned
"""

from __future__ import annotations

from mangonel.errors import PyMongoError

__all__ = ["CorruptGridFile", "FileExists", "GridFSError", "NoFile"]


class GridFSError(PyMongoError):
    """Base class of GridFS errors."""


class CorruptGridFile(GridFSError):
    """A chunk is missing, too short, too long or surplus; or the file was replaced during the read.

    The message names the chunk. All bytes returned before it are correct.
    """


class NoFile(GridFSError):
    """No file has this id, name or version."""


class FileExists(GridFSError):
    """Another file already has this id. It was not changed, and nothing of the new file remains."""
