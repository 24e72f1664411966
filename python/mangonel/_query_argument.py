"""A query document as an argument of a sub-command of `mangonel`."""

from __future__ import annotations

from typing import Any

from mangonel._command_line import UsageProblem


def query_of(text: str | None) -> dict[str, Any] | None:
    """Return the query document that an argument has as extended JSON; None without one.

    Raises:
        UsageProblem: it has something else.
    """
    if text is None:
        return None
    from mangonel.bson import json_util

    try:
        query = json_util.loads(text)
    except (ValueError, TypeError) as error:
        raise UsageProblem(f"--filter is no extended JSON: {error}") from error
    if not isinstance(query, dict):
        raise UsageProblem(f"expected a JSON object for --filter, got {text}")
    return query
