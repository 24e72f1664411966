"""The classes of files, under the name of the module where PyMongo has them."""

from __future__ import annotations

from mangonel.gridfs.api import GridFS, GridFSBucket, GridIn, GridOut, GridOutCursor

__all__ = ["GridFS", "GridFSBucket", "GridIn", "GridOut", "GridOutCursor"]
