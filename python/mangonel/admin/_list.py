"""The pages of lists: the models, and the documents of one, searched, narrowed, sorted and page by page."""

from __future__ import annotations

import contextlib
import json
import re
from html import unescape
from typing import TYPE_CHECKING, Any

from mangonel.admin._allowed import is_seen_flow, listed_flow, may_flow, narrowed
from mangonel.admin._forms import HIDDEN
from mangonel.admin._layout import cell, misfit, name_text, page, shortened
from mangonel.admin._markup import Markup, tag
from mangonel.admin._request import Refused, Request, Response
from mangonel.admin._texts import Spec, leaf_of
from mangonel.odm import Ref
from mangonel.odm import text as text_search
from mangonel.odm.expressions.keys import key_of
from mangonel.odm.model.belongs_to import held

if TYPE_CHECKING:
    from mangonel.admin._port import Port
    from mangonel.admin._shown import ShownModel
    from mangonel.admin._site import Admin

# How many targets the search for a reference offers.
OFFERED = 20
# Characters of a search; the server refuses long patterns.
LONGEST = 1000


async def models_flow(admin: Admin, port: Port, request: Request) -> Response:
    """Return the page of the models that the user may list."""
    links = [
        tag("li", tag("a", shown.title, href=request.link(shown.title)))
        for shown in admin.shown
        if await listed_flow(admin, port, request, shown) is not False
    ]
    return page(admin, request, admin.title, tag("ul", links, class_="models"))


async def list_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Response:
    """Return a page of a model's documents."""
    faults: list[Any] = []
    asked = request.query
    query = narrowed(shown.model.find(), request.listed)
    query = _filtered(_searched(query, shown, asked.get("q", "")), shown, asked)
    order = asked.get("sort", "")
    order = order if shown.sorts(order) else shown.order
    columns = shown.listed()
    query = query.sort(order).include(*await _named_flow(admin, port, request, shown, columns))
    query = query.find(on_invalid=faults.append)
    try:
        found = await port.call(
            query.page, admin.page_size, asked.get("after") or None, before=asked.get("before") or None
        )
    except ValueError as error:
        raise Refused(400, str(error)) from error
    start = {key: text for key, text in asked.items() if key not in ("after", "before")}
    if asked.get("before") and found.previous is None:
        # Too few documents for a whole page may come before that one, so show the first page.
        return Response.to(request.link(shown.title, **start))
    documents = [
        document for document in found if await may_flow(admin, port, request, "view", shown, document)
    ]
    unseen = await _unseen_flow(admin, port, request, documents, [name for name, _ in columns])
    may_add = not shown.is_fixed and await may_flow(admin, port, request, "create", shown)
    return page(
        admin,
        request,
        shown.title,
        tag(
            "div",
            _search_form(request, shown),
            tag("a", "New", href=request.link(shown.title, "new"), class_="button") if may_add else None,
            class_="bar",
        ),
        [tag("p", f"{fault.id!r}: {misfit(shown, fault)}", class_="flash error") for fault in faults],
        tag(
            "table",
            tag("thead", tag("tr", _headings(request, shown, columns, order))),
            tag("tbody", [_row(admin, request, shown, columns, document, unseen) for document in documents]),
            data_live=request.link(shown.title, "live"),
        ),
        None if documents else tag("p", "No documents.", class_="hint"),
        tag(
            "nav",
            [
                (tag("a", text, href=request.link(shown.title, **start, **way), rel=rel), " ")
                for text, way, rel, is_there in (
                    ("First page", {}, None, start != asked),
                    ("Previous page", {"before": found.previous}, "prev", found.previous),
                    ("Next page", {"after": found.next}, "next", found.next),
                )
                if is_there
            ],
        ),
    )


async def _named_flow(
    admin: Admin, port: Port, request: Request, shown: ShownModel, columns: list[tuple[str, Spec]]
) -> list[Any]:
    """Return the references of a list to documents of models that the user may list; the others stay ids."""
    found: list[Any] = []
    for name, spec in columns:
        target = admin.by_model(spec["argument"][0].target) if spec["op"] == "ref" else None
        if target is not None and await listed_flow(admin, port, request, target) is not False:
            found.append(getattr(shown.model, name))
    return found


async def _unseen_flow(
    admin: Admin, port: Port, request: Request, documents: list[Any], names: list[str]
) -> frozenset[tuple[str, str]]:
    """Return the referenced documents that the user may not view, by model and id."""
    targets: dict[ShownModel, dict[str, Any]] = {}
    for ref in (held(document, name) for document in documents for name in names):
        if isinstance(ref, Ref) and ref.is_loaded and ref.value is not None:
            shown = admin.by_model(ref._maker.target if ref._maker is not None else type(ref.value))
            if shown is not None:
                targets.setdefault(shown, {})[shown.id_text(ref.id)] = ref.value
    unseen: list[tuple[str, str]] = []
    for shown, by_id in targets.items():
        # By the model that links name; `may_flow` asks about documents of subclasses with the subclass.
        listed = await listed_flow(admin, port, request, shown)
        seen = await is_seen_flow(port, listed, shown, [target.id for target in by_id.values()])
        unseen += [
            (shown.title, id)
            for id, target in by_id.items()
            if id not in seen or not await may_flow(admin, port, request, "view", shown, target)
        ]
    return frozenset(unseen)


