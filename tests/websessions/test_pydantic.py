"""Pydantic models as the content of a websession, with every codec and on both faces."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from browser import Browser
from pydantic import BaseModel, Field, computed_field, model_validator
from store_names import STORES

from mangonel.websessions import RequestView, UsageError, WebSessions, new_key
from mangonel.websessions.answer import last_plan

codecs = pytest.mark.parametrize("codec", ["msgpack", "json", "bson"])

AT = datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


class Line(BaseModel):
    sku: str
    count: int = 1
    price: Decimal = Decimal("9.99")


class Shop(BaseModel):
    cart: list[Line] = []
    seen: datetime | None = None
    id: UUID = UUID(int=7)
    tags: set[str] = set()
    theme: str = Field("light", alias="colour")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def items(self) -> int:
        return sum(line.count for line in self.cart)


class Required(BaseModel):
    name: str


def changed(shop: Shop) -> None:
    shop.cart.append(Line(sku="chair"))
    shop.seen, shop.theme = AT, "dark"
    shop.tags.add("new")


def is_as_changed(shop: Shop) -> bool:
    expected = Shop(cart=[Line(sku="chair")], seen=AT, tags={"new"}, colour="dark")
    return shop == expected and shop.items == 1


@codecs
@pytest.mark.each_once("name", "codec")
@pytest.mark.parametrize("name", [*STORES, "cookie"])
async def test_a_pydantic_model_comes_back_as_it_was(
    name: str, codec: str, store_url: Callable[[str], str]
) -> None:
    settings: dict[str, Any] = {"model": Shop, "codec": codec, "events": lambda event: None}
    sessions: WebSessions[Shop] = (
        WebSessions("cookie:", seal=new_key(), **settings)
        if name == "cookie"
        else WebSessions(store_url(name), **settings)
    )
    browser = Browser(sessions)
    session = await browser.begin()
    assert session.data == Shop()
    assert await browser.end(session) == [("Vary", "Cookie")]
    session = await browser.begin()
    changed(session.data)
    session.flash("hello")
    await browser.end(session)
    session = await browser.begin()
    assert is_as_changed(session.data)
    # Nested changes are noticed.
    session.data.cart[0].count = 5
    await browser.end(session)
    session = await browser.begin()
    assert session.data.cart[0].count == 5
    assert session.data.cart[0].price == Decimal("9.99")
    session.login("ada", keep=("cart",))
    await browser.end(session)
    session = await browser.begin()
    assert (session.data.items, session.data.theme) == (5, "light")
    await sessions.aclose()
    if name != "cookie":
        blocking = sessions.blocking.load(RequestView(browser.cookie))
        assert blocking.data.items == 5
        sessions.blocking.close()


class Picky(BaseModel):
    """A model whose validators raise errors that pydantic passes through unchanged."""

    low: int = 0
    high: int = 9

    @model_validator(mode="after")
    def is_ordered(self) -> Picky:
        if self.low > self.high:
            raise LookupError("low is above high")
        return self


@codecs
async def test_values_that_a_validator_refuses_harm_no_later_request(codec: str) -> None:
    url, quiet = f"memory:picky-{codec}", {"codec": codec, "events": lambda event: None}
    loose: WebSessions[Any] = WebSessions(url, **quiet)
    strict: WebSessions[Picky] = WebSessions(url, model=Picky, **quiet)
    browser = Browser(loose)
    await browser.store(low=10)
    browser.sessions = strict
    assert (await browser.begin()).data == Picky()
    # Two requests together may break a limit that each of them keeps.
    await browser.login("ada")
    one, other = await browser.begin(), await browser.begin()
    one.data.low, other.data.high = 5, 4
    await browser.end(one)
    with pytest.raises(UsageError, match="requests side by side made of the websession is no Picky"):
        await browser.end(other)
    await strict.asynchronous.commit(other, last_plan(other, 500))
    found = await browser.begin()
    assert (found.user, found.data.low, found.data.high) == ("ada", 5, 9)


async def test_a_record_that_does_not_fit_the_model_is_discarded() -> None:
    loose: WebSessions[Any] = WebSessions("memory:pydantic", events=lambda event: None)
    browser = Browser(loose)
    await browser.store(cart="no list")
    browser.sessions = WebSessions("memory:pydantic", model=Shop, events=lambda event: None)
    assert (await browser.begin()).data == Shop()


def test_a_model_without_defaults_is_refused_at_the_start() -> None:
    with pytest.raises(UsageError, match="expected a default for every field of Required"):
        WebSessions("memory:", model=Required)
