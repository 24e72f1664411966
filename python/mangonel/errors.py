"""Every exception of the driver, and the parsing of a server's error reply. Knows no socket and no command.

One tree, ordered by fault, which the right column names. PyMongo's classes keep their relations to each other.

    PyMongoError
    ├── UsageError                          the caller's code or settings
    │   ├── ConfigurationError
    │   │   └── InvalidURI
    │   ├── InvalidOperation
    │   ├── InvalidName
    │   └── CollectionInvalid
    ├── NetworkError                        the connection or the deployment
    │   └── ConnectionFailure
    │       ├── AutoReconnect
    │       │   ├── NetworkTimeout
    │       │   ├── NotPrimaryError
    │       │   └── ServerSelectionTimeoutError
    │       └── WaitQueueTimeoutError
    ├── OperationFailure                    the server refused
    │   ├── CursorNotFound
    │   ├── ExecutionTimeout
    │   ├── SnapshotTooOld
    │   ├── SnapshotUnavailable
    │   ├── WriteConcernError
    │   │   └── WTimeoutError
    │   ├── WriteError
    │   │   └── DuplicateKeyError
    │   ├── BulkWriteError
    │   └── ClientBulkWriteException
    ├── ProtocolError                       the peer broke the protocol
    ├── BugError                            this driver
    ├── EncryptionError                     libmongocrypt or its key store
    │   └── EncryptedCollectionError
    └── TooManyCommands                     a test's code (also an AssertionError; `mangonel.testing`)
    InvalidDocument                         (mangonel.bson.errors; not a PyMongoError)
    └── DocumentTooLarge
    AdviceWarning                           (a UserWarning: the program works, but will be slow)

Specs: server-discovery-and-monitoring (error codes), crud (write errors), client-side-operations-timeout.
"""

from __future__ import annotations

from mangonel import _core
from mangonel._light import Mapping
from mangonel.bson.errors import InvalidDocument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence
    from typing import Any

    from mangonel.results import BulkWriteResult, ClientBulkWriteResult

__all__ = [
    "AdviceWarning",
    "AutoReconnect",
    "BugError",
    "BulkWriteError",
    "ClientBulkWriteException",
    "CollectionInvalid",
    "ConfigurationError",
    "ConnectionFailure",
    "CursorNotFound",
    "DocumentTooLarge",
    "DuplicateKeyError",
    "EncryptedCollectionError",
    "EncryptionError",
    "ExecutionTimeout",
    "InvalidDocument",
    "InvalidName",
    "InvalidOperation",
    "InvalidURI",
    "NetworkError",
    "NetworkTimeout",
    "NotPrimaryError",
    "OperationFailure",
    "ProtocolError",
    "PyMongoError",
    "ServerSelectionTimeoutError",
    "SnapshotTooOld",
    "SnapshotUnavailable",
    "TooManyCommands",
    "UsageError",
    "WTimeoutError",
    "WaitQueueTimeoutError",
    "WriteConcernError",
    "WriteError",
]


class PyMongoError(Exception):
    """Base of all errors of the driver. It says only that the call did not complete."""

    def __init__(self, message: str = "", error_labels: Iterable[str] | None = None) -> None:
        super().__init__(message)
        self._message = message
        self._error_labels = set(error_labels or ())

    def has_error_label(self, label: str) -> bool:
        """Return whether the server or the driver put `label` on this error.

        Args:
            label: such as `TransientTransactionError`, which means that the whole transaction may be retried.

        Example:
            >>> AutoReconnect("lost", {"errorLabels": ["RetryableWriteError"]}).has_error_label("RetryableWriteError")
            True
        """
        return label in self._error_labels

    def _add_error_label(self, label: str) -> None:
        self._error_labels.add(label)

    def _remove_error_label(self, label: str) -> None:
        self._error_labels.discard(label)

    @property
    def timeout(self) -> bool:
        """Whether a time limit ended the operation. A write may have happened nevertheless."""
        return False


class UsageError(PyMongoError):
    """The call itself is wrong. Nothing was sent; the same call fails again until the code changes."""


class ConfigurationError(UsageError):
    """An option has a wrong value, contradicts another or is not supported. Nothing was sent."""


class InvalidURI(ConfigurationError):
    """The connection string cannot be read. No client was made."""


class InvalidOperation(UsageError):
    """The object's state does not allow this call: a closed client, a cursor in use. Nothing was sent."""


class InvalidName(UsageError):
    """A database or collection name that the server would refuse. Nothing was sent."""


class CollectionInvalid(UsageError):
    """The collection exists already, or `validate_collection` found damage. Nothing was changed."""


class NetworkError(PyMongoError):
    """The connection failed, not the request itself. A read is safe to repeat; a write may or may not have happened."""


