"""Accounts: log in, log out here or everywhere, and list one's websessions."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from datetime import UTC, datetime
from typing import Any

from tornado.web import HTTPError

from mangonel.demo.base import Base
from mangonel.demo.models import Account

# OWASP's first choice of parameters for scrypt; 64 MiB and about 100 ms each.
SCRYPT: dict[str, Any] = {"n": 2**16, "r": 8, "p": 1, "maxmem": 128 << 20}
SALT = 16
# How many passwords are hashed at once; the others wait, so memory is bounded.
_hashing = asyncio.Semaphore(2)


def hashed(password: str, salt: bytes) -> bytes:
    """Return the stored form of a password."""
    return hashlib.scrypt(password.encode(), salt=salt, **SCRYPT)


class Login(Base):
    """The login form and its handler."""

    is_public = True

    async def get(self) -> None:
        """Show the form."""
        if self.session.user is not None:
            self.redirect("/")
            return
        self.page("login.html", "Log in", next=self._next(), users=await Account.find().sort("id"))

    async def post(self) -> None:
        """Log in with a new websession id, so that a planted id is worthless."""
        name = self.get_body_argument("user", "")
        account = await Account.aget_or_none(name)
        # An unknown user takes as long as a wrong password.
        salt = account.salt if account is not None else secrets.token_bytes(SALT)
        async with _hashing:
            found = await asyncio.to_thread(hashed, self.get_body_argument("password", "", strip=False), salt)
        if account is None or not hmac.compare_digest(found, account.password):
            self.session.flash("That name and password do not go together.", "error")
            self.set_status(403)
            self.page("login.html", "Log in", next=self._next(), users=await Account.find().sort("id"))
            return
        self.session.login(account.id)
        self.session.label = browser_name(self.request.headers.get("User-Agent", ""))
        self.redirect(self._next())

    def _next(self) -> str:
        """The page that was requested before the login; only pages of this site."""
        wanted = self.get_argument("next", "/")
        return wanted if wanted.startswith("/") and not wanted.startswith(("//", "/\\")) else "/"


class Logout(Base):
    """Ends this websession."""

    is_public = True  # logging out twice is no error

    async def post(self) -> None:
        """Log out here."""
        self.session.destroy()
        self.session.flash("You are logged out.")
        self.redirect("/login")


class LogoutEverywhere(Base):
    """Ends all websessions of the user; open pages elsewhere notice within seconds."""

    async def post(self) -> None:
        """Log out everywhere, including here."""
        user = self.user
        self.session.destroy()
        await self.sessions.revoke_user(user)
        self.session.flash("You are logged out everywhere.")
        self.redirect("/login")


class Revoke(Base):
    """Ends one of the user's websessions."""

    async def post(self) -> None:
        """End the websession that the form names; it must be the user's own."""
        user = self.user
        wanted = self.get_body_argument("id")
        for handle in await self.sessions.of(user, self.session):
            if handle.id == wanted and not handle.is_current:
                await self.sessions.revoke(handle)
                self.session.flash("That session has ended.")
                self.redirect("/account")
                return
        raise HTTPError(404, "there is no such session of yours")


class AccountPage(Base):
    """The user's websessions."""

    async def get(self) -> None:
        """List them."""
        user = self.user
        handles = await self.sessions.of(user, self.session)
        self.page("account.html", "Account", handles=handles, when=when)


def when(seconds: float) -> str:
    """Return a time in a readable form."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%d %b %Y, %H:%M UTC")


def browser_name(agent: str) -> str:
    """Return a browser's name for the listing; a guess that nothing depends on."""
    browsers = ("Firefox/", "Edg/", "Chrome/", "Safari/")
    systems = ("Android", "iPhone", "iPad", "Windows", "Mac OS X", "Linux")
    browser = next((name.rstrip("/") for name in browsers if name in agent), "A browser")
    system = next((name for name in systems if name in agent), "")
    return f"{browser} on {system}" if system else browser
