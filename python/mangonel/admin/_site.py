"""`Admin`: which models are served, to whom, and how. Start reading here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from mangonel.admin._shown import Shown, ShownModel, served

if TYPE_CHECKING:
    from mangonel.websessions import WebSessions


class Admin:
    """An admin application of models: lists, forms, history and files, for users that are logged in.

    Args:
        models: document classes, or `Shown` with settings. None given: all that the program has defined, at the first
            request.
        sessions: the websessions, which keep logins and protect forms.
        allowed: called with the user, an action, the model and a document or None; returns whether the user may. The
            actions are "list", "view", "create", "change" and "delete"; a user who may not view a document does not see
            it in lists. For "list" it may return a filter, as for `find()`: the user sees the documents that it finds,
            and the server finds only these. It may be a coroutine function. With the application's `sessions`, it is
            called for each user of the application.
        login: called with a name and a password; returns the user's name, or None to refuse. It may be a coroutine
            function. A text: the address of the application's own login, which gets the page to continue with as the
            parameter `next`. None: users who are not logged in are refused.
        title: title of the pages.
        page_size: documents on a page of a list.
        max_body: bytes of the largest form, uploaded files included.

    Raises:
        TypeError: a model is no document class, two have the same name, `sessions` is no WebSessions, `allowed` or
            `login` cannot be called with these arguments, or another argument has a wrong type.

    Example:
        >>> from mangonel.websessions import WebSessions
        >>> def allowed(user, action, model, document):
        ...     return user == "ada"
        >>> admin = Admin(User, Post, sessions=WebSessions("memory:"), allowed=allowed)
        >>> [shown.title for shown in admin.shown]
        ['User', 'Post']
    """

    def __init__(
        self,
        *models: Any,
        sessions: WebSessions[Any],
        allowed: Callable[[str, str, Any, Any], Any],
        login: Callable[[str, str], Any] | str | None = None,
        title: str = "Admin",
        page_size: int = 50,
        max_body: int = 64 << 20,
    ) -> None:
        from mangonel.websessions import WebSessions

        if not isinstance(sessions, WebSessions):
            raise TypeError(f"expected sessions= to be WebSessions, got {type(sessions).__name__}")
        if not _takes(allowed, 4):
            raise TypeError(
                f"expected allowed= to be a function of user, action, model and document, got {allowed!r}"
            )
        if login is not None and not _takes(login, 2) and not (isinstance(login, str) and login):
            raise TypeError(
                f"expected login= to be a function of name and password, or the address of a login, got {login!r}"
            )
        for name, number in (("page_size", page_size), ("max_body", max_body)):
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise TypeError(f"expected {name}= to be an int from 1 on, got {number!r}")
        if not isinstance(title, str):
            raise TypeError(f"expected title= to be a str, got {type(title).__name__}")
        self.sessions = sessions
        self.login = login
        self.allowed = allowed
        self.title = title
        self.page_size = page_size
        self.max_body = max_body
        self._shown = _by_title(models) if models else None

    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        """Raise an error that names the application to mount: an Admin is none itself.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "expected an application, got an Admin; mount its asgi(), wsgi() or the rules of tornado()"
        )

    @property
    def shown(self) -> list[ShownModel]:
        """The models in the order in which they were given."""
        return list(self._titles().values())

    def by_title(self, title: str) -> ShownModel | None:
        """Return the model of this name, or None.

        Args:
            title: the name of the model's class.

        Example:
            >>> admin = Admin(User, sessions=WebSessions("memory:"), allowed=lambda user, *what: user == "ada")
        >>> admin.by_title("Nothing") is None
            True
        """
        return self._titles().get(title)

    def by_model(self, model: Any) -> ShownModel | None:
        """Return the model that documents of a class are shown as: the class or its nearest base; None without one.

        Args:
            model: a document class.

        Example:
            >>> admin = Admin(User, sessions=WebSessions("memory:"), allowed=lambda user, *what: user == "ada")
        >>> admin.by_model(User).title
            'User'
        """
        titles = self._titles()
        for base in getattr(model, "__mro__", ()):
            found = titles.get(base.__name__)
            if found is not None and found.model is base:
                return found
        return None

    def _titles(self) -> dict[str, ShownModel]:
        if self._shown is None:
            self._shown = _by_title(served())
        return self._shown

    def asgi(self) -> Any:
        """Return the ASGI application, to be mounted in Starlette, FastAPI or alone.

        Inside a `SessionMiddleware` it uses that middleware's websession; otherwise it adds its own middleware.

        Example:
            >>> admin = Admin(User, sessions=WebSessions("memory:"), allowed=lambda user, *what: user == "ada")
            >>> from starlette.applications import Starlette
            >>> from starlette.routing import Mount
            >>> app = Starlette(routes=[Mount("/admin", admin.asgi())])
        """
        from mangonel.admin._asgi import AsgiAdmin

        return AsgiAdmin(self)

    def wsgi(self) -> Any:
        """Return the WSGI application, to be mounted beside Flask's or served alone.

        Inside a `WSGISessions` it uses that one's websession; otherwise it loads its own from the same cookie, so the
        users of a Flask application with the same `sessions` are logged in.

        Example:
            >>> import flask
            >>> from werkzeug.middleware.dispatcher import DispatcherMiddleware
            >>> admin = Admin(User, sessions=WebSessions("memory:"), allowed=lambda user, *what: user == "ada")
            >>> app = DispatcherMiddleware(flask.Flask("shop"), {"/admin": admin.wsgi()})
        """
        from mangonel.admin._wsgi import WsgiAdmin

        return WsgiAdmin(self)

    def tornado(self, base: str = "/admin") -> list[Any]:
        """Return the rules for a Tornado application.

        Args:
            base: the path under which the admin is served, from its first slash on. A slash at its end is ignored.

        Raises:
            ValueError: `base` does not begin with a slash.

        Example:
            >>> from tornado.web import Application
            >>> admin = Admin(User, sessions=WebSessions("memory:"), allowed=lambda user, *what: user == "ada")
            >>> app = Application(admin.tornado("/admin"))
        """
        import re

        from mangonel.admin._tornado import AdminHandler

        if not isinstance(base, str) or (base and not base.startswith("/")):
            raise ValueError(f'expected a path such as "/admin", got {base!r}')
        base = base.rstrip("/")
        return [(rf"{re.escape(base)}(/.*)?", AdminHandler, {"admin": self, "base": base})]


def _takes(function: Any, count: int) -> bool:
    """Return whether a function can be called with this many arguments; True if Python cannot tell."""
    import inspect

    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*[None] * count)
    except ValueError:
        return True
    except TypeError:
        return False
    return True


def _by_title(models: Iterable[Any]) -> dict[str, ShownModel]:
    found: dict[str, ShownModel] = {}
    for model in models:
        shown = ShownModel(**vars(model)) if isinstance(model, Shown) else ShownModel(model)
        if shown.title in found:
            raise TypeError(f"expected models with names of their own, got two named {shown.title}")
        found[shown.title] = shown
    for shown in found.values():
        shown.among(found)
    return found
