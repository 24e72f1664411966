"""The classes of files, under PyMongo's name for this module."""

from __future__ import annotations

from mangonel.gridfs.api import GridFS, GridFSBucket, GridIn, GridOut, GridOutCursor

__all__ = ["GridFS", "GridFSBucket", "GridIn", "GridOut", "GridOutCursor"]
