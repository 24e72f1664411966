"""What the driver writes to the loggers `mangonel.command`, `.connection`, `.serverSelection` and `.topology`.

Each record's message is a `LogMessage`: its text is one JSON object with the specification's keys. All are debug
messages: `logging.getLogger("mangonel").setLevel(logging.DEBUG)` turns them on at once; a level above, as of
`logging.basicConfig`, counts for clients made later, and within a heartbeat. Documents in them are cut after 1000
bytes, or what the environment variable MONGODB_LOG_MAX_DOCUMENT_LENGTH says. Credentials are never shown.

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
# PyMongo looks for the second spelling only.
_VARIABLES = ("MONGODB_LOG_MAX_DOCUMENT_LENGTH", "MONGOB_LOG_MAX_DOCUMENT_LENGTH")


def longest_document() -> int:
    """Return after how many bytes documents are cut, as the environment says now."""
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
    """One message: its fields, made into JSON when a handler asks for its text.

    Args:
        message: what happened.
        fields: the specification's keys; None leaves a key out, BSON documents are bytes.
    """

    __slots__ = ("_fields", "_text")

    def __init__(self, message: str, **fields: Any) -> None:
        self._fields = {"message": message, **fields}
        self._text: str | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """What the message says, before it becomes text."""
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
