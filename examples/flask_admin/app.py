"""A small admin page with a login: websessions, CSRF tokens, a list to add to and remove from.

    pip install "mangonel[flask]"
    export MONGODB_URI=mongodb://localhost:27017
    flask --app app add-user ada        # asks for the password
    flask --app app run

Copy it and change the list. The cookie is Secure, and some browsers do not send it over plain http, not even to
localhost: set INSECURE_COOKIES=1 during development.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Any

import click
import flask
from flask import Flask, abort, flash, redirect, render_template_string, request
from werkzeug.wrappers import Response

from mangonel import MongoClient
from mangonel.bson import ObjectId
from mangonel.errors import DuplicateKeyError
from mangonel.websessions import Cookie, Lifetime, WebSessions
from mangonel.websessions.frameworks.flask import check_csrf

# A websession, which has more methods than Flask's type declares.
session: Any = flask.session

PAGE = """<!doctype html><html lang="en"><title>Customers</title><meta name="viewport" content="width=device-width">
<main>{% for text in get_flashed_messages() %}<p role="status">{{ text }}</p>{% endfor %}
{% macro csrf() %}<input type="hidden" name="_csrf" value="{{ session.csrf_token() }}">{% endmacro %}
{% if not session.user %}<h1>Log in</h1><form method="post" action="/login">{{ csrf() }}
  <label>Name <input name="name" autocomplete="username" required></label>
  <label>Password <input name="password" type="password" autocomplete="current-password" required></label>
  <button>Log in</button></form>
{% else %}<h1>Customers</h1><form method="post" action="/customers">{{ csrf() }}
  <label>Name <input name="name" maxlength="80" required></label><button>Add</button></form>
<ul>{% for customer in customers %}<li>{{ customer.name }}
  <form method="post" action="/customers/{{ customer._id }}/delete">{{ csrf() }}<button>Remove</button></form></li>
{% else %}<li>Nobody yet</li>{% endfor %}</ul>
<form method="post" action="/logout">{{ csrf() }}<button>Log out</button>
  <button name="everywhere" value="1">Log out everywhere</button></form>{% endif %}</main></html>"""


def create_app(uri: str | None = None, *, secure: bool | None = None) -> Flask:
    """Make the application; tests pass their own deployment."""
    uri = uri or os.environ.get("MONGODB_URI", "mongodb://localhost:27017")
    app = Flask(__name__)
    # One client for the process; it keeps working in the children of a prefork server.
    client = MongoClient[Any](uri, timeoutMS=5000)
    shop = client.get_default_database("shop")
    secure = "INSECURE_COOKIES" not in os.environ if secure is None else secure
    sessions: WebSessions[Any] = WebSessions(uri, cookie=Cookie(secure=secure), lifetime=Lifetime(idle="30m"))
    sessions.init_flask(app)
    # Compared with the password of an unknown user, so that the response takes as long.
    unknown = {"password": hash_password("", b"salt of no user"), "salt": b"salt of no user"}

    @app.before_request
    def guard() -> Response | None:
        if request.method == "POST":
            check_csrf()
        if not session.user and request.endpoint not in ("page", "login"):
            return redirect("/")
        return None

    @app.get("/")
    def page() -> str:
        # The newest hundred; no query without a login.
        newest = shop.customers.find().sort("_id", -1).limit(100)
        customers = newest.to_list() if session.user else []
        return render_template_string(PAGE, customers=customers)

    @app.post("/login")
    def login() -> Response:
        name = request.form["name"]
        user = shop.users.find_one({"_id": name})
        known = user or unknown
        is_right = hmac.compare_digest(
            hash_password(request.form["password"], known["salt"]), known["password"]
        )
        if user is None or not is_right:
            flash("Wrong name or password")
        else:
            session.login(name)  # a new id; the one before is dead
            flash(f"Welcome, {name}")
        return redirect("/")

    @app.post("/logout")
    def logout() -> Response:
        if "everywhere" in request.form:
            sessions.blocking.revoke_user(session.user)
        session.destroy()
        return redirect("/")

    @app.post("/customers")
    def add_customer() -> Response:
        name = request.form["name"].strip()
        if not 0 < len(name) <= 80:
            abort(422)
        shop.customers.insert_one({"name": name})
        flash(f"{name} was added")
        return redirect("/")

    @app.post("/customers/<customer_id>/delete")
    def remove_customer(customer_id: str) -> Response:
        if not ObjectId.is_valid(customer_id):
            abort(404)
        shop.customers.delete_one({"_id": ObjectId(customer_id)})
        return redirect("/")

    @app.cli.command("add-user")
    @click.argument("name")
    @click.password_option()
    def add_user(name: str, password: str) -> None:
        """Create a user who may log in, and the indexes of the websessions."""
        salt = os.urandom(16)
        try:
            shop.users.insert_one({"_id": name, "salt": salt, "password": hash_password(password, salt)})
        except DuplicateKeyError:
            raise click.ClickException(f"there is a user {name} already") from None
        sessions.blocking.setup()

    return app


def hash_password(password: str, salt: bytes) -> bytes:
    """Return the stored form of a password; scrypt makes guessing slow and memory-intensive."""
    return hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1)