class ConnectionFailure(NetworkError):
    """No working connection to the server. An unacknowledged write may or may not have happened.

    If `bulk_write` or `insert_many` of a collection raises it, `partial_result` holds the writes that the server had
    confirmed.
    The outcome of the interrupted command is unknown.
    """

    partial_result: BulkWriteResult | None = None


class AutoReconnect(ConnectionFailure):
    """A connection was lost; the client opens another for the next call.

    A write that raises this may or may not have happened: repeat it only if that is harmless.
    `errors` and `details` hold the server's reply or the failed attempts, or are empty.
    """

    errors: Mapping[str, Any] | Sequence[Any]
    details: Mapping[str, Any] | Sequence[Any]

    def __init__(self, message: str = "", errors: Mapping[str, Any] | Sequence[Any] | None = None) -> None:
        super().__init__(message, _labels_in(errors))
        self.errors = self.details = errors or []


class NetworkTimeout(AutoReconnect):
    """No reply in time; the connection was closed. A write may or may not have happened."""

    @property
    def timeout(self) -> bool:
        """Always true."""
        return True


class NotPrimaryError(AutoReconnect):
    """The server has stepped down or is recovering, and refused. It did not apply a plain write.

    The client looks for the new primary at once, so the next call usually finds it.
    """

    def __init__(self, message: str = "", errors: Mapping[str, Any] | Sequence[Any] | None = None) -> None:
        super().__init__(_with_details(message, errors), errors)


class ServerSelectionTimeoutError(AutoReconnect):
    """No suitable server within `serverSelectionTimeoutMS`. Nothing was sent by this attempt."""

    @property
    def timeout(self) -> bool:
        """Always true."""
        return True


class WaitQueueTimeoutError(ConnectionFailure):
    """No connection of the pool became free in time. Nothing was sent; the servers may be healthy."""

    @property
    def timeout(self) -> bool:
        """Always true."""
        return True


class OperationFailure(PyMongoError):
    """The server answered and refused. See `code` and `details` for the reason.

    Without an error label such as `RetryableWriteError` the same call will most likely be refused again.
    """

    def __init__(
        self,
        error: str,
        code: int | None = None,
        details: Mapping[str, Any] | None = None,
        max_wire_version: int | None = None,
    ) -> None:
        super().__init__(_with_details(error, details), _labels_in(details))
        self._code = code
        self._details = details
        self._wire_version = max_wire_version

    @property
    def _max_wire_version(self) -> int | None:
        return self._wire_version

    @property
    def code(self) -> int | None:
        """The server's error code, or None if it sent none."""
        return self._code

    @property
    def details(self) -> Mapping[str, Any] | None:
        """The server's whole error document, or None when there is none."""
        return self._details

    @property
    def timeout(self) -> bool:
        """Whether the server stopped the operation at its time limit (code 50, MaxTimeMSExpired)."""
        return self._code == 50


class CursorNotFound(OperationFailure):
    """The server no longer knows the cursor: killed, or idle too long. Documents already read are valid."""


class ExecutionTimeout(OperationFailure):
    """The operation ran longer than its `max_time_ms`. A write may have been partly done."""

    @property
    def timeout(self) -> bool:
        """Always true."""
        return True


class SnapshotTooOld(OperationFailure):
    """The server no longer keeps the data of the snapshot's moment. Nothing was changed.

    Servers keep the data for `minSnapshotHistoryWindowInSeconds`, 300 by default. Read again from a new snapshot.
    """


class SnapshotUnavailable(OperationFailure):
    """The server cannot read this collection at this moment. Nothing was changed.

    A collection that was just created or changed has snapshots only of later moments, so repeat the read. Capped
    collections, standalone servers and servers older than 5.0 have no snapshots.
    """


class WriteConcernError(OperationFailure):
    """The write was applied, but the write concern was not satisfied. Do not repeat it blindly."""


class WTimeoutError(WriteConcernError):
    """The write was applied, but replication did not confirm it in time. It is not undone."""

    @property
    def timeout(self) -> bool:
        """Always true."""
        return True


class WriteError(OperationFailure):
    """The server refused this write. The document was not changed."""


class DuplicateKeyError(WriteError):
    """A unique index already holds this key. The document was not written; `details` names the index."""


