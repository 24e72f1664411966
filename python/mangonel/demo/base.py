"""The base of every handler: a websession, a user, security headers, one layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tornado.web import HTTPError, RequestHandler

from mangonel.admin._request import HEADERS, POLICY
from mangonel.websessions.frameworks.tornado import SessionMixin

if TYPE_CHECKING:
    from mangonel.demo.app import Demo

__all__ = ["HEADERS", "POLICY", "Base"]

PAGES = (
    ("/", "Live"),
    ("/posts", "Posts"),
    ("/files", "Files"),
    ("/admin/", "Data"),
    ("/status", "Status"),
    ("/account", "Account"),
)


def set_security_headers(handler: RequestHandler) -> None:
    """Set the security headers of every response."""
    handler.clear_header("Server")
    for name, value in HEADERS.items():
        handler.set_header(name, value)


class Base(SessionMixin, RequestHandler):
    """The base of all handlers: they require a login, and changes require a CSRF token.

    Attributes:
        is_public: whether the handler works without a login.
    """

    check_csrf = True
    is_public = False

    @property
    def demo(self) -> Demo:
        """The application's shared objects."""
        return self.settings["demo"]

    @property
    def user(self) -> str:
        """The name of the logged-in user."""
        user = self.session.user
        assert user is not None, "a public handler has no user"
        return user

    async def prepare(self) -> None:
        """Load the websession. Without a login, redirect pages to the login form and answer scripts with 401."""
        await super().prepare()  # type: ignore[misc]  # of the handler beside this mixin
        if self.is_public or self._finished or self.session.user is not None:
            return
        is_page = self.request.method == "GET" and "text/html" in self.request.headers.get("Accept", "")
        if not is_page:
            raise HTTPError(401, "log in first")
        self.redirect(f"/login?next={quote(self.request.uri or '/', safe='')}")

    set_default_headers = set_security_headers

    def page(self, template: str, title: str, **values: Any) -> None:
        """Answer with a page."""
        self.set_header("Cache-Control", "no-store")
        self.render(
            template,
            title=title,
            pages=PAGES,
            user=self.session.user,
            csrf=self.session.csrf_token(),
            flashes=self.session.flashes(),
            **values,
        )

    def missing(self) -> None:
        """Answer 404."""
        self.set_status(404)
        user = self.session.user
        # A visitor without a login gets no websession for this.
        token = self.session.csrf_token() if user else ""
        self.render(
            "missing.html",
            title="Not found",
            pages=PAGES,
            user=user,
            csrf=token,
            flashes=(),
            asked=self.request.path,
        )

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with the status and its reason: as JSON to scripts, as a line of text to people."""
        reason = self._reason
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, HTTPError) and error.log_message and status_code < 500:
            reason = error.log_message
        if "application/json" in self.request.headers.get("Accept", ""):
            self.finish({"status": status_code, "error": reason})
        else:
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(f"{status_code} {reason}\n")
