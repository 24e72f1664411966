"""Admin pages of the shop: orders with their history, products, customers. `ADMIN_PASSWORD` lets in.

pip install "mangonel[websessions]"
ADMIN_PASSWORD=... mangonel admin admin:pages
"""

from __future__ import annotations

import hmac
import os

from app import Brand, Country, Customer, Order, Product

from mangonel.admin import Admin, Shown
from mangonel.odm import connect
from mangonel.websessions import Cookie, WebSessions

URI = os.environ.get("MONGODB_URI", "mongodb://localhost:27017/shop?replicaSet=rs0")


def log_in(name: str, password: str) -> str | None:
    is_right = hmac.compare_digest(password.encode(), os.environ["ADMIN_PASSWORD"].encode())
    return name if name and is_right else None


def allowed(user: str, action: str, model: type, document: object) -> bool:
    """Orders are shipped and cancelled here, and never made or deleted."""
    return not (model is Order and action in ("create", "delete"))


connect(URI)
pages = Admin(
    Shown(Order, columns=("number", "customer", "total", "state"), order="-number", fixed=("total", "lines")),
    Customer,
    Shown(Product, columns=("brand", "price", "stock"), order="name"),
    Brand,
    Country,
    # On loopback without TLS, browsers keep no Secure cookie.
    sessions=WebSessions("memory:", cookie=Cookie(secure=False)),
    login=log_in,
    allowed=allowed,
    title="Shop",
)
