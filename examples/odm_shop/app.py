"""A shop: stock that is never sold twice, atomic orders with a history, a report. Each step on both faces.

    pip install "mangonel[odm]"
    MONGODB_URI="mongodb://localhost:27017/shop?replicaSet=rs0" python app.py

Transactions need a replica set; `mangonel serve --replica-set 1` starts one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, MaxLen

from mangonel.odm import (
    Audited,
    Connection,
    Document,
    Embedded,
    F,
    Index,
    Indexed,
    Many,
    ObjectId,
    Query,
    Ref,
    Revision,
    Sequence,
    Timestamps,
    acting_as,
    connect,
    desc,
    field,
    inc,
    many,
    related,
    set_,
)


class OutOfStock(Exception):
    """The stock of a product is smaller than the requested count."""


class Customer(Document):
    name: Annotated[str, MaxLen(80)]
    email: Annotated[str, Indexed(unique=True)]
    orders: Many[Order] = many(by="customer", order="-created_at")


class Country(Document):
    name: Annotated[str, Indexed(unique=True)]


class Brand(Document):
    name: Annotated[str, MaxLen(80)]
    country: Ref[Country]


class Product(Document):
    brand: Ref[Brand] | None = None
    name: Annotated[str, MaxLen(120)]
    price: Annotated[Decimal, Ge(0)]
    stock: Annotated[int, Ge(0)] = 0


class Line(Embedded):
    product: Ref[Product]
    name: str
    price: Decimal
    count: Annotated[int, Ge(1)]


class Order(Timestamps, Audited):
    __indexes__: ClassVar[list[Index]] = [Index("customer", desc("created_at"))]
    customer: Ref[Customer] = field(on_delete="deny")
    lines: list[Line]
    total: Decimal
    state: Literal["new", "shipped", "cancelled"] = "new"
    number: Annotated[int | None, Sequence()] = None


@dataclass
class Sold:
    """A row of the report."""

    name: str
    count: int


Basket = Mapping[ObjectId, int]


def line_of(product: Product | None, count: int) -> Line:
    """Return the order line for a product whose stock was taken."""
    if product is None:
        raise OutOfStock
    return Line(product=product, name=product.name, price=product.price, count=count)


def order_of(customer: Customer, lines: list[Line]) -> Order:
    total = sum((line.price * line.count for line in lines), Decimal(0))
    return Order(customer=customer, lines=lines, total=total)


def in_stock(id: ObjectId, count: int) -> Any:
    """Return the query for a product with enough stock: checking and taking is one step."""
    return Product.find(Product.id == id, Product.stock >= count)


def buy(db: Connection, customer: Customer, basket: Basket) -> Order:
    """Take the products and store the order, all or nothing; retry after conflicts."""

    def attempt() -> Order:
        taken = [(in_stock(id, n).find_and_update(inc(Product.stock, -n)), n) for id, n in basket.items()]
        return order_of(customer, [line_of(product, n) for product, n in taken]).save()

    return db.run(attempt)


async def abuy(db: Connection, customer: Customer, basket: Basket) -> Order:
    async def attempt() -> Order:
        taken = [
            (await in_stock(id, n).afind_and_update(inc(Product.stock, -n)), n) for id, n in basket.items()
        ]
        return await order_of(customer, [line_of(product, n) for product, n in taken]).asave()

    made: Order = await db.arun(attempt)
    return made


def cancel(db: Connection, order: Order) -> bool:
    """Return an order's products to stock; return False if it was shipped or cancelled before."""
    with db.transaction():
        if not Order.find(Order.id == order.id, Order.state == "new").update(set_(Order.state, "cancelled")):
            return False
        for line in order.lines:
            Product.find(Product.id == line.product.id).update(inc(Product.stock, line.count))
    return True


async def acancel(db: Connection, order: Order) -> bool:
    async with db.transaction():
        if not await Order.find(Order.id == order.id, Order.state == "new").aupdate(
            set_(Order.state, "cancelled")
        ):
            return False
        for line in order.lines:
            await Product.find(Product.id == line.product.id).aupdate(inc(Product.stock, line.count))
    return True


def account(id: ObjectId, limit: int = 5) -> Customer | None:
    """Return a customer with the latest orders, their products, brands and countries: five commands in all."""
    return account_query(id, limit).first()


async def aaccount(id: ObjectId, limit: int = 5) -> Customer | None:
    return await account_query(id, limit).afirst()


def account_query(id: ObjectId, limit: int) -> Query[Customer]:
    latest = related(Customer.orders, Order.find().sort("-created_at").limit(limit))
    return Customer.find(Customer.id == id).include(latest, Customer.orders.lines.product.brand.country)


def made_in(country: str) -> Query[Order]:
    """Return the query for orders with a product that was made in a country, for either face."""
    return Order.find(F(Order.lines).product.brand.country.name == country).sort("number")


def _states(history: list[Revision[Order]]) -> list[tuple[str, str]]:
    return [(one.by, one.changes["state"][1]) for one in history if "state" in one.changes]


def trail(order: Order) -> list[tuple[str, str]]:
    """Return who brought the order into which state, the oldest first."""
    return _states(order.history())


async def atrail(order: Order) -> list[tuple[str, str]]:
    return _states(await order.ahistory())


BEST = [
    {"$unwind": "$lines"},
    {"$group": {"_id": "$lines.name", "count": {"$sum": "$lines.count"}}},
    {"$project": {"_id": 0, "name": "$_id", "count": 1}},
    {"$sort": {"count": -1, "name": 1}},
]


def best(limit: int = 10) -> list[Sold]:
    """Return the best-selling products, without cancelled orders."""
    return Order.find(Order.state != "cancelled").aggregate([*BEST, {"$limit": limit}], Sold)


async def abest(limit: int = 10) -> list[Sold]:
    return await Order.find(Order.state != "cancelled").aaggregate([*BEST, {"$limit": limit}], Sold)


if __name__ == "__main__":
    db = connect(os.environ.get("MONGODB_URI", "mongodb://localhost:27017/shop?replicaSet=rs0"))
    ada = Customer.find(Customer.email == "ada@example.org").first()
    ada = ada or Customer(name="Ada", email="ada@example.org").save()
    norway = Country.find(Country.name == "Norway").first() or Country(name="Norway").save()
    brand = Brand(name="Fjord", country=norway).save()
    tea = Product(name="Tea", price=Decimal("3.50"), stock=2, brand=Ref(brand)).save()
    with acting_as("ada"):
        order = buy(db, ada, {tea.id: 2})
    print("order", order.total, "left", tea.reload().stock, best(3), trail(order))
    print("from Norway:", made_in("Norway").count(), "orders of", norway.name)
    db.close()
