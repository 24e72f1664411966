"""A query document as text: an argument of a sub-command of `mangonel`, or an option of an engine."""

from __future__ import annotations

from typing import Any

from mangonel._command_line import UsageProblem


def query_of(
    text: str | None, name: str = "--filter", error: type[Exception] = UsageProblem
) -> dict[str, Any] | None:
    """Return the query document in a text of extended JSON; None without a text.

    Args:
        text: the value of the argument.
        name: the argument's name, for the message.
        error: the class of the exception for any other text.
    """
    if text is None:
        return None
    from mangonel.bson import json_util

    try:
        query = json_util.loads(text)
    except (ValueError, TypeError) as cause:
        raise error(f"expected extended JSON for {name}, got {text!r}: {cause}") from cause
    if not isinstance(query, dict):
        raise error(f"expected a JSON object for {name}, got {text}")
    return query
