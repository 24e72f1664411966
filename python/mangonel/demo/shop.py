"""The simulated shop: a process of its own that writes customers and their orders at a steady rate.

Orders are paid and shipped a few seconds later, and some customers close their account.

Run as `python -m mangonel.demo.shop URI DATABASE RATE`; a line on standard input is a new rate, and it ends when the
input does, that is with whoever started it. It knows nothing of the web: the web process learns of its writes as of
anybody's, from the change stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import random
import sys
import time

from mangonel import AsyncMongoClient
from mangonel.bson import ObjectId
from mangonel.demo.models import STATES, Customer, Order
from mangonel.demo.names import CITIES, FIRST, ITEMS, LAST
from mangonel.errors import BulkWriteError, PyMongoError
from mangonel.odm import F, connect, set_

__all__ = ["main", "trade"]

# Writes are made in this many portions a second at most.
PORTIONS = 50
ORDERS_PER_CUSTOMER = 0.6
LEAVERS_PER_CUSTOMER = 0.08
# Seconds until the next thing happens to an order, or a customer leaves; and how many of these are remembered.
SOON_S = (2.0, 12.0)
REMEMBERED = 20_000
PAUSE_S = 0.5
DUPLICATE_KEY = 11000


class Rate:
    """Customers a second, which may change at any time."""

    def __init__(self, value: float) -> None:
        self.value = value


async def trade(rate: Rate) -> None:
    """Write so many customers a second until cancelled; after an outage it goes on, without making up for it.

    Each has a number, one more than the last: what fails is written again until it is there, by the same id.
    """
    loop = asyncio.get_running_loop()
    due, owed = loop.time(), 0.0
    later = Later()
    # Above those of any shop before, and exact in a browser.
    numbers = itertools.count(int(time.time()) * 1_000_000)
    while True:
        every = 1 / min(max(rate.value, 1.0), PORTIONS)
        owed += rate.value * every
        count = int(owed)
        owed -= count
        customers = [new_customer(next(numbers)) for _ in range(count)]
        orders = [new_order(customer) for customer in customers if random.random() < ORDERS_PER_CUSTOMER]
        try:
            if customers:
                await _until_written(customers)
            if orders:
                await Order.ainsert_many(orders)
            later.plan(customers, orders, loop.time())
            await later.happen(loop.time())
        except PyMongoError as error:
            print(f"the shop could not write, it will go on: {error}", file=sys.stderr)
            await asyncio.sleep(PAUSE_S)
        due = max(due + every, loop.time() - 1)
        await asyncio.sleep(max(0.0, due - loop.time()))


async def _until_written(customers: list[Customer]) -> None:
    """Insert them; after a failure, nobody knows which are there, so all are tried again."""
    while True:
        try:
            await Customer.ainsert_many(customers, ordered=False)
            return
        except BulkWriteError as error:
            if all(each["code"] == DUPLICATE_KEY for each in error.details["writeErrors"]):
                return
            raise
        except PyMongoError as error:
            print(f"the shop could not write, it tries again: {error}", file=sys.stderr)
            await asyncio.sleep(PAUSE_S)


class Later:
    """What is still to happen to orders and customers."""

    def __init__(self) -> None:
        self._plans: list[tuple[float, ObjectId, str]] = []

    def plan(self, customers: list[Customer], orders: list[Order], now: float) -> None:
        """Choose who leaves, and when orders are paid and shipped; at high rates many are forgotten."""
        leavers = [one for one in customers if random.random() < LEAVERS_PER_CUSTOMER]
        for what, document in [("leave", one) for one in leavers] + [(STATES[1], order) for order in orders]:
            self._plan(now, document.id, what)

    def _plan(self, now: float, id: ObjectId, what: str) -> None:
        if len(self._plans) < REMEMBERED:
            heapq.heappush(self._plans, (now + random.uniform(*SOON_S), id, what))

    async def happen(self, now: float) -> None:
        """Write what is due: one command for each kind of change."""
        due: dict[str, list[ObjectId]] = {}
        while self._plans and self._plans[0][0] <= now:
            _, id, what = heapq.heappop(self._plans)
            due.setdefault(what, []).append(id)
        if leavers := due.pop("leave", None):
            await Customer.find(F(Customer.id).in_(leavers)).adelete()
        for state, ids in due.items():
            await Order.find(F(Order.id).in_(ids)).aupdate(set_(Order.state, state))
            if state == STATES[1]:
                for id in ids:
                    self._plan(now, id, STATES[2])


def new_customer(number: int) -> Customer:
    """Return somebody who signs up now."""
    name = f"{random.choice(FIRST)} {random.choice(LAST)}"
    return Customer(name=name, city=random.choice(list(CITIES)), number=number)


def new_order(customer: Customer) -> Order:
    """Return something that a customer buys now."""
    item, cents = random.choice(ITEMS)
    return Order(customer=customer.name, item=item, cents=cents * random.randint(1, 3))


async def _run(uri: str, database: str, rate: float) -> None:
    async with AsyncMongoClient[dict[str, object]](uri) as client:
        connect(database=database, aclient=client)
        speed = Rate(rate)
        trading = asyncio.create_task(trade(speed))
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

        async def listen() -> None:
            while line := await reader.readline():
                speed.value = float(line)

        await asyncio.wait([trading, asyncio.create_task(listen())], return_when=asyncio.FIRST_COMPLETED)
        # Before the client is closed, which a trader would take for one more outage.
        trading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await trading


def main() -> int:
    """Trade until the parent goes away."""
    uri, database, rate = sys.argv[1:]
    asyncio.run(_run(uri, database, float(rate)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
