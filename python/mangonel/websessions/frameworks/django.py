"""Websessions in Django: an engine and a middleware, under WSGI and ASGI.

    SESSION_ENGINE = "mangonel.websessions.frameworks.django"
    MIDDLEWARE = ["mangonel.websessions.frameworks.django.SessionMiddleware", ...]  # in place of Django's own
    WEBSESSIONS = WebSessions("mongodb://localhost/app")

`request.session` has Django's methods and those of a websession. A login by `django.contrib.auth`, as in the admin, is
a login of the websession: the user is the primary key as text. Knows no store.
"""

from __future__ import annotations

import datetime
import weakref
from collections.abc import Awaitable, Callable
from functools import wraps
from http.cookies import Morsel
from itertools import takewhile
from math import isnan
from typing import Any

from mangonel._core import run_now
from mangonel.websessions.answer import REASONS, last_plan, stream_headers, take_headers
from mangonel.websessions.checked_settings import CheckedSettings
from mangonel.websessions.errors import Unsupported, UsageError, WebSessionError
from mangonel.websessions.frameworks._shared import (
    Looks,
    Paths,
    View,
    anoting,
    honour_cookie,
    is_event_stream,
    log,
    noting,
    outlast,
    requiring_fresh,
    store_at_close,
    until_ended,
)
from mangonel.websessions.frameworks.wsgi import view_of
from mangonel.websessions.late import leave
from mangonel.websessions.machine import END, NOTHING, decide, decide_new
from mangonel.websessions.session import RequestView, WebSession
from mangonel.websessions.settings import seconds

try:
    from asgiref.sync import sync_to_async
    from django.conf import settings
    from django.contrib.auth import SESSION_KEY
    from django.contrib.sessions.backends.base import SessionBase
    from django.contrib.sessions.middleware import SessionMiddleware as DjangoSessionMiddleware
    from django.core.exceptions import ImproperlyConfigured
    from django.http import HttpRequest, HttpResponse
    from django.http.response import HttpResponseBase
    from django.utils.cache import patch_vary_headers
except ImportError as error:  # pragma: no cover
    raise ImportError("the session engine needs Django: pip install django") from error

__all__ = ["SessionMiddleware", "SessionStore", "require_fresh", "websessions"]

ENGINE = "mangonel.websessions.frameworks.django"

# Django's option, ours, and Django's default.
COOKIE_OPTIONS = (
    ("SESSION_COOKIE_NAME", "name", "sessionid"),
    ("SESSION_COOKIE_PATH", "path", "/"),
    ("SESSION_COOKIE_DOMAIN", "domain", None),
    ("SESSION_COOKIE_SECURE", "secure", False),
    ("SESSION_COOKIE_SAMESITE", "samesite", "Lax"),
)
DJANGO_AGE = 1_209_600
DJANGO_SERIALIZER = "django.contrib.sessions.serializers.JSONSerializer"

# The package's own values that a login keeps.
KEPT = ("flash", "idle")

Respond = Callable[[HttpRequest], Awaitable[HttpResponseBase]]

_honoured: weakref.WeakSet[CheckedSettings[Any]] = weakref.WeakSet()
# Names of the cookie that `websessions` has put into the settings.
_told: set[str] = set()


def websessions() -> Any:
    """Return the application's websessions: the setting WEBSESSIONS, with Django's session settings applied.

    Raises:
        ImproperlyConfigured: the setting is missing, or contradicts one of Django's.

    Example:
        >>> [each.label for each in websessions().blocking.of(str(request.user.pk))]
        ['Firefox on Linux']
    """
    found = getattr(settings, "WEBSESSIONS", None)
    if not isinstance(found, CheckedSettings):
        raise ImproperlyConfigured(
            f"expected WEBSESSIONS = WebSessions(…) in the settings, got {type(found).__name__}"
        )
    if found not in _honoured:
        try:
            _honour(found)
        except UsageError as error:
            raise ImproperlyConfigured(str(error)) from error
        _honoured.add(found)
    if found.cookie.name != settings.SESSION_COOKIE_NAME:
        # Django's test client reads the cookie's name from the settings, and may put an earlier one back.
        _told.add(found.cookie.name)
        settings.SESSION_COOKIE_NAME = found.cookie.name
    return found


