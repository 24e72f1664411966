"""Compare an error with the one that a case expects.

Spec: unified-test-format, "expectedError".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spec.unified import values
from spec.unified.driver import Driver
from spec.unified.matching import Matcher

__all__ = ["check_error"]


def check_error(driver: Driver, matcher: Matcher, expected: Mapping[str, Any], error: BaseException) -> None:
    """Raise AssertionError from the error when it is not the expected one."""
    try:
        for name, value in expected.items():
            _CHECKS[name](driver, matcher, value, error)
    except AssertionError as mismatch:
        raise mismatch from error


def _is_error(driver: Driver, matcher: Matcher, value: bool, error: Any) -> None:
    assert value, f"expected no error, got {error!r}"


def _is_client_error(driver: Driver, matcher: Matcher, value: bool, error: Any) -> None:
    error = _innermost(error)
    errors = driver.errors
    from_server = isinstance(error, errors.OperationFailure | errors.NotPrimaryError)
    assert from_server != value, f"expected {'a client' if value else 'a server'} error, got {error!r}"


def _is_timeout_error(driver: Driver, matcher: Matcher, value: bool, error: Any) -> None:
    error = _innermost(error)
    assert isinstance(error, driver.errors.PyMongoError), f"expected an error of the driver, got {error!r}"
    assert error.timeout == value, f"expected timeout to be {value}, got {error!r}"


def _contains(driver: Driver, matcher: Matcher, value: str, error: Any) -> None:
    # Some server messages are in the nested error, or in the single write errors.
    texts = [str(error), str(_innermost(error)), str(getattr(error, "details", ""))]
    assert any(value.lower() in text.lower() for text in texts), f"expected {value!r} in {error!r}"


def _code(driver: Driver, matcher: Matcher, value: int, error: Any) -> None:
    error = _innermost(error)
    details = _details(error)
    codes = [getattr(error, "code", None), details.get("code")]
    codes += [one.get("code") for one in details.get("writeErrors", ())]
    codes += [one.get("code") for one in details.get("writeConcernErrors", ())]
    assert value in codes, f"expected code {value}, got {codes} of {error!r}"


def _code_name(driver: Driver, matcher: Matcher, value: str, error: Any) -> None:
    found = _details(_innermost(error)).get("codeName")
    assert found == value, f"expected {value}, got {found} of {error!r}"


def _labels_contain(driver: Driver, matcher: Matcher, value: list[str], error: Any) -> None:
    labels = [label for label in value if not error.has_error_label(label)]
    assert not labels, f"expected the labels {labels} on {error!r}"


def _labels_omit(driver: Driver, matcher: Matcher, value: list[str], error: Any) -> None:
    has = getattr(error, "has_error_label", None)
    labels = [label for label in value if has is not None and has(label)]
    assert not labels, f"expected no labels {labels} on {error!r}"


def _response(driver: Driver, matcher: Matcher, value: Any, error: Any) -> None:
    matcher.match(value, _details(_innermost(error)), is_root=True, at="error response")


def _result(driver: Driver, matcher: Matcher, value: Any, error: Any) -> None:
    matcher.match(value, values.describe_error_result(error), is_root=True, at="result of the error")


def _write_errors(driver: Driver, matcher: Matcher, value: Mapping[str, Any], error: Any) -> None:
    found = {str(one["idx"]): one for one in error.write_errors}
    assert set(found) == set(value), f"expected write errors at {list(value)}, got {list(found)}"
    for number, one in value.items():
        matcher.match(one, found[number], is_root=True, at=f"write error {number}")


def _write_concern_errors(driver: Driver, matcher: Matcher, value: list[Any], error: Any) -> None:
    found = [{**one, "message": one.get("errmsg")} for one in error.write_concern_errors]
    matcher.match(value, found, is_root=True, at="write concern errors")


def _innermost(error: Any) -> Any:
    # A client's bulk write wraps the error that ended it, and so does encryption.
    return getattr(error, "error", None) or getattr(error, "cause", None) or error


def _details(error: Any) -> Mapping[str, Any]:
    details = getattr(error, "details", None)
    return details if isinstance(details, Mapping) else {}


_CHECKS = {
    "isError": _is_error,
    "isClientError": _is_client_error,
    "isTimeoutError": _is_timeout_error,
    "errorContains": _contains,
    "errorCode": _code,
    "errorCodeName": _code_name,
    "errorLabelsContain": _labels_contain,
    "errorLabelsOmit": _labels_omit,
    "errorResponse": _response,
    "expectResult": _result,
    "writeErrors": _write_errors,
    "writeConcernErrors": _write_concern_errors,
}
