"""Permissions: only this module calls the program's function `allowed`, for one document or for a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mangonel.admin._request import Request
from mangonel.odm.expressions.expr import Expr, Operand, query_of

if TYPE_CHECKING:
    from mangonel.admin._port import Port
    from mangonel.admin._shown import ShownModel
    from mangonel.admin._site import Admin


async def listed_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Any:
    """Return which documents of a model the user may list: False for none, True for all, or a filter.

    If the admin also shows a subclass, the answer for the subclass narrows its documents here too.

    Raises:
        TypeError: `allowed` returned something else.
    """
    answer = await _own_flow(admin, port, request, shown)
    if answer is False:
        return False
    filters = [answer] if _is_filter(answer) else []
    for other in admin.shown:
        if other is shown or not issubclass(other.model, shown.model):
            continue
        kind = other.model.unscoped()._conditions()
        below = await _own_flow(admin, port, request, other)
        if below is True or not kind:
            continue
        its = [] if below is False else [query_of({"$and": [kind, query_of(below)]})]
        filters.append({"$or": [{"$nor": [kind]}, *its]})
    if not filters:
        return True
    return filters[0] if len(filters) == 1 else {"$and": [query_of(one) for one in filters]}


async def _own_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Any:
    answer = await port.call(admin.allowed, request.user, "list", shown.model, None)
    return answer if _is_filter(answer) else _is_yes(answer, "list")


async def may_flow(
    admin: Admin, port: Port, request: Request, action: str, shown: ShownModel, document: Any = None
) -> bool:
    """Return whether the user may do something other than list documents.

    For a document of a subclass that the admin also shows, `allowed` gets the subclass.

    Raises:
        TypeError: `allowed` returned a filter, or something else.
    """
    if document is not None:
        shown = admin.by_model(type(document)) or shown
    answer = await port.call(admin.allowed, request.user, action, shown.model, document)
    if _is_filter(answer):
        raise TypeError(
            f'expected True or False from allowed= for "{action}", got the filter {answer!r}; return filters for "list"'
        )
    return _is_yes(answer, action)


def _is_yes(answer: Any, action: str) -> bool:
    # Any other object would be true, such as a query or a coroutine.
    if answer is None or isinstance(answer, int):
        return bool(answer)
    kinds = "True, False or a filter" if action == "list" else "True or False"
    raise TypeError(f'expected {kinds} from allowed= for "{action}", got {type(answer).__name__}')


def narrowed(query: Any, listed: Any) -> Any:
    """Return the query limited to the documents that `listed_flow` allows; its answer is not False."""
    return query.find(listed) if _is_filter(listed) else query


async def is_seen_flow(port: Port, listed: Any, shown: ShownModel, ids: list[Any]) -> set[str]:
    """Return those of these ids whose documents the user may list, as they are written in addresses."""
    if not _is_filter(listed):
        return {shown.id_text(id) for id in ids} if listed else set()
    query = narrowed(shown.model.find(shown.model.id.in_(ids)), listed)
    return {shown.id_text(id) for id in await port.call(query.distinct, shown.model.id)}


async def seen_flow(
    admin: Admin, port: Port, request: Request, shown: ShownModel, ids: list[Any]
) -> set[str]:
    """Return those of these ids whose documents the user may list and view, as they are written in addresses."""
    listed = await listed_flow(admin, port, request, shown)
    if listed is False or not ids:
        return set()
    query = narrowed(shown.model.find(shown.model.id.in_(ids), on_invalid="skip"), listed)
    return {
        shown.id_text(document.id)
        for document in await port.call(query.all)
        if await may_flow(admin, port, request, "view", shown, document)
    }


def _is_filter(answer: Any) -> bool:
    return isinstance(answer, (Mapping, Expr, Operand))
