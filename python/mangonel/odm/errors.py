"""The mapper's own errors, in addition to the driver's.

PyMongoError
└── OdmError
    ├── ValidationError      a value does not fit its field (also ValueError)
    ├── NotFetched           a reference's document was read where it cannot be fetched
    ├── NotLoaded            a field that a partial load left out was read (also AttributeError)
    ├── DocumentNotFound     get() or one() found none (also LookupError)
    ├── MultipleDocuments    one() found more than one
    ├── StaleDocument        another writer saved the document first
    ├── ParallelSaveError    a document is saved while another save of the same instance is running
    ├── DeleteDenied         a delete rule forbids it
    ├── UnsupportedOption    an operation cannot honour an option of its query (also TypeError)
    ├── DanglingReference    a reference that denies the deletion of its target leads to nothing
    ├── NoTenant             a model with tenants was used without a tenant
    ├── WrongTenant          a document would be stored for another tenant, or move to one
    ├── TooManyCommands      count_commands() found more than were allowed (also AssertionError)
    └── NotConnected         a model has no connection yet, or its connection was closed
"""

from __future__ import annotations

from typing import Any

from mangonel import errors
from mangonel.errors import PyMongoError


class OdmError(PyMongoError):
    """The base of the mapper's errors."""


class ValidationError(OdmError, ValueError):
    """A value does not fit its field; the message names the path, such as `$.address.zip`.

    Attributes:
        collection: collection of a stored document that could not be read; None for others.
        id: `_id` of that document.
        faults: all faults of the document, one text for each field. None: only the message.
    """

    collection: str | None = None
    id: Any = None
    faults: list[str] | None = None

    @classmethod
    def of(cls, faults: list[str]) -> ValidationError:
        """Return one error for several faults.

        Example:
            >>> ValidationError.of(["expected int, got str at $.age", "expected a value, got none at $.name"])
            ValidationError('expected int, got str at $.age; also expected a value, got none at $.name')
        """
        made = cls("; also ".join([faults[0], *(["; ".join(faults[1:])] if len(faults) > 1 else [])]))
        made.faults = faults
        return made

    def errors(self) -> list[dict[str, str]]:
        """Return the `path` and `message` of each fault.

        Example:
            >>> ValidationError("expected int, got str at $.age").errors()
            [{'path': '$.age', 'message': 'expected int, got str'}]
        """
        found: list[dict[str, str]] = []
        for fault in self.faults if self.faults is not None else [str(self)]:
            message, separator, path = fault.rpartition(" at $")
            found.append(
                {"path": "$" + path, "message": message} if separator else {"path": "$", "message": fault}
            )
        return found


class NotLoaded(OdmError, AttributeError):
    """A field that `only()` or `exclude()` left out was read."""


class DocumentNotFound(OdmError, LookupError):
    """No document matches."""


class NotFetched(OdmError):
    """A referenced document was read where waiting is impossible, as on an event loop. Nothing was sent."""


class MultipleDocuments(OdmError):
    """More than one document matches where one was expected."""


class StaleDocument(OdmError):
    """The stored document changed since it was loaded, so the update does not apply. Nothing was stored.

    It has another version, or another writer changed a list that this save changes by position or replaces, or an
    earlier save with unknown outcome was stored after all. The instance keeps its changes: call `reload()`, or
    `reload(keep_changes=True)`, and save again.
    """


class ParallelSaveError(OdmError):
    """Another task or thread is saving the same instance, or has saved it in a transaction that has not ended.

    It is raised by saves and by `reload()`. Nothing was sent, and the changes stay pending.
    """


class DeleteDenied(OdmError):
    """Documents that reference this one forbid its deletion. Nothing was deleted, or it was stored again."""


class DanglingReference(OdmError):
    """A reference with `on_delete="deny"` leads to no document; it was reverted. The message has the details."""


class NotConnected(OdmError):
    """A model was used before `connect()` set its database, or after its connection was closed. Nothing was sent."""


class NoTenant(OdmError):
    """A model that keeps tenants apart was used without a tenant. Nothing was sent."""


class WrongTenant(OdmError):
    """A document has another tenant than the context, or an update would change its tenant. Nothing was sent."""


class TooManyCommands(OdmError, errors.TooManyCommands):
    """A block sent more commands than `count_commands` allows. They were sent."""


class UnsupportedOption(OdmError, TypeError):
    """An operation cannot honour an option of its query; the message names both. Nothing was sent."""