class BulkWriteError(OperationFailure):
    """Some writes of a bulk failed. `details` counts the applied ones and lists the others."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        super().__init__("batch op errors occurred", 65, results)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._details,), self.__dict__

    @property
    def details(self) -> Mapping[str, Any]:
        """The merged result: counts, `writeErrors` and `writeConcernErrors`."""
        return {} if self._details is None else self._details

    @property
    def timeout(self) -> bool:
        """Whether a time limit caused the last write concern error or the last write error."""
        concern_errors = self.details.get("writeConcernErrors")
        if concern_errors and _is_wtimeout(concern_errors[-1]):
            return True
        write_errors = self.details.get("writeErrors")
        return bool(write_errors and write_errors[-1].get("code") == 50)


class ClientBulkWriteException(OperationFailure):
    """A bulk write over several collections failed in part. `partial_result` counts the applied writes."""

    verbose: bool

    def __init__(
        self,
        results: Mapping[str, Any],
        verbose: bool,
        partial_result: ClientBulkWriteResult | None = None,
    ) -> None:
        super().__init__("batch op errors occurred", 65, results)
        self.verbose = verbose
        self._partial_result = partial_result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._details, self.verbose), self.__dict__

    @property
    def details(self) -> Mapping[str, Any]:
        """The merged result: counts, per-operation results and errors."""
        return {} if self._details is None else self._details

    @property
    def error(self) -> Any | None:
        """The error that ended the whole bulk, or None if only single writes failed."""
        return self.details.get("error")

    @property
    def write_concern_errors(self) -> list[WriteConcernError] | None:
        """The write concern errors, at most one per command."""
        return self.details.get("writeConcernErrors", [])

    @property
    def write_errors(self) -> list[WriteError] | None:
        """The single writes that failed; at most one when the bulk was ordered."""
        return self.details.get("writeErrors", [])

    @property
    def partial_result(self) -> ClientBulkWriteResult | None:
        """The writes applied before the failure, or None when none is known."""
        return self._partial_result


class ProtocolError(PyMongoError):
    """The server's bytes break the wire protocol, or a reply lacks a required field. A write may have happened."""


class BugError(PyMongoError):
    """The driver broke its own rules; please report it. The outcome of the operation is unknown."""


class TooManyCommands(PyMongoError, AssertionError):
    """A block sent more commands than `count_commands` allows. All of them were sent."""


class AdviceWarning(UserWarning):
    """A command will be slow with more data: a warning during development (`advise=True`). The command was run.

    Example:
        >>> warnings.simplefilter("error", AdviceWarning)
    """


