"""The admin's login form, the redirect to the application's own, and the logout. The program checks passwords."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from mangonel.admin._layout import page, post_form
from mangonel.admin._markup import tag
from mangonel.admin._request import Refused, Request, Response

if TYPE_CHECKING:
    from mangonel.admin._port import Port
    from mangonel.admin._site import Admin


log = logging.getLogger("mangonel.admin")


def login_address(admin: Admin, request: Request, after: str | None) -> str:
    """Return the address of the login.

    Args:
        admin: the admin.
        request: the request of a user who is not logged in.
        after: the address to continue with.

    Raises:
        Refused: there is none.
        ValueError: it is an address of the admin, which would lead to itself.
    """
    if admin.login is None:
        log.warning("refused %s: no user is logged in, and Admin has no login= to lead to", request.path)
        raise Refused(403, "log in first")
    if callable(admin.login):
        return request.link("-", "login", next=after)
    if request.base and admin.login.startswith((request.link(), f"{request.base}/")):
        raise ValueError(f"expected login= outside of the admin at {request.base}, got {admin.login!r}")
    sign = "&" if "?" in admin.login else "?"
    return f"{admin.login}{sign}{urlencode({'next': after or request.link()})}"


async def login_flow(
    check: Callable[[str, str], Any], admin: Admin, port: Port, request: Request
) -> Response:
    """Show the login form, or log in with a new websession id, so that a planted id is worthless."""
    after = _inside(request, request.query.get("next", ""))
    fault = None
    if request.method == "POST":
        user = await port.call(check, request.form.get("name", ""), request.form.get("password", ""))
        if user is not None and user is not False and not isinstance(user, str):
            raise TypeError(f"expected the user's name or None from login=, got {type(user).__name__}")
        if user:
            request.session.login(user)
            return Response.to(after)
        fault = tag("p", "That name and password do not go together.", class_="flash error", role="alert")
    elif request.user is not None:
        return Response.to(after)
    form = post_form(
        request,
        request.link("-", "login", next=request.query.get("next")),
        tag("p", tag("label", "Name ", tag("input", name="name", autocomplete="username", required=True))),
        tag(
            "p",
            tag(
                "label",
                "Password ",
                tag(
                    "input", name="password", type="password", autocomplete="current-password", required=True
                ),
            ),
        ),
        tag("button", "Log in"),
        class_="narrow",
    )
    return page(admin, request, "Log in", fault, form, status=403 if fault else 200)


def logout(request: Request) -> Response:
    """End the websession."""
    request.session.destroy()
    return Response.to(request.link("-", "login"))


def _inside(request: Request, wanted: str) -> str:
    """Return the page that was requested before the login, if it belongs to the admin."""
    is_plain = wanted.isascii() and wanted.isprintable() and "\\" not in wanted and ".." not in wanted
    return (
        wanted
        if wanted.startswith(request.link()) and not wanted.startswith("//") and is_plain
        else request.link()
    )
