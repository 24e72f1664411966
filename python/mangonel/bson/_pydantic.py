"""pydantic's schemas of BSON's types, for fields of pydantic models and for FastAPI's parameters, bodies and responses.

Only pydantic's own hook imports this. A value of the type is accepted unchanged. In JSON, an ObjectId, a decimal and
code are text, binary data is base64, a DatetimeMS is milliseconds, and the types that only MongoDB has are extended
JSON. The plain JSON that a cursor or the mapper writes can be read too.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from mangonel.bson import json_util
from mangonel.bson.dbref import DBRef
from mangonel.bson.errors import BSONError, InvalidId
from mangonel.bson.regex import Regex
from mangonel.bson.timestamp import Timestamp


def schema_of(kind: type[Any]) -> Any:
    """Return pydantic's schema of a BSON type.

    Args:
        kind: the class.
    """
    from pydantic_core import core_schema as schemas

    load, dump, json = form_of(kind)

    return schemas.no_info_plain_validator_function(
        lambda value: value if isinstance(value, kind) else load(kind, value),
        metadata={"pydantic_js_functions": [lambda schema, handler: dict(json)]},
        serialization=schemas.plain_serializer_function_ser_schema(dump, when_used="json-unless-none"),
    )


def form_of(kind: type[Any]) -> _Form:
    """Return the JSON form of a BSON type: the function that reads a value, the one that writes it, and the schema.

    Args:
        kind: the class.
    """
    name = next((one.__name__ for one in kind.__mro__ if one.__name__ in _FORMS), "")
    return _FORMS.get(name, (_extended, json_util.default, {"type": "object"}))


def plain(value: Any) -> Any:
    """Return a value in plain JSON, as the core writes it.

    Args:
        value: a Timestamp, Regex, DBRef, MinKey or MaxKey.
    """
    if isinstance(value, Timestamp):
        return {"t": value.time, "i": value.inc}
    if isinstance(value, DBRef):
        return value.as_doc()
    made = json_util.default(value)
    if isinstance(value, Regex):
        pattern, options = made["$regularExpression"].values()
        return f"/{pattern}/{options}"
    return made


def _object_id(kind: type[Any], value: Any) -> Any:
    if isinstance(value, str):
        try:
            return kind(value)
        except InvalidId:
            pass
    raise ValueError("expected an id of 24 hexadecimal digits")


def _decimal(kind: type[Any], value: Any) -> Any:
    try:
        return kind(str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"expected a decimal number, got {value!r}") from error


def _integer(kind: type[Any], value: Any) -> Any:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    try:
        number = int(value) if is_whole or isinstance(value, str) else None
    except ValueError:
        number = None
    if number is None or not -(2**63) <= number < 2**63:
        raise ValueError(f"expected an integer of 64 bits, got {value!r}")
    return kind(number)


def _binary(kind: type[Any], value: Any) -> Any:
    try:
        return kind(value if isinstance(value, bytes) else base64.b64decode(value, validate=True))
    except (TypeError, ValueError, binascii.Error) as error:
        raise ValueError("expected bytes in base64") from error


def _code(kind: type[Any], value: Any) -> Any:
    if isinstance(value, str):
        return kind(value)
    raise ValueError(f"expected code as text, got {type(value).__name__}")


def _extended(kind: type[Any], value: Any) -> Any:
    if isinstance(value, dict):
        try:
            made = json_util.object_hook(dict(value))
        except (TypeError, ValueError, LookupError, BSONError) as error:
            raise ValueError(
                f"expected a {kind.__name__} in extended JSON, got {value!r}: {error}"
            ) from error
        if isinstance(made, kind):
            return made
    raise ValueError(f"expected a {kind.__name__} in extended JSON, got {value!r}")


def _timestamp(kind: type[Any], value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"t", "i"}:
        value = {"$timestamp": value}
    return _extended(kind, value)


def _regex(kind: type[Any], value: Any) -> Any:
    if isinstance(value, str) and value[:1] == "/":
        pattern, slash, options = value[1:].rpartition("/")
        if slash and set(options) <= set("ilmsux"):
            value = {"$regularExpression": {"pattern": pattern, "options": options}}
    return _extended(kind, value)


_TEXT = {"type": "string"}
_Form = tuple[Callable[[type[Any], Any], Any], Callable[[Any], Any], dict[str, Any]]
# Keys are names, since the modules of the classes import this one.
_FORMS: dict[str, _Form] = {
    "ObjectId": (_object_id, str, {**_TEXT, "pattern": "^[0-9a-fA-F]{24}$"}),
    "Decimal128": (_decimal, str, {**_TEXT, "format": "decimal"}),
    "Int64": (_integer, int, {"type": "integer"}),
    "Binary": (_binary, lambda value: base64.b64encode(value).decode(), {**_TEXT, "format": "base64"}),
    # Milliseconds since 1970.
    "DatetimeMS": (_integer, int, {"type": "integer"}),
    "Code": (_code, str, _TEXT),
    "Timestamp": (_timestamp, json_util.default, {"type": "object"}),
    "Regex": (_regex, json_util.default, {"type": "object"}),
}
