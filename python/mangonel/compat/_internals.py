"""Internals of PyMongo that programs import and this driver lacks: checks of options, replies and passwords."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from mangonel._options import checks
from mangonel.bson.json_util import DEFAULT_JSON_OPTIONS, default
from mangonel.errors import ConfigurationError, WriteConcernError, WTimeoutError, command_error
from mangonel.options import validate_keyword

if TYPE_CHECKING:
    from collections.abc import Callable, Container


class _OnlyName:
    """A name for `isinstance` and annotations, without instances. Connections are in the core.

    Subclasses may be defined, since test programs define them when they are imported.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"{cls.__name__}: PyMongo's servers, pools and connections are only names here, for isinstance and "
            "annotations, since the core keeps its own; listen to a pool by a ConnectionPoolListener, "
            "to a server by a ServerListener"
        )


class Server(_OnlyName):
    """For `isinstance` only. As in PyMongo 4.20, there is no `run_operation` for Datadog's integration to wrap."""


class Pool(_OnlyName):
    """For `isinstance` only."""


class Connection(_OnlyName):
    """For `isinstance` only."""


class AsyncConnection(_OnlyName):
    """For `isinstance` only."""


def validate(option: str, value: Any) -> tuple[str, Any]:
    """Return the name of a client's option, and its checked value.

    Raises:
        ConfigurationError: there is no such option.
        TypeError, ValueError: the value does not fit the option.
    """
    return option, validate_keyword(option, value)


def raise_config_error(key: str, suggestions: list[str] | None = None) -> NoReturn:
    """Raise ConfigurationError: there is no such option.

    Raises:
        ConfigurationError: always.
    """
    message = f"Unknown option: {key}."
    if suggestions:
        message += (
            f" Did you mean one of ({', '.join(suggestions)}) or maybe a camelCase version of one? "
            "Refer to docstring."
        )
    raise ConfigurationError(message)


# The checks of single values, by PyMongo's names for them.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "validate_appname_or_none": checks.optional(checks.app_name),
    "validate_boolean_or_string": checks.boolean,
    "validate_datetime_conversion": checks.datetime_conversion,
    "validate_document_class": checks.document_class,
    "validate_driver_or_none": checks.optional(checks.driver_info),
    "validate_is_callable_or_none": checks.optional(checks.callable_object),
    "validate_max_staleness": checks.max_staleness,
    "validate_non_negative_int_or_basestring": checks.integer_or_string,
    "validate_non_negative_integer": checks.non_negative_integer,
    "validate_non_negative_integer_or_none": checks.optional(checks.non_negative_integer),
    "validate_positive_float": checks.positive_number,
    "validate_positive_float_or_zero": checks.non_negative_number,
    "validate_positive_integer": checks.positive_integer,
    "validate_readable": checks.optional(checks.readable_file),
    "validate_server_api_or_none": checks.optional(checks.server_api),
    "validate_timeout_or_none": checks.optional(checks.seconds),
    "validate_timeout_or_none_or_zero": checks.seconds_or_unlimited,
    "validate_timeout_or_zero": checks.seconds_or_zero,
    "validate_type_registry": checks.optional(checks.type_registry),
    "validate_tzinfo": checks.optional(checks.tz_info),
    "validate_uuid_representation": checks.uuid_representation,
}
globals().update(_CHECKS)


def _check_command_response(
    response: Mapping[str, Any],
    max_wire_version: int | None,
    allowable_errors: Container[int | str] | None = None,
    parse_write_concern_error: bool = False,
    pool_opts: object = None,
) -> None:
    """Raise the error of a command's reply, unless it has none or an allowed one.

    Raises:
        OperationFailure: or a subclass; the server refused the command.
        NotPrimaryError: the server accepts no writes.
        WriteConcernError: the write concern was not fulfilled, and the caller has this checked.
    """
    concern = response.get("writeConcernError") if parse_write_concern_error else None
    if concern:
        if "errorLabels" in response:
            concern["errorLabels"] = response["errorLabels"]
        kind = WTimeoutError if (concern.get("errInfo") or {}).get("wtimeout") else WriteConcernError
        raise kind(concern.get("errmsg"), concern.get("code"), concern)
    if response.get("ok"):
        return
    if allowable_errors and "ok" in response:
        code = response.get("code")
        if (response["errmsg"] if code is None else code) in allowable_errors:
            return
    raise command_error(response, max_wire_version)


def _json_convert(obj: Any, json_options: Any = DEFAULT_JSON_OPTIONS) -> Any:
    """Return a value as extended JSON objects for `json.dumps`; documents become dicts, sequences lists."""

    def converted(value: Any) -> Any:
        return _json_convert(value, json_options)

    if isinstance(obj, Mapping):
        return {key: converted(value) for key, value in obj.items()}
    if isinstance(obj, Iterable) and not isinstance(obj, (str, bytes)):
        return list(map(converted, obj))
    with suppress(TypeError):
        return default(obj, json_options)
    return obj


# RFC 4013: the tables of RFC 3454 with characters that a password must not contain.
_PROHIBITED = ("c12", "c21_c22", "c3", "c4", "c5", "c6", "c7", "c8", "c9")


def saslprep(data: Any, prohibit_unassigned_code_points: bool = True) -> Any:
    """Return a user name or password in the form that SASL compares (RFC 4013). Other types are returned unchanged.

    Args:
        data: the text.
        prohibit_unassigned_code_points: refuse characters that Unicode 3.2 lacks.

    Raises:
        ValueError: `data` has a character that is not allowed.
    """
    if not isinstance(data, str):
        return data
    import stringprep
    import unicodedata

    mapped = "".join(
        " " if stringprep.in_table_c12(each) else "" if stringprep.in_table_b1(each) else each
        for each in data
    )
    text = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if not text:
        return ""
    refused = [getattr(stringprep, f"in_table_{name}") for name in _PROHIBITED]
    if prohibit_unassigned_code_points:
        refused.append(stringprep.in_table_a1)
    if stringprep.in_table_d1(text[0]):
        if not stringprep.in_table_d1(text[-1]):
            raise ValueError("SASLprep: failed bidirectional check")
        # A text that begins with a right-to-left letter must not contain left-to-right letters.
        refused.append(stringprep.in_table_d2)
    else:
        refused.append(stringprep.in_table_d1)
    if any(table(each) for each in text for table in refused):
        raise ValueError("SASLprep: failed prohibited character check")
    return text


HAVE_STRINGPREP = True