def _honour(sessions: Any) -> None:
    if not settings.SESSION_COOKIE_HTTPONLY:
        raise UsageError("expected no SESSION_COOKIE_HTTPONLY=False: scripts never see a websession's cookie")
    if settings.SESSION_SERIALIZER != DJANGO_SERIALIZER:
        raise UsageError(
            "expected no SESSION_SERIALIZER, got one; Content(codec=) of the websessions chooses it"
        )
    if sessions.model is not None:
        raise UsageError("expected websessions without model=: Django stores values of its own in them")
    honour_cookie(sessions, _setting, COOKIE_OPTIONS, "Django's settings")
    if settings.SESSION_EXPIRE_AT_BROWSER_CLOSE and sessions.cookie.persistent:
        raise UsageError(
            "SESSION_EXPIRE_AT_BROWSER_CLOSE is True, and the websessions are persistent=True; drop one"
        )
    age = settings.SESSION_COOKIE_AGE
    if age not in (DJANGO_AGE, sessions.idle):
        raise UsageError(
            f"SESSION_COOKIE_AGE is {age} in Django's settings, and Lifetime(idle=) of the websessions "
            f"{sessions.idle:.0f} s; give both the same, or leave SESSION_COOKIE_AGE out"
        )


def _setting(name: str, default: Any) -> Any:
    value = getattr(settings, name, default)
    return default if name == "SESSION_COOKIE_NAME" and value in _told else value