def _searched(query: Any, shown: ShownModel, wanted: str) -> Any:
    """Return the query for the documents that contain a text, or have it as their id."""
    if not wanted:
        return query
    if len(wanted) > LONGEST:
        raise Refused(400, f"expected a search for at most {LONGEST} characters, got {len(wanted)}")
    model = shown.model
    if not shown.search and _has_text_index(shown):
        return query.find(text_search(wanted))
    keys = [model.__plan__.fields[name].key for name in shown.searched()]
    # A pattern with a NUL of its own would be an error of the server.
    pattern = re.escape(wanted).replace("\0", r"\x00")
    ways: list[Any] = [{key: {"$regex": pattern, "$options": "i"}} for key in keys]
    with contextlib.suppress(ValueError, ArithmeticError):
        ways.append((model.id == shown.id_of(wanted)).query)
    return query.find({"$or": ways}) if ways else query.none()


def _has_text_index(shown: ShownModel) -> bool:
    """Return whether a model has a text index on shown fields only: a search would reveal hidden ones."""
    model, known = shown.model, dict(shown.asked())
    keys = {model.__plan__.fields[name].key for name in known}
    return any(
        index.kind == "text" and all(key_of(field, model) in keys for field in index.fields)
        for index in model.__indexes__
    )


def _filtered(query: Any, shown: ShownModel, asked: dict[str, str]) -> Any:
    """Return the query for the documents with the values of the filters."""
    for name, spec in shown.narrowing():
        given, leaf = asked.get(f"f.{name}", ""), leaf_of(spec)
        if given and leaf is not None:
            try:
                query = query.find(getattr(shown.model, name) == leaf.read(given))
            except (ValueError, ArithmeticError) as error:
                raise Refused(400, f"{error}, as the filter {name}") from error
    return query


def _search_form(request: Request, shown: ShownModel) -> Markup:
    asked = request.query
    filters = []
    for name, spec in shown.narrowing():
        leaf = leaf_of(spec)
        if leaf is None:
            continue
        given = asked.get(f"f.{name}", "")
        if leaf.input == "select":
            options = [tag("option", "any", value="")]
            options += [
                tag("option", label, value=value, selected=value == given) for value, label in leaf.options
            ]
            entry = tag("select", options, name=f"f.{name}")
        else:
            entry = tag("input", name=f"f.{name}", value=given, size=26)
        filters.append(tag("label", name_text(name), " ", entry))
    sort = asked.get("sort")
    return tag(
        "form",
        tag("label", "Search ", tag("input", type="search", name="q", value=asked.get("q", ""))),
        filters,
        tag("input", type="hidden", name="sort", value=sort) if sort else None,
        tag("button", "Show"),
        method="get",
        action=request.link(shown.title),
        role="search",
    )


def _headings(
    request: Request, shown: ShownModel, columns: list[tuple[str, Spec]], order: str
) -> list[Markup]:
    found = [tag("th", shown.title, scope="col")]
    for name, _ in columns:
        if not shown.sorts(name):
            found.append(tag("th", name_text(name), scope="col"))
            continue
        other = f"-{name}" if order == name else name
        sorted_ = {name: "ascending", f"-{name}": "descending"}.get(order)
        asked = {**request.query, "sort": other, "after": None, "before": None}
        link = tag("a", name_text(name), href=request.link(shown.title, **asked))
        found.append(tag("th", link, scope="col", aria_sort=sorted_))
    return found


def _row(
    admin: Admin,
    request: Request,
    shown: ShownModel,
    columns: list[tuple[str, Spec]],
    document: Any,
    unseen: frozenset[tuple[str, str]],
) -> Markup:
    id = shown.id_text(document.id)
    link = tag("a", shortened(shown.name_of(document)), href=request.link(shown.title, "document", id=id))
    cells = [tag("td", text) for text in _cells(admin, request, shown, columns, document, unseen)]
    return tag("tr", tag("td", link), cells, data_mark=shown.mark_of(document.id))


def _cells(
    admin: Admin,
    request: Request,
    shown: ShownModel,
    columns: list[tuple[str, Spec]],
    document: Any,
    unseen: frozenset[tuple[str, str]],
) -> list[Any]:
    """Return the values of a row; a subclass may hide some that its base shows."""
    model = type(document)
    known = dict(columns if model is shown.model else shown.fields(model))
    return [
        cell(admin, request, spec, held(document, name), unseen) if name in known else HIDDEN
        for name, spec in columns
    ]


async def row_flow(
    admin: Admin, port: Port, request: Request, shown: ShownModel, id: Any
) -> list[str] | None:
    """Return the texts of a document's row, without their markup, since a script puts them into the page.

    Returns:
        None: the list would not show the document.
    """
    listed = await listed_flow(admin, port, request, shown)
    if listed is False:
        return None
    columns = shown.listed()
    query = narrowed(shown.model.find(shown.model.id == id, on_invalid="skip"), listed)
    query = query.include(*await _named_flow(admin, port, request, shown, columns))
    document = await port.call(query.first)
    if document is None or not await may_flow(admin, port, request, "view", shown, document):
        return None
    unseen = await _unseen_flow(admin, port, request, [document], [name for name, _ in columns])
    texts = [
        unescape(re.sub(r"<[^>]*>", "", text)) if isinstance(text, Markup) else str(text)
        for text in _cells(admin, request, shown, columns, document, unseen)
    ]
    return [shortened(shown.name_of(document)), *texts]


async def find_flow(admin: Admin, port: Port, request: Request, shown: ShownModel) -> Response:
    """Return documents that contain a text, as targets for a reference: JSON with the id and the name of each."""
    query = narrowed(shown.model.find(on_invalid="skip"), request.listed)
    query = _searched(query, shown, request.query.get("q", ""))
    found = [
        {"id": shown.id_text(document.id), "name": shown.name_of(document)}
        for document in await port.call(query.limit(OFFERED).all)
        if await may_flow(admin, port, request, "view", shown, document)
    ]
    headers = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
    return Response(json.dumps(found).encode(), headers=headers)
