"""A visitor of the admin: fills in forms as a browser does, and submits them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """A parsed page: its form for a POST, its links, its texts and its elements."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.form: dict[str, str] = {}
        self.action = ""
        self.links: dict[str, str] = {}
        self.elements: list[str] = []
        self.text = ""
        self._is_posted = False
        self._select: str | None = None
        self._area: str | None = None
        self._link: list[str] | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            # The form in the header logs out.
            self._is_posted = given.get("method") == "post" and not given.get("action", "").endswith(
                "/-/logout"
            )
            self.action = given.get("action", "") if self._is_posted else self.action
        elif tag == "a":
            self._link = [given.get("href", ""), ""]
        if not self._is_posted or ("name" not in given and tag != "option"):
            return
        if tag == "input" and given.get("type") not in ("file", "submit"):
            if given.get("type") != "checkbox" or "checked" in given:
                # A single-line input has no line breaks.
                is_hidden = given.get("type") == "hidden"
                value = given.get("value", "")
                self.form[given["name"]] = value if is_hidden else value.replace("\r", "").replace("\n", "")
        elif tag == "select":
            self._select = given["name"]
        elif tag == "textarea":
            self._area = given["name"]
            self.form[self._area] = ""
        elif (
            tag == "option"
            and self._select is not None
            and ("selected" in given or self._select not in self.form)
        ):
            self.form[self._select] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_posted = False
        elif tag == "select":
            self._select = None
        elif tag == "textarea" and self._area is not None:
            text = self.form[self._area].replace("\r\n", "\n").replace("\r", "\n")
            self.form[self._area] = text.removeprefix("\n").replace("\n", "\r\n")
            self._area = None
        elif tag == "a" and self._link is not None:
            self.links[self._link[1]] = self._link[0]
            self._link = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self.form[self._area] += data
        else:
            self.text += data
        if self._link is not None:
            self._link[1] += data


class Visitor:
    """A browser without scripts.

    Args:
        client: an httpx client, or one like it, with cookies.
        base: where the admin is mounted.
    """

    def __init__(self, client: Any, base: str = "/admin") -> None:
        self.client = client
        self.base = base

    def get(self, path: str, status: int = 200) -> Page:
        """Return a page below the mount, or at a full URL."""
        address = path if path.startswith(self.base) else self.base + path
        answer = self.client.get(address, follow_redirects=True)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return Page(answer.text)

    def send(self, page: Page, status: int = 200, files: Any = None, **changed: Any) -> Page:
        """Send a page's form with some texts changed; None leaves one out."""
        form = {name: text for name, text in {**page.form, **changed}.items() if text is not None}
        answer = self.client.post(page.action, data=form, files=files, follow_redirects=False)
        if answer.status_code == 303:
            # httpx would send the form's content type with it.
            answer = self.client.get(answer.headers["location"], follow_redirects=True)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return Page(answer.text)

    def log_in(self, user: str = "ada") -> None:
        """Log in by the form."""
        self.send(self.get("/-/login"), name=user, password="right")
