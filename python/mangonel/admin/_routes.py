"""The routes of the admin, and the checks before them: a login, and for a POST its token."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mangonel.admin._allowed import listed_flow
from mangonel.admin._body import FormReader, reader_of
from mangonel.admin._document import delete_flow, document_flow, file_flow, history_flow, new_flow
from mangonel.admin._layout import page
from mangonel.admin._list import find_flow, list_flow, models_flow
from mangonel.admin._live import live_flow
from mangonel.admin._login import login_address, login_flow, logout
from mangonel.admin._markup import tag
from mangonel.admin._request import Refused, Request, Response
from mangonel.websessions.csrf import FIELD, check_request
from mangonel.websessions.errors import CSRFError

if TYPE_CHECKING:
    from mangonel.admin._port import Port
    from mangonel.admin._site import Admin

log = logging.getLogger("mangonel.admin")

# The pages of one model, by the last part of the address.
PAGES: dict[str, Any] = {
    "": list_flow,
    "document": document_flow,
    "new": new_flow,
    "delete": delete_flow,
    "history": history_flow,
    "file": file_flow,
    "find": find_flow,
    "live": live_flow,
}
POSTED = frozenset({"document", "new", "delete"})
STATIC = {
    "admin.css": "text/css; charset=utf-8",
    "admin.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "palette.css": "text/css; charset=utf-8",
}
HERE = Path(__file__).parent / "static"


def static(path: str) -> Response | None:
    """Return a file of the package, which needs no websession; None for another address."""
    name = path.removeprefix("/-/")
    if not path.startswith("/-/") or name not in STATIC:
        return None
    headers = (("Content-Type", STATIC[name]), ("Cache-Control", "max-age=300"))
    return Response(_file(name), headers=headers)


@cache
def _file(name: str) -> bytes:
    return (HERE / name).read_bytes()


async def answer_flow(
    admin: Admin,
    port: Port,
    request: Request,
    kind: str = "",
    read_flow: Callable[[FormReader], Any] | None = None,
) -> Response:
    """Answer a request.

    Args:
        admin: the admin.
        port: how to wait.
        request: the request, with the form of a POST unless `read_flow` is given.
        kind: the content type of the form.
        read_flow: feeds the form to a reader.
    """
    reader: FormReader | None = None
    try:
        if read_flow is not None and request.method == "POST":
            reader = reader_of(kind, request.user, admin.max_body)
            await read_flow(reader)
            request.take(reader)
        return await _checked_flow(admin, port, request)
    except Refused as error:
        return refusal(admin, request, error)
    except CSRFError as error:
        log.warning("refused %s: %s", request.path, error)
        return refusal(
            admin, request, Refused(403, "this form is too old, or came from another site; load it again")
        )
    finally:
        if reader is not None:
            reader.close()


def refusal(admin: Admin, request: Request, error: Refused) -> Response:
    """Return the page that says why a request is refused."""
    return page(
        admin, request, TITLES.get(error.status, "Refused"), tag("p", str(error)), status=error.status
    )


TITLES = {403: "Forbidden", 404: "Not found", 405: "Not allowed", 422: "Does not fit"}


async def _checked_flow(admin: Admin, port: Port, request: Request) -> Response:
    if request.method not in ("GET", "HEAD", "POST"):
        raise Refused(405, "expected GET or POST")
    if request.method == "POST":
        check_request(request.session, request.form.pop(FIELD, None), request.header)
    steps = request.path.strip("/").split("/")
    if steps == ["-", "login"] and callable(admin.login):
        return await login_flow(admin.login, admin, port, request)
    if request.user is None:
        return Response.to(login_address(admin, request, _here(request)))
    if steps == ["-", "logout"] and request.method == "POST":
        return logout(request)
    if steps == [""]:
        return await models_flow(admin, port, request)
    shown = admin.by_title(steps[0])
    name = steps[1] if len(steps) > 1 else ""
    if shown is None or len(steps) > 2 or name not in PAGES:
        raise Refused(404, "no such page")
    if request.method == "POST" and name not in POSTED:
        raise Refused(405, "expected GET")
    listed = await listed_flow(admin, port, request, shown)
    if listed is False:
        raise Refused(403, f"you may not see {shown.title}")
    page_flow = PAGES[name]
    return await page_flow(admin, port, replace(request, listed=listed), shown)


def _here(request: Request) -> str | None:
    """Return the address to continue with after the login; None for the first or an unknown page."""
    if request.method != "GET" or request.path in ("", "/"):
        return None
    return request.link(*request.path.strip("/").split("/"), **request.query)
