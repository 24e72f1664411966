"""What a user may do: the program's function `allowed` is asked here only, for one document or for a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mangonel.admin._request import Request
from mangonel.odm.expressions.expr import Expr, Operand

if TYPE_CHECKING:
    from mangonel.admin._port import Port
    from mangonel.admin._shown import ShownModel
    from mangonel.admin._site import Admin


async def listed_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Any:
    """Return which documents of a model the user may list: False for none, True for all, or a filter.

    Raises:
        TypeError: the answer is something else.
    """
    answer = await port.call(admin.allowed, request.user, "list", shown.model, None)
    return answer if _is_filter(answer) else _is_yes(answer, "list")


async def may_flow(
    admin: Admin, port: Port, request: Request, action: str, shown: ShownModel, document: Any = None
) -> bool:
    """Return whether the user may do something other than list documents.

    Raises:
        TypeError: the answer is a filter, or something else.
    """
    answer = await port.call(admin.allowed, request.user, action, shown.model, document)
    if _is_filter(answer):
        raise TypeError(
            f'expected True or False from allowed= for "{action}", got the filter {answer!r}; return filters for "list"'
        )
    return _is_yes(answer, action)


def _is_yes(answer: Any, action: str) -> bool:
    # Whatever else there is would be true, as a query or a coroutine.
    if answer is None or isinstance(answer, int):
        return bool(answer)
    kinds = "True, False or a filter" if action == "list" else "True or False"
    raise TypeError(f'expected {kinds} from allowed= for "{action}", got {type(answer).__name__}')


def narrowed(query: Any, listed: Any) -> Any:
    """Return the query for the documents of an answer of `listed_flow` that is not False."""
    return query.find(listed) if _is_filter(listed) else query


async def is_seen_flow(port: Port, listed: Any, shown: ShownModel, ids: list[Any]) -> set[str]:
    """Return which of these ids lead to documents that the user may list, in the form of addresses."""
    if not _is_filter(listed):
        return {shown.id_text(id) for id in ids} if listed else set()
    query = narrowed(shown.model.find(shown.model.id.in_(ids)), listed)
    return {shown.id_text(id) for id in await port.call(query.distinct, shown.model.id)}


def _is_filter(answer: Any) -> bool:
    return isinstance(answer, (Mapping, Expr, Operand))
