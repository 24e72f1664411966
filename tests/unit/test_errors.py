"""The tree of exceptions, and the parsing of a server's error replies, compared with PyMongo."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pymongo.errors
import pymongo.helpers_shared
import pytest

from mangonel import errors
from mangonel.auth import without_frames

REPLIES: list[dict[str, Any]] = [
    {"ok": 0, "code": 11000, "errmsg": "E11000 duplicate key"},
    {"ok": 0, "code": 11001, "errmsg": "duplicate key on update"},
    {"ok": 0, "code": 12582, "errmsg": "duplicate key"},
    {"ok": 0, "code": 43, "errmsg": "cursor id 5 not found"},
    {"ok": 0, "code": 50, "errmsg": "operation exceeded time limit", "codeName": "MaxTimeMSExpired"},
    {"ok": 0, "code": 59, "errmsg": "no such command: 'nope'", "codeName": "CommandNotFound"},
    {"ok": 0, "code": 13, "errmsg": "not authorized", "errorLabels": ["A", "B"]},
    {"ok": 0, "errmsg": "some old error"},
    {"ok": 0, "errmsg": "not master"},
    {"ok": 0, "errmsg": "node is recovering"},
    {"ok": 0, "code": 7, "errmsg": "not master"},
    {"$err": "no command", "code": 13},
    {"$err": "no command"},
    *({"ok": 0, "code": code, "errmsg": "stepped down"} for code in sorted(errors.NOT_PRIMARY_CODES)),
]

WRITE_REPLIES: list[dict[str, Any]] = [
    {"ok": 1, "n": 1},
    {"ok": 1, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "E11000"}]},
    {"ok": 1, "writeErrors": [{"index": 0, "code": 11001, "errmsg": "E11001"}]},
    {"ok": 1, "writeErrors": [{"code": 11000, "errmsg": "first"}, {"code": 121, "errmsg": "last"}]},
    {"ok": 1, "writeConcernError": {"code": 64, "errmsg": "timed out", "errInfo": {"wtimeout": True}}},
    {"ok": 1, "writeConcernError": {"code": 50, "errmsg": "timed out"}},
    {
        "ok": 1,
        "writeConcernError": {"code": 100, "errmsg": "not enough"},
        "errorLabels": ["RetryableWriteError"],
    },
    {"ok": 1, "writeErrors": [{"code": 1, "errmsg": "w"}], "writeConcernError": {"code": 64, "errmsg": "c"}},
]


def _pymongo_error(check: Any, *arguments: Any) -> Exception | None:
    try:
        check(*arguments)
    except pymongo.errors.PyMongoError as error:
        return error
    return None


def _facts(error: Any) -> Any:
    """Return everything that a program can see of an error, in a form both drivers share."""
    if error is None:
        return None
    names = ("code", "details", "errors", "timeout", "_max_wire_version")
    shown = {name: getattr(error, name) for name in names if hasattr(error, name)}
    labels = [error.has_error_label(label) for label in ("A", "B", "RetryableWriteError", "C")]
    return type(error).__name__, str(error), shown, labels


@pytest.mark.parametrize("reply", REPLIES, ids=str)
def test_command_error_equals_pymongos(reply: dict[str, Any]) -> None:
    expected = _pymongo_error(pymongo.helpers_shared._check_command_response, reply, 21)

    assert expected is not None
    assert _facts(errors.command_error(reply, 21)) == _facts(expected)


@pytest.mark.parametrize("reply", WRITE_REPLIES, ids=str)
def test_write_error_equals_pymongos(reply: dict[str, Any]) -> None:
    expected = _pymongo_error(pymongo.helpers_shared._check_write_command_response, reply)

    assert _facts(errors.write_error(reply)) == _facts(expected)


@pytest.mark.parametrize(
    "allowable", [[59], ["no such command: 'nope'"], ["ns not found"], [], None], ids=str
)
@pytest.mark.parametrize("reply", [REPLIES[5], REPLIES[7], {"ok": 0, "errmsg": "ns not found"}], ids=str)
def test_allowable_errors_are_those_of_pymongo(reply: dict[str, Any], allowable: Any) -> None:
    error = _pymongo_error(pymongo.helpers_shared._check_command_response, reply, None, allowable)

    assert errors.is_allowable(reply, allowable) == (error is None)


def test_time_limits_are_named_in_the_message_of_a_timeout() -> None:
    limits = {"connectTimeoutMS": 20000.0, "socketTimeoutMS": 5.0, "timeoutMS": 7.0}

    assert errors.format_timeouts(limits) == pymongo.helpers_shared.format_timeout_details(limits)
    assert errors.format_timeouts({}) == pymongo.helpers_shared.format_timeout_details({})
    error = errors.command_error({"ok": 0, "code": 50, "errmsg": "exceeded"}, None, limits)
    assert str(error).startswith("exceeded (configured timeouts: socketTimeoutMS: 5.0ms, timeoutMS: 7.0ms,")


def test_drawing_in_the_module_shows_the_classes_as_they_are() -> None:
    drawn: list[tuple[str, str]] = []
    names: set[str] = set()
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if not (match := re.match(r"    ([│├└─ ]*)([A-Z]\w+)", line)):
            continue
        depth = len(match[1]) // 4
        path[depth:] = [match[2]]
        names.add(match[2])
        if depth:
            drawn.append((path[depth - 1], path[depth]))

    defined = {
        (base.__name__, name)
        for name in errors.__all__
        for base in getattr(errors, name).__bases__
        if base.__name__ in errors.__all__
    }
    assert sorted(drawn) == sorted(defined)
    assert names == set(errors.__all__)


PYMONGO_CLASSES = [
    name
    for name, value in vars(pymongo.errors).items()
    if isinstance(value, type) and issubclass(value, Exception) and not name.startswith("_")
]


@pytest.mark.parametrize("name", PYMONGO_CLASSES)
def test_each_class_of_pymongo_has_its_relations_here(name: str) -> None:
    theirs = {base.__name__ for base in getattr(pymongo.errors, name).__mro__}
    ours = {base.__name__ for base in getattr(errors, name).__mro__}

    assert theirs <= ours
    assert ours - theirs <= {"UsageError", "NetworkError"}


def test_every_class_says_what_the_caller_may_conclude() -> None:
    for name in errors.__all__:
        docstring = vars(getattr(errors, name))["__doc__"]
        assert docstring, name


@pytest.mark.parametrize(
    "error",
    [
        errors.PyMongoError("m", ["L"]),
        errors.AutoReconnect("m", {"errorLabels": ["L"]}),
        errors.NotPrimaryError("m", {"ok": 0, "errorLabels": ["L"]}),
        errors.OperationFailure("m", 5, {"errorLabels": ["L"]}, 21),
        errors.DuplicateKeyError("m", 11000, {"keyValue": {"a": 1}, "errorLabels": ["L"]}),
        errors.BulkWriteError({"writeErrors": [{"code": 50}], "errorLabels": ["L"]}),
        errors.ClientBulkWriteException({"anySuccessful": True, "errorLabels": ["L"]}, True),
        errors.EncryptionError(errors.NetworkTimeout("m")),
        errors.EncryptedCollectionError(errors.NetworkTimeout("m"), {"fields": []}),
        errors.InvalidURI("m"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_error_survives_pickling_with_all_it_knows(error: Any) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.timeout == error.timeout
    assert copy.has_error_label("L") == error.has_error_label("L")
    for name in ("code", "details", "errors", "verbose", "encrypted_fields", "_max_wire_version"):
        assert getattr(copy, name, None) == getattr(error, name, None)
    assert type(getattr(copy, "cause", None)) is type(getattr(error, "cause", None))


@pytest.mark.parametrize(
    "results",
    [
        {},
        {"writeErrors": [{"code": 50}]},
        {"writeErrors": [{"code": 1}], "writeConcernErrors": [{"code": 64, "errInfo": {"wtimeout": True}}]},
        {"writeErrors": [], "writeConcernErrors": [{"code": 64, "errInfo": {}}]},
    ],
    ids=str,
)
def test_bulk_write_error_equals_pymongos(results: dict[str, Any]) -> None:
    assert _facts(errors.BulkWriteError(results)) == _facts(pymongo.errors.BulkWriteError(results))


def test_document_too_large_is_an_invalid_document_and_no_pymongo_error() -> None:
    error = errors.DocumentTooLarge("too large", {"a": 1})

    assert isinstance(error, errors.InvalidDocument)
    assert not isinstance(error, errors.PyMongoError)
    assert error.document == {"a": 1}


def test_an_error_that_leads_to_itself_loses_its_frames_too() -> None:
    def fail() -> None:
        try:
            raise OSError("no such host")
        except OSError as error:
            raise error from error

    with pytest.raises(OSError, match="no such host") as caught:
        fail()
    caught.value.__context__ = ValueError("before")
    without_frames(caught.value)
    assert caught.value.__cause__ is caught.value
    assert caught.value.__traceback__ is None


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (errors.AutoReconnect("connection closed"), errors.NetworkTimeout),
        (errors.NotPrimaryError("no", {"code": 91, "errorLabels": ["A"]}), errors.NetworkTimeout),
        (errors.OperationFailure("no", 262, {"code": 262, "errorLabels": ["A"]}), errors.ExecutionTimeout),
        (errors.WriteConcernError("no", 91, {"code": 91}), errors.ExecutionTimeout),
    ],
    ids=lambda value: type(value).__name__,
)
def test_out_of_time_between_two_attempts_is_a_timeout_with_the_last_error_as_its_cause(
    cause: errors.PyMongoError, kind: type[errors.PyMongoError]
) -> None:
    cause._add_error_label("RetryableWriteError")
    error = errors.out_of_time(cause)
    assert type(error) is kind
    assert error.timeout
    assert error.__cause__ is cause
    assert str(cause) in str(error)
    assert error._error_labels == cause._error_labels
    assert getattr(error, "code", 50) == 50
