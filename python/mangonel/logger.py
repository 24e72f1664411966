"""The structured log: loggers `mangonel.command`, `.connection`, `.serverSelection` and `.topology`.

The message of each record is a `LogMessage`: one JSON object with the specification's keys. All records have the level
debug. `logging.getLogger("mangonel").setLevel(logging.DEBUG)` switches them on at once. A level set on a parent logger,
as by `logging.basicConfig`, applies to new clients at once and to existing ones within a heartbeat. Documents are cut
after 1000 bytes; the environment variable MONGODB_LOG_MAX_DOCUMENT_LENGTH changes that. Credentials are never shown.

Spec: logging, command-logging-and-monitoring, connection-monitoring-and-pooling,
server-selection, server-discovery-and-monitoring-logging-and-monitoring.
"""

from __future__ import annotations

import os

from mangonel import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["LogMessage"]

_LONGEST = 1000
# PyMongo reads only the second spelling.
_VARIABLES = ("MONGODB_LOG_MAX_DOCUMENT_LENGTH", "MONGOB_LOG_MAX_DOCUMENT_LENGTH")


def longest_document() -> int:
    """Return the length in bytes at which documents are cut, from the current environment."""
    for name in _VARIABLES:
        text = os.environ.get(name, "")
        if text == "unlimited":
            return 2**31
        try:
            longest = int(text)
        except ValueError:
            continue
        if longest >= 0:
            return longest
    return _LONGEST


class LogMessage:
    """One log message; its text is JSON.

    Args:
        message: the event.
        fields: values by the specification's keys; a key with None is left out, BSON documents are bytes.
    """

    __slots__ = ("_fields", "_text")

    def __init__(self, message: str, **fields: Any) -> None:
        self._fields = {"message": message, **fields}
        self._text: str | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the message, before they become text."""
        return {key: value for key, value in self._fields.items() if value is not None}

    def __str__(self) -> str:
        if self._text is None:
            import json

            longest = longest_document()
            shown = {
                key: _core.shown_json(value, longest) if isinstance(value, bytes) else value
                for key, value in self.fields.items()
            }
            self._text = json.dumps(shown, default=_plain)
        return self._text


def _plain(value: Any) -> Any:
    from mangonel.bson import json_util
    from mangonel.bson.errors import BSONError

    try:
        return json_util.default(value)
    except (TypeError, BSONError):
        return repr(value)
