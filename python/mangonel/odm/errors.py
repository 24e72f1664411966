"""What the mapper raises beside the driver's own errors.

PyMongoError
└── OdmError
    ├── ValidationError      a value is not what its field says (also ValueError)
    ├── NotLoaded            a field that a partial load left out was read (also AttributeError)
    ├── DocumentNotFound     get() or one() found none (also LookupError)
    ├── MultipleDocuments    one() found more than one
    ├── StaleDocument        another program saved the document first
    ├── DeleteDenied         a delete rule forbids it
    └── NotConnected         a model has no connection yet
"""

from __future__ import annotations

from mangonel.errors import PyMongoError


class OdmError(PyMongoError):
    """The base of the mapper's errors."""


class ValidationError(OdmError, ValueError):
    """A value is not what its field says; the message ends with the path, as in `$.address.zip`."""


class NotLoaded(OdmError, AttributeError):
    """A field that was left out by `only()` or `exclude()` was read."""


class DocumentNotFound(OdmError, LookupError):
    """No document matches."""


class MultipleDocuments(OdmError):
    """More than one document matches where one was expected."""


class StaleDocument(OdmError):
    """The document in the database has another version than the one that was loaded. Nothing was stored."""


class DeleteDenied(OdmError):
    """Documents that refer to this one forbid that it is deleted. Nothing was deleted."""


class NotConnected(OdmError):
    """A model was used before `connect()` named a database for it. Nothing was sent."""
