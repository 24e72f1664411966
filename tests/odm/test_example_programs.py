"""The shop and the blog of `examples/`, unchanged, on both faces."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

from mangonel.odm import Connection, DeleteDenied, acting_as, count_commands
from tools.type_checkers import ROOT

EXAMPLES = ROOT / "examples"


def load(name: str) -> Any:
    """The program of an example, as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / name / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Python resolves annotations in this module.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def shop() -> Any:
    return load("odm_shop")


@pytest.fixture(scope="module")
def blog() -> Iterator[Any]:
    from mangonel.odm._registry import models

    module = load("odm_blog")
    yield module
    # Otherwise tests of other models would check its rules.
    for model in (module.Author, module.Post):
        models.remove(model)


def test_an_order_takes_its_products_and_a_cancelled_one_gives_them_back(
    shop: Any, db: Connection, face: Any
) -> None:
    ada = shop.Customer(name="Ada", email="ada@example.org")
    tea, jam = (
        shop.Product(name="Tea", price=3, stock=5),
        shop.Product(name="Jam", price=Decimal("2.5"), stock=1),
    )
    face.save(ada, tea, jam)
    with acting_as("ada"):
        order = face.call(shop, "buy", db, ada, {tea.id: 2, jam.id: 1})
    assert (order.total, order.number, order.state) == (Decimal("8.5"), 1, "new")
    assert [face.call(product, "reload").stock for product in (tea, jam)] == [3, 0]
    assert face.call(shop, "best") == [shop.Sold("Tea", 2), shop.Sold("Jam", 1)]
    with pytest.raises(shop.OutOfStock):
        face.call(shop, "buy", db, ada, {tea.id: 2, jam.id: 1})
    assert face.call(tea, "reload").stock == 3
    with acting_as("eve"):
        assert [face.call(shop, "cancel", db, order) for _ in range(2)] == [True, False]
    assert face.call(shop, "trail", order) == [("ada", "new"), ("eve", "cancelled")]
    assert [face.call(product, "reload").stock for product in (tea, jam)] == [5, 1]
    assert face.call(shop, "best") == []
    with pytest.raises(DeleteDenied):
        face.call(ada, "delete")


def test_an_account_comes_with_relations_three_deep(shop: Any, db: Connection, face: Any) -> None:
    ada = shop.Customer(name="Ada", email="ada@example.org")
    countries = [shop.Country(name="Norway"), shop.Country(name="Chile")]
    brands = [shop.Brand(name="Fjord", country=countries[0]), shop.Brand(name="Sol", country=countries[1])]
    goods = [shop.Product(name=f"p{n}", price=3, stock=50, brand=brands[n % 2]) for n in range(4)]
    face.save(ada, *countries, *brands, *goods)
    for n in range(6):
        face.call(shop, "buy", db, ada, {goods[n % 4].id: 1, goods[0].id: 2})
    with count_commands(db, at_most=5):
        found = face.call(shop, "account", ada.id, 3)
    assert [order.number for order in found.orders.values] == [6, 5, 4]
    lines = [line for order in found.orders.values for line in order.lines]
    with count_commands(db, at_most=0):
        named = {line.name: line.product.value.brand.value.country.value.name for line in lines}
    assert named == {"p0": "Norway", "p1": "Chile", "p3": "Chile"}
    assert found.to_dict()["orders"][0]["lines"][0]["product"]["brand"]["country"]["name"] == "Chile"
    with count_commands(db, at_most=1):
        chilean = face.call(shop.made_in("Chile"), "all")
    assert [order.number for order in chilean] == [2, 4, 6]


def test_the_last_piece_is_sold_once_to_many_buyers(shop: Any, db: Connection, face: Any) -> None:
    ada = shop.Customer(name="Ada", email="ada@example.org")
    tea = shop.Product(name="Tea", price=3, stock=3)
    face.save(ada, tea)
    # Collections are created first, since a transaction cannot create one that another transaction also creates.
    face.save(shop.Order(customer=ada, lines=[], total=0))

    def attempt() -> bool:
        try:
            shop.buy(db, ada, {tea.id: 1})
        except shop.OutOfStock:
            return False
        return True

    async def attempts() -> list[Any]:
        return await asyncio.gather(
            *(shop.abuy(db, ada, {tea.id: 1}) for _ in range(6)), return_exceptions=True
        )

    if face.is_async:
        found = face.wait(attempts())
        assert {type(one) for one in found} == {shop.Order, shop.OutOfStock}
        sold = sum(type(one) is shop.Order for one in found)
    else:
        with ThreadPoolExecutor(6) as pool:
            sold = sum(pool.map(lambda _: attempt(), range(6)))
    assert (sold, face.call(tea, "reload").stock) == (3, 0)
    assert face.call(shop.Order.find({"lines.0": {"$exists": True}}), "count") == 3


def test_a_blog_shows_what_is_published(blog: Any, db: Connection, face: Any) -> None:
    ada, bob = blog.Author(name="Ada", email="a@example.org"), blog.Author(name="Bob", email="b@example.org")
    face.save(ada, bob)
    posts = [blog.Post(title=f" post {n} ", body="b", author=ada, tags=["x"]) for n in range(5)]
    draft = blog.Post(title="draft", body="b", author=bob, tags=["x"])
    face.save(draft)
    for post in posts:
        face.call(blog, "publish", post)
    first = face.call(blog, "tagged", "x", size=3)
    second = face.call(blog, "tagged", "x", first.next, 3)
    assert sorted(post.title for post in [*first.items, *second.items]) == [f"post {n}" for n in range(5)]
    assert {post.author.value.name for post in first.items} == {"Ada"}
    assert second.next is None
    assert face.call(blog, "comment", posts[2].id, bob, "good") == 1
    assert face.call(blog, "comment", draft.id, bob, "good") == 0
    assert (face.call(blog, "front", 1)[0].title, face.call(blog, "front", 1)[0].views) == ("post 2", 1)
    assert face.call(blog.Post, "get", posts[2].id).comments[0].author == bob
    assert "comments" not in json.loads(face.call(blog, "feed"))[0]
    face.call(posts[0], "delete")
    assert len(json.loads(face.call(blog, "feed"))) == 4
    with pytest.raises(DeleteDenied):
        face.call(ada, "delete")


@pytest.mark.parametrize("name", ["odm_shop", "odm_blog"])
def test_an_example_of_the_mapper_is_short(name: str) -> None:
    assert len((EXAMPLES / name / "app.py").read_text().splitlines()) < 230