class EncryptionError(PyMongoError):
    """Encrypting or decrypting failed. `cause` is the reason and shows the outcome."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self._cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._cause,), self.__dict__

    @property
    def cause(self) -> Exception:
        """The exception behind this one."""
        return self._cause

    @property
    def timeout(self) -> bool:
        """Whether the cause was a time limit."""
        return isinstance(self._cause, PyMongoError) and self._cause.timeout


class EncryptedCollectionError(EncryptionError):
    """Creating an encrypted collection failed. `encrypted_fields` names the data keys known to exist."""

    def __init__(self, cause: Exception, encrypted_fields: Mapping[str, Any]) -> None:
        super().__init__(cause)
        self._encrypted_fields = encrypted_fields

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._cause, self._encrypted_fields), self.__dict__

    @property
    def encrypted_fields(self) -> Mapping[str, Any]:
        """The encrypted fields as far as their keys were created. May lack a key if `cause` is a timeout."""
        return self._encrypted_fields


class DocumentTooLarge(InvalidDocument):
    """The encoded document is larger than the server accepts. It was not sent."""


# --- the server's error documents ---------------------------------------------------------------------------

NOT_PRIMARY_CODES = _core.NOT_PRIMARY_CODES
DUPLICATE_KEY_CODES = frozenset({11000, 11001, 12582})
_CLASS_BY_CODE: dict[int, type[OperationFailure]] = {
    43: CursorNotFound,
    50: ExecutionTimeout,
    239: SnapshotTooOld,
    246: SnapshotUnavailable,
}
_CLASS_BY_CODE |= dict.fromkeys(DUPLICATE_KEY_CODES, DuplicateKeyError)

# Error codes of a standalone mongod, and words in the message that identify it: some codes have other uses too.
_STANDALONE = {2: "not replicated", 20: "replica set", 123: "replica set", 40573: "replica sets"}
_AS_A_SET = "; this mongod is standalone: start it with --replSet and initiate the set, one member is enough"
_REMEDIES = {
    225: "; a session runs one operation at a time: await each before the next, or give each task a session of its own",
    239: "; read again from a new snapshot, or raise minSnapshotHistoryWindowInSeconds on every server",
    246: "; read again, at a later moment; capped collections have no snapshots",
    361: "; the collection was dropped, renamed or replaced after its parts were planned: plan them again",
}

# The order in which configured time limits are named in messages.
_TIMEOUT_NAMES = ("socketTimeoutMS", "timeoutMS", "connectTimeoutMS")


def command_error(
    reply: Mapping[str, Any],
    max_wire_version: int | None = None,
    timeouts: Mapping[str, float] | None = None,
) -> NotPrimaryError | OperationFailure:
    """Return the exception for a reply that says the command failed (`ok: 0`, or no `ok` at all).

    Args:
        reply: the server's reply; it becomes `details`.
        max_wire_version: the maximum wire version of the server that answered, if known.
        timeouts: configured limits in milliseconds by option name, for the message of a timeout.
    """
    code = reply.get("code")
    if "ok" not in reply:
        # No command ran: the server could not parse the message as a command.
        return OperationFailure(str(reply.get("$err")), code, reply, max_wire_version)
    message = str(reply.get("errmsg", ""))
    if type(code) is not int:
        # A value of any other type is not a code.
        code = int(code) if isinstance(code, (int, float)) else None
    if _is_not_primary(code, message):
        return NotPrimaryError(message, reply)
    if code == 50:
        message += format_timeouts(timeouts)
    elif code in _REMEDIES:
        message += _REMEDIES[code]
    elif code in _STANDALONE and _STANDALONE[code] in message:
        message += _AS_A_SET
    return _CLASS_BY_CODE.get(code or 0, OperationFailure)(message, code, reply, max_wire_version)


def out_of_time(cause: PyMongoError) -> NetworkTimeout | ExecutionTimeout:
    """Return the timeout error for an operation that could not be retried after `cause` before its deadline.

    An `except` for AutoReconnect or OperationFailure that would catch `cause` catches it too. It has the labels of
    `cause`.
    """
    message = f"no time is left for another attempt, raise timeoutMS, or the argument of timeout(): {cause}"
    error: NetworkTimeout | ExecutionTimeout
    if isinstance(cause, AutoReconnect):
        error = NetworkTimeout(message, cause.errors)
    else:
        error = ExecutionTimeout(message, 50, {"ok": 0, "errmsg": message, "code": 50})
    error._error_labels |= cause._error_labels
    error.__cause__ = cause
    return error


def is_allowable(reply: Mapping[str, Any], allowable_errors: Container[int | str] | None) -> bool:
    """Return whether a failed reply is one of the errors that the caller allows.

    A reply with a code is compared by code alone, any other by message.
    """
    if not allowable_errors or "ok" not in reply:
        return False
    code = reply.get("code")
    return (reply.get("errmsg") if code is None else code) in allowable_errors


def write_error(reply: Mapping[str, Any]) -> WriteError | WriteConcernError | ProtocolError | None:
    """Return the exception for the reply of a single insert, update or delete, or None on success.

    A write error takes precedence over a write concern error; of several write errors the last one counts.
    """
    errors = reply.get("writeErrors")
    if errors:
        error = errors[-1] if isinstance(errors, list) else None
        if not isinstance(error, Mapping):
            return _unreadable("writeErrors", errors)
        code = error.get("code")
        # Only 11000 here: the two older codes come from findAndModify, which fails as a command.
        kind = DuplicateKeyError if code == 11000 else WriteError
        return kind(str(error.get("errmsg")), code, error)
    return write_concern_error(reply)


def write_concern_error(reply: Mapping[str, Any]) -> WriteConcernError | ProtocolError | None:
    """Return the exception for the `writeConcernError` of a reply, or None when there is none."""
    error = reply.get("writeConcernError")
    if not error:
        return None
    if not isinstance(error, Mapping):
        return _unreadable("writeConcernError", error)
    if labels := reply.get("errorLabels"):
        # The server puts the labels beside the error; callers look for them in `details`.
        error = {**error, "errorLabels": labels}
    kind = WTimeoutError if _is_wtimeout(error) else WriteConcernError
    return kind(str(error.get("errmsg")), error.get("code"), error)


def format_timeouts(timeouts: Mapping[str, float] | None) -> str:
    """Return ` (configured timeouts: ...)` for a message, or an empty string when none is configured."""
    if not timeouts:
        return ""
    named = [f" {name}: {timeouts[name]}ms" for name in _TIMEOUT_NAMES if name in timeouts]
    return f" (configured timeouts:{','.join(named)})" if named else ""


def _is_not_primary(code: int | None, message: str) -> bool:
    if code is not None:
        return code in NOT_PRIMARY_CODES
    return "not master" in message or "node is recovering" in message


def _is_wtimeout(error: Mapping[str, Any]) -> bool:
    info = error.get("errInfo")
    return error.get("code") == 50 or (isinstance(info, Mapping) and bool(info.get("wtimeout")))


def _labels_in(details: object) -> list[str]:
    """Return the error labels in a reply's details, which may be of any type."""
    labels = details.get("errorLabels") if isinstance(details, Mapping) else None
    return [label for label in labels if isinstance(label, str)] if isinstance(labels, list) else []


def _unreadable(field: str, found: object) -> ProtocolError:
    return ProtocolError(f"expected documents in {field} of the reply, got {found!r}")


def _with_details(message: str, details: Any) -> str:
    return message if details is None else f"{message}, full error: {details}"
