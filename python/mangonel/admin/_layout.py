"""The shared parts of pages: the frame around the content, the form for a POST, and the display of one value."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

from mangonel.admin._forms import HIDDEN, kinds_of, without_secrets
from mangonel.admin._markup import Markup, join, tag
from mangonel.admin._request import Request, Response
from mangonel.admin._texts import Spec, leaf_of, shown_json
from mangonel.odm.model.refs import Ref, Refs
from mangonel.websessions.csrf import FIELD

if TYPE_CHECKING:
    from mangonel.admin._shown import ShownModel
    from mangonel.admin._site import Admin

# The most characters of a value in a list.
LONGEST = 80
NONE = "—"


def page(admin: Admin, request: Request, title: str, *content: Any, status: int = 200) -> Response:
    """Return a page of the admin."""
    static = request.link("-")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width"),
        tag("title", f"{title} · {admin.title}"),
        tag("link", rel="icon", href=f"{static}/icon.svg"),
        tag("link", rel="stylesheet", href=f"{static}/palette.css"),
        tag("link", rel="stylesheet", href=f"{static}/admin.css"),
        tag("script", src=f"{static}/admin.js", type="module"),
    )
    user = request.user
    who = user and (
        tag("span", user, class_="who"),
        post_form(request, request.link("-", "logout"), tag("button", "Log out"))
        if callable(admin.login)
        else None,
    )
    top = tag(
        "header", tag("a", admin.title, href=request.link(), class_="brand"), tag("div", who, class_="tools")
    )
    said = [
        tag("p", flash.text, role="status", class_=f"flash {flash.kind}")
        for flash in request.session.flashes()
    ]
    main = tag("main", tag("h1", title), said, content)
    return Response.page(tag("html", head, tag("body", top, main), lang="en"), status)


def post_form(request: Request, address: str, *content: Any, **attributes: Any) -> Markup:
    """Return a form that is sent by POST, with the token that protects it."""
    token = tag("input", type="hidden", name=FIELD, value=request.session.csrf_token())
    return tag("form", token, content, method="post", action=address, **attributes)


def name_text(name: str) -> str:
    """Return an attribute as a label: `created_at` as "Created at"."""
    text = name.replace("_", " ").strip()
    return text[:1].upper() + text[1:]


def cell(
    admin: Admin, request: Request, spec: Spec, value: Any, unseen: frozenset[tuple[str, str]] = frozenset()
) -> Any:
    """Return a value as lists and histories show it; documents in `unseen`, by model and id, are not named."""
    if value is None:
        return NONE
    if isinstance(value, Ref):
        return _link(admin, request, value, unseen)
    if isinstance(value, Refs):
        return join(*[part for ref in list(value)[:10] for part in (_link(admin, request, ref, unseen), " ")])
    leaf = leaf_of(spec)
    if leaf is not None and leaf.input == "secret":
        return HIDDEN
    if isinstance(value, dt.datetime):
        return tag("time", value.isoformat(" ", "seconds"), datetime=value.isoformat())
    if leaf is not None and leaf.input == "select":
        labels = dict(leaf.options)
        try:
            return labels[leaf.write(value)]
        except (ValueError, KeyError):
            return shortened(str(value))
    if leaf is None or leaf.input == "json" or kinds_of(spec):
        return shortened(shown_json(without_secrets(spec, value)))
    try:
        return shortened(leaf.write(value))
    except Exception:
        # `__on_bad__ = "raw"` lets values of other types through.
        return shortened(str(value))


def misfit(shown: ShownModel, error: Any) -> str:
    """Return why a stored document does not fit its model, without hidden values."""
    fields = {name for name, _ in shown.fields()}
    keys = {shown.model.__plan__.fields[name].key for name in fields} | fields
    told = [
        fault for fault in error.errors() if re.split(r"[.\[]", fault["path"].removeprefix("$."))[0] in keys
    ]
    texts = [f"{fault['message']} at {fault['path']}" for fault in told]
    if len(told) < len(error.errors()):
        texts.append("a field that is not shown does not fit its model")
    return "; ".join(texts)


def shortened(text: str) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _link(admin: Admin, request: Request, ref: Ref[Any], unseen: frozenset[tuple[str, str]]) -> Any:
    """Return a link to the document of a reference, by its name if it was fetched and may be seen."""
    target = ref._maker.target if ref._maker is not None else None
    shown = admin.by_model(target)
    if shown is None:
        return str(ref.id)
    id = shown.id_text(ref.id)
    known = ref.value if ref.is_loaded and (shown.title, id) not in unseen else None
    text = shown.name_of(known) if known is not None else f"{shown.title} {id}"
    missing = tag("span", " (missing)", class_="hint") if ref.is_missing else None
    return join(
        tag("a", shortened(text), href=request.link(shown.title, "document", id=id)),
        missing,
    )