class SessionStore(SessionBase):  # type: ignore[misc]  # untyped
    """`request.session`: Django's methods, and every member of a websession, such as `user`, `tag` and `lock()`.

    Outside of a request, `SessionStore(session_key)` reads a stored websession and `save()` stores it.

    Args:
        session_key: the value of the cookie. None: a new one.
        websession: the request's, from the middleware.

    Attributes:
        label, permanent, data: as in the websession.
    """

    label: Any
    permanent: Any
    data: Any

    def __init__(self, session_key: str | None = None, websession: WebSession[Any] | None = None) -> None:
        self._sessions = websessions()
        self._key = session_key
        self._is_bound = websession is not None
        self._websession: WebSession[Any] | None = None
        self._had: str | None = None
        if websession is not None:
            self._take(websession)

    # The websession behind it.

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._get_session(), name)

    @property
    def websession(self) -> WebSession[Any]:
        """The websession, which `mangonel.websessions` describes."""
        return self._get_session()

    def _get_session(self, no_load: bool = False) -> WebSession[Any]:
        if self._websession is None:
            run_now(self._load_flow(self._sessions.blocking))
        assert self._websession is not None
        return self._websession

    async def _aget_session(self, no_load: bool = False) -> WebSession[Any]:
        if self._websession is None:
            await self._load_flow(self._sessions.asynchronous)
        assert self._websession is not None
        return self._websession

    _session = property(_get_session)

    async def _load_flow(self, face: Any) -> None:
        name = self._sessions.cookie.name
        # Not renewed here: the browser's copy of the cookie stays as it is.
        request_view = RequestView(
            f"{name}={self._key}" if self._key else None, True, None, takes_cookies=False
        )
        session = await face._load_flow(request_view)
        request_view.takes_cookies = True
        self._take(session)

    def _take(self, session: WebSession[Any]) -> None:
        self._websession = session
        self._had = dict.get(session, SESSION_KEY)
        self._note_key()

    def _note_key(self) -> None:
        session = self._websession
        if session is None:
            return
        if session.state.cookie is not None:
            self._key = session.state.cookie.partition(";")[0].partition("=")[2] or None
        elif session.state.record is None:
            self._key = None
        elif self._key is None:
            self._key = self._sent_key(session)

    def _sent_key(self, session: WebSession[Any]) -> str | None:
        """Return the cookie of the request that led to the websession."""
        state, policy = session.state, self._sessions.cookie
        assert state.record is not None
        for value, token, key in policy.candidates(state.request_view.cookie) or ():
            if token is not None and (self._sessions.is_stateless or key in (state.record.key, state.alias)):
                return str(value)
        return None

    def _follow_user(self) -> None:
        """Turn a login or logout that Django wrote to its keys into a login or logout of the websession."""
        session = self._websession
        if session is None:
            return
        state = session.state
        now = dict.get(session, SESSION_KEY)
        if now is not None and state.change != "login" and str(now) != state.user:
            extra = state.extra or {}
            kept = {name: extra[name] for name in KEPT if name in extra}
            session.login(str(now), keep=tuple(dict.keys(session)), remember=extra.get("remember") or False)
            for name, value in kept.items():
                state.set_extra(name, value)
        elif now is None and self._had is not None and state.user == str(self._had) and not state.change:
            state.user = None
            session.rotate()
        self._had = now

    # Django's own names.

    @property
    def session_key(self) -> str | None:
        """The value of the cookie, as for `SessionStore(session_key)`. It is a secret: for keys and logs use `tag`."""
        self._note_key()
        return self._key

    @property
    def _session_key(self) -> str | None:
        return self.session_key

    @_session_key.setter
    def _session_key(self, value: str | None) -> None:
        self._key = value

    @property
    def accessed(self) -> bool:
        """Whether it was accessed in this request."""
        if not self._is_bound:
            raise ImproperlyConfigured(
                f'expected "{ENGINE}.SessionMiddleware" in MIDDLEWARE in place of '
                '"django.contrib.sessions.middleware.SessionMiddleware"'
            )
        return self._get_session().accessed

    @property
    def modified(self) -> bool:
        """Whether it has to be stored. Setting it extends the websession; changes are found without it."""
        session = self._get_session()
        accessed, session.accessed = session.accessed, True
        try:
            return session.state.is_due or decide(session) != NOTHING
        finally:
            session.accessed = accessed

    @modified.setter
    def modified(self, value: bool) -> None:
        if value and self._websession is not None and self._websession.state.record is not None:
            self._websession.refresh()

    def is_empty(self) -> bool:
        """Return whether it is neither stored nor has values."""
        session = self._get_session()
        return session.state.record is None and not dict.__len__(session)

    def clear(self) -> None:
        """Remove all values."""
        self._get_session().clear()

    def flush(self) -> None:
        """End it, as a logout does: in the store, and in the browser."""
        self._get_session().destroy()
        if not self._is_bound:
            self.save()

    async def aflush(self) -> None:
        """As `flush`."""
        (await self._aget_session()).destroy()
        if not self._is_bound:
            await self.asave()

    def cycle_key(self) -> None:
        """Take a new id and keep the values."""
        self._get_session().rotate()
        if not self._is_bound:
            self.save()

    async def acycle_key(self) -> None:
        """As `cycle_key`."""
        (await self._aget_session()).rotate()
        if not self._is_bound:
            await self.asave()

    def save(self, must_create: bool = False) -> None:
        """Store it now, even if it is empty; then `session_key` is set.

        Args:
            must_create: has no meaning: an id is made from 256 random bits.

        Raises:
            StoreError: the store did not answer.
            UsageError: it has ended while this request ran.

        Example:
            >>> request.session.save()
        """
        self._get_session()
        run_now(self._save_flow(self._sessions.blocking))

    async def asave(self, must_create: bool = False) -> None:
        """As `save`.

        Args:
            must_create: has no meaning.

        Example:
            >>> await request.session.asave()
        """
        await self._aget_session()
        await self._save_flow(self._sessions.asynchronous)

    async def _save_flow(self, face: Any) -> None:
        self._follow_user()
        session = self._websession
        assert session is not None
        if not session.state.is_ended:
            session.state.check_not_gone()
        plan = decide(session)
        if plan == NOTHING and session.state.record is None and not session.state.is_ended:
            plan = decide_new(session)
        await face._commit_flow(session, plan)
        if plan != END and not session.state.is_ended:
            session.state.check_not_gone()
        self._note_key()

    def create(self) -> None:
        """Store a new one, so that `session_key` is set."""
        self.save()

    async def acreate(self) -> None:
        """As `create`."""
        await self.asave()

    def load(self) -> dict[str, Any]:
        """Return the values."""
        return dict(self._get_session())

    def exists(self, session_key: str) -> bool:
        """Return whether a cookie's value names a stored websession.

        Args:
            session_key: the value.

        Raises:
            StoreError: the store did not answer.

        Example:
            >>> SessionStore().exists("x" * 43)
            False
        """
        return SessionStore(session_key)._get_session().state.record is not None

    async def aexists(self, session_key: str) -> bool:
        """As `exists`.

        Args:
            session_key: the value.

        Raises:
            StoreError: the store did not answer.

        Example:
            >>> await SessionStore().aexists("x" * 43)
            False
        """
        return (await SessionStore(session_key)._aget_session()).state.record is not None

    def delete(self, session_key: str | None = None) -> None:
        """End it, or the one that a cookie's value names.

        Args:
            session_key: the value. None: this one.

        Raises:
            StoreError: the store did not answer.

        Example:
            >>> SessionStore().delete("x" * 43)
        """
        (self if session_key is None else SessionStore(session_key)).flush()

    async def adelete(self, session_key: str | None = None) -> None:
        """As `delete`.

        Args:
            session_key: the value. None: this one.

        Raises:
            StoreError: the store did not answer.

        Example:
            >>> await SessionStore().adelete("x" * 43)
        """
        await (self if session_key is None else SessionStore(session_key)).aflush()

    @classmethod
    def clear_expired(cls) -> None:
        """Remove expired records, unless the store's engine does that itself; `manage.py clearsessions` calls it."""
        try:
            websessions().blocking.purge()
        except Unsupported:
            return

    @classmethod
    async def aclear_expired(cls) -> None:
        """As `clear_expired`."""
        try:
            await websessions().purge()
        except Unsupported:
            return

    # Its end.

    def set_expiry(self, value: Any) -> None:
        """Set how long it lasts without being used.

        Args:
            value: seconds. Beyond the absolute limit, after a login in the same request, the cookie outlives the
                browser and both limits are this long, as with `login(remember=)`. 0: the usual limits, and a cookie
                until the browser closes. None: the usual limits.

        Raises:
            UsageError: a date or a timedelta, after which Django ends a session however it is used; no number; more
                than `Lifetime(remember=)` allows; or more than the absolute limit without a login.

        Example:
            >>> request.session.set_expiry(300)
        """
        if isinstance(value, datetime.datetime | datetime.timedelta):
            raise UsageError(
                f"expected set_expiry() with seconds, 0 or None, got {type(value).__name__}; the absolute limit is "
                "Lifetime(absolute=) of the websessions, for all of them"
            )
        if value is not None and (not isinstance(value, int | float) or isnan(value)):
            raise UsageError(f"expected set_expiry() with seconds, 0 or None, got {value!r}")
        session = self._get_session()
        session.refresh()
        state = session.state
        for name in ("idle", "remember"):
            if state.extra and name in state.extra:
                del state.extra[name]
        if not value:
            if value == 0:
                session.permanent = False
        elif value > self._sessions.absolute:
            self._follow_user()
            if state.record is not None and state.change != "login":
                raise UsageError(
                    f"expected set_expiry() of at most {self._sessions.absolute:.0f} s, the absolute limit, "
                    f"got {value}; only a login in the same request, before this call, sets a longer one"
                )
            state.set_extra("remember", self._sessions.remembered(value))
        else:
            state.set_extra("idle", float(value))

    def get_expiry_age(self, **keywords: Any) -> int:
        """Return how many seconds it lasts without being used.

        Args:
            keywords: Django's, which have no meaning here.

        Example:
            >>> SessionStore().get_expiry_age()
            1800
        """
        return int(self._sessions.expiry(0.0, float("inf"), self._get_session().state.extra))

    def get_expiry_date(self, **keywords: Any) -> datetime.datetime:
        """Return when it ends unless it is used.

        Args:
            keywords: Django's, which have no meaning here.

        Example:
            >>> SessionStore().get_expiry_date() > datetime.datetime.now(datetime.UTC)
            True
        """
        record = self._get_session().state.record
        most = record.deadline if record is not None else float("inf")
        ends = min(self._sessions.now() + self.get_expiry_age(), most)
        return datetime.datetime.fromtimestamp(ends, datetime.UTC)

    def get_expire_at_browser_close(self) -> bool:
        """Return whether the cookie ends with the browser."""
        return not self._get_session().permanent

    def get_session_cookie_age(self) -> int:
        """Return the idle limit in seconds."""
        return int(self._sessions.idle)


