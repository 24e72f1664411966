"""Removes secrets from libmongocrypt's errors about a key service's response.

The library quotes the whole response. The response may hold a key or token, or quote the request, which holds one too.
"""

from __future__ import annotations

import json
import re

_ANSWER = "Response body=\n"
_NOT_SHOWN = "; its answer is not shown, as it may hold a key or token"
# A response with a lower status is a success or a redirect.
_REFUSED = 400
# The fields that hold a service's reason: AWS, OAuth, Azure and GCP; the last two nest them in a document `error`.
_WORDS = ("__type", "error", "error_description", "code", "status", "message", "Message")
_MOST_CHARACTERS = 500
# Parts of a request, in case a service quotes one; and any text as long as a key or token.
_SECRET = re.compile(
    r"(security-token:\s*|bearer\s+|client_secret=|assertion=)[^\s&\"'\\]+|[\w+/=-]{64,}",
    re.ASCII | re.IGNORECASE,
)


def without_answer(text: str) -> str:
    """Return the library's message; of the response it keeps only the service's reason to refuse."""
    head, found, body = text.partition(_ANSWER)
    if not found:
        return text
    status = re.search(r"HTTP status=(\d+)", head)
    reasons = _reasons(body) if status is not None and int(status[1]) >= _REFUSED else ""
    if not reasons:
        return head.rstrip(" .") + _NOT_SHOWN
    return f"{head.rstrip(' .')}, the service says: {reasons}"


def _reasons(body: str) -> str:
    try:
        answer = json.loads(body)
    except ValueError:
        return ""
    found: list[str] = []
    for place in (answer, answer.get("error") if isinstance(answer, dict) else None):
        said = place if isinstance(place, dict) else {}
        found += [f"{name}: {_word(said[name])}" for name in _WORDS if isinstance(said.get(name), (str, int))]
    return ", ".join(found)


def _word(value: str | int) -> str:
    return _SECRET.sub(lambda match: f"{match[1] or ''}<hidden>", str(value)[:_MOST_CHARACTERS])
