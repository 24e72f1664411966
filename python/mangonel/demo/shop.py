"""The simulated shop: a process that writes customers and their orders at a steady rate.

Orders are paid and shipped a few seconds later, and some customers close their accounts.

Run as `python -m mangonel.demo.shop URI DATABASE RATE`. A line on standard input sets the rate; the process exits when
its input ends, that is, with its parent. It does not know the web process, which learns of the writes from the change
stream.
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

# Writes are made in at most this many batches a second.
PORTIONS = 50
ORDERS_PER_CUSTOMER = 0.6
LEAVERS_PER_CUSTOMER = 0.08
# Seconds until an order changes or a customer leaves; and how many such changes are remembered.
SOON_S = (2.0, 12.0)
REMEMBERED = 20_000
PAUSE_S = 0.5
DUPLICATE_KEY = 11000


class Rate:
    """Customers per second; the rate may change at any time."""

    def __init__(self, value: float) -> None:
        self.value = value


async def trade(rate: Rate) -> None:
    """Write customers at this rate until cancelled. After an outage, continue without catching up.

    Customers are numbered without gaps: a failed insert is repeated with the same id until it succeeds.
    """
    loop = asyncio.get_running_loop()
    due, owed = loop.time(), 0.0
    later = Later()
    # Higher than any number of an earlier shop, and exact as a JavaScript number.
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
    """Insert these customers. After a failure it is unknown which were stored, so all are inserted again."""
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
    """The pending changes to orders and customers."""

    def __init__(self) -> None:
        self._plans: list[tuple[float, ObjectId, str]] = []

    def plan(self, customers: list[Customer], orders: list[Order], now: float) -> None:
        """Choose who leaves, and when orders are paid and shipped; at high rates many changes are dropped."""
        leavers = [one for one in customers if random.random() < LEAVERS_PER_CUSTOMER]
        for what, document in [("leave", one) for one in leavers] + [(STATES[1], order) for order in orders]:
            self._plan(now, document.id, what)

    def _plan(self, now: float, id: ObjectId, what: str) -> None:
        if len(self._plans) < REMEMBERED:
            heapq.heappush(self._plans, (now + random.uniform(*SOON_S), id, what))

    async def happen(self, now: float) -> None:
        """Write the changes that are due, with one command for each kind."""
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
    """Return a new customer."""
    name = f"{random.choice(FIRST)} {random.choice(LAST)}"
    return Customer(name=name, city=random.choice(list(CITIES)), number=number)


def new_order(customer: Customer) -> Order:
    """Return a new order of a customer."""
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
        # Stop before the client is closed: the trader would take that for an outage.
        trading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await trading


def main() -> int:
    """Trade until the parent exits."""
    uri, database, rate = sys.argv[1:]
    asyncio.run(_run(uri, database, float(rate)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