def _through(name: str) -> property:
    """Return a property that is the websession's."""

    def read(self: SessionStore) -> Any:
        return getattr(self._get_session(), name)

    def write(self: SessionStore, value: Any) -> None:
        setattr(self._get_session(), name, value)

    read.__doc__ = WebSession.__dict__[name].__doc__
    return property(read, write)


def _loaded_first(name: str) -> Any:
    """Return the twin of a method: it loads the websession on the event loop before it calls the method."""

    @wraps(getattr(SessionStore, name))
    async def twin(self: SessionStore, *arguments: Any, **keywords: Any) -> Any:
        await self._aget_session()
        return getattr(self, name)(*arguments, **keywords)

    twin.__name__, twin.__doc__ = f"a{name}", f"As `{name}`."
    twin.__qualname__ = f"SessionStore.a{name}"
    return twin


for _name in ("label", "permanent", "data"):
    setattr(SessionStore, _name, _through(_name))
for _name in ("load", "set_expiry", "get_expiry_age", "get_expiry_date", "get_expire_at_browser_close"):
    setattr(SessionStore, f"a{_name}", _loaded_first(_name))


class SessionMiddleware(DjangoSessionMiddleware):  # type: ignore[misc]  # untyped
    """Loads the websession before the view and stores it before the response leaves; replaces Django's middleware.

    The setting WEBSESSIONS_EXCLUDE lists paths without websessions, such as "/health"; a path that ends in "/"
    includes everything below it. WEBSESSIONS_REVALIDATE says how often to check whether the websession of an event
    stream has ended, in seconds or as text such as "60s": under WSGI the stream ends at its next event, since no
    thread can be interrupted.

    Args:
        get_response: the next middleware or the view; Django passes it.

    Raises:
        ImproperlyConfigured: SESSION_ENGINE names another engine, or WEBSESSIONS is missing.
    """

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        if settings.SESSION_ENGINE != ENGINE:
            raise ImproperlyConfigured(
                f'expected SESSION_ENGINE = "{ENGINE}", got "{settings.SESSION_ENGINE}"'
            )
        self.sessions = websessions()
        self._paths = Paths(getattr(settings, "WEBSESSIONS_EXCLUDE", ()), "WEBSESSIONS_EXCLUDE")
        every = getattr(settings, "WEBSESSIONS_REVALIDATE", None)
        self._every = None if every is None else seconds(every, "WEBSESSIONS_REVALIDATE")

    def __call__(self, request: HttpRequest) -> Any:
        """Handle one request."""
        if self.async_mode:
            return self._visit_flow(request, self.sessions.asynchronous, self.get_response)

        async def respond(request: HttpRequest) -> HttpResponseBase:
            return self.get_response(request)

        return run_now(self._visit_flow(request, self.sessions.blocking, respond))

    async def _visit_flow(self, request: HttpRequest, face: Any, respond: Respond) -> HttpResponseBase:
        if request.path in self._paths or request.path_info in self._paths:
            return await respond(request)
        try:
            session = await face._load_flow(view_of(request.META, request.is_secure(), self.sessions))
        except WebSessionError as error:
            log.error("cannot load the websession: %s", error)
            return _plain(error.status)
        store = request.session = SessionStore(websession=session)
        try:
            response = await respond(request)
        except BaseException:
            if not session.state.was_answered:
                await self._commit_failure_flow(session, face)
            leave(session)
            raise
        try:
            store._follow_user()
            await self._commit_flow(session, face, response.status_code)
        except WebSessionError as error:
            log.error("cannot store the websession: %s", error)
            answer = _plain(error.status)
            if error.status == 500:
                # Its values cannot be stored; an id that was given up stays so.
                await self._commit_failure_flow(session, face)
                _add(answer, take_headers(session))
            leave(session)
            if face.waits:
                # Receivers of the signal close database connections, which Django refuses on an event loop.
                await sync_to_async(response.close)()
            else:
                response.close()
            return answer
        store._note_key()
        if response.streaming:
            _add(response, stream_headers(session, response.headers.get("Cache-Control")))
            if self._every is not None and session.state.record is not None:
                _end_with(response, session, self._every)
            if response.is_async:
                response.streaming_content = anoting(session, response.streaming_content)
            elif getattr(response, "file_to_stream", None) is None:
                response.streaming_content = noting(session, response.streaming_content)
        else:
            _add(response, take_headers(session))
        session.state.headers_left = True
        store_at_close(session, response)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer an error of this package that a view lets pass with its status; Django calls it.

        Args:
            request: the request.
            exception: the view's exception.

        Example:
            >>> SessionMiddleware(get_response).process_exception(request, CSRFError("no token")).status_code
            403
        """
        if not isinstance(exception, WebSessionError):
            return None
        log.error("cannot answer with the websession: %s", exception)
        return _plain(exception.status)

    async def _commit_flow(self, session: WebSession[Any], face: Any, status: int) -> None:
        plan = last_plan(session, status)
        if plan == NOTHING:
            return
        if face.waits:
            await outlast(face._commit_flow(session, plan))
        else:
            await face._commit_flow(session, plan)

    async def _commit_failure_flow(self, session: WebSession[Any], face: Any) -> None:
        """Commit the parts that hold even if the view failed."""
        try:
            await self._commit_flow(session, face, 500)
        except WebSessionError as failure:
            log.error("cannot store the websession: %s", failure)


def require_fresh(within: Any) -> Callable[[View], View]:
    """Return a decorator for a view of Django that needs a recent proof of identity.

    Args:
        within: the longest time since `login()` or `reauthenticated()`, as seconds, timedelta or "10m".

    Raises:
        UsageError: `within` is no duration. The view raises `NotFresh`, answered 403.

    Example:
        >>> from django.http import HttpResponse
        >>> @require_fresh("10m")
        ... def pay(request):
        ...     return HttpResponse(request.session.user)
    """
    return requiring_fresh(lambda request, *arguments: request.session, within)


class _Cookie(Morsel[str]):
    """A verbatim Set-Cookie header: this Python may not know all of its attributes."""

    def __init__(self, header: str) -> None:
        super().__init__()
        name, _, value = header.partition(";")[0].partition("=")
        self.set(name, value, value)
        if "Max-Age=0" in header:
            self["max-age"] = "0"
        self.header = header

    def output(self, attrs: Any = None, header: str = "Set-Cookie:") -> str:
        return f"{header} {self.header}".strip()

    def OutputString(self, attrs: Any = None) -> str:  # noqa: N802, the name is the standard library's
        return self.header


def _add(response: HttpResponseBase, added: list[tuple[str, str]]) -> None:
    for name, value in added:
        if name == "Set-Cookie":
            cookie = _Cookie(value)
            dict.__setitem__(response.cookies, cookie.key, cookie)
        elif name == "Vary":
            patch_vary_headers(response, (value,))
        else:
            response.headers[name] = value


def _end_with(response: Any, session: WebSession[Any], every: float) -> None:
    """Let an event stream end with its websession."""
    if not is_event_stream(response.headers.get("Content-Type", "")):
        return
    parts = response.streaming_content
    if response.is_async:
        response.streaming_content = until_ended(session, every, parts)
    else:
        response.streaming_content = takewhile(Looks(session, every).goes_on, parts)


def _plain(status: int) -> HttpResponse:
    return HttpResponse(
        REASONS.get(status, "Internal Server Error"),
        status=status,
        content_type="text/plain; charset=utf-8",
        headers={"Cache-Control": "no-store"},
    )
