"""The simulated shop: a process of its own that writes customers and their orders at a steady rate.

Run as `python -m mangonel.demo.shop URI DATABASE RATE`; it ends when its standard input does, that is with whoever
started it. It knows nothing of the web: the web process learns of its writes as of anybody's, from the change stream.
"""

from __future__ import annotations

import asyncio
import random
import sys

from mangonel import AsyncMongoClient
from mangonel.demo.models import Customer, Order
from mangonel.demo.names import CITIES, FIRST, ITEMS, LAST
from mangonel.errors import PyMongoError
from mangonel.odm import connect

__all__ = ["main", "trade"]

# Writes are made in this many portions a second at most.
PORTIONS = 50
ORDERS_PER_CUSTOMER = 0.6
PAUSE_S = 0.5


async def trade(rate: float) -> None:
    """Write so many customers a second until cancelled; after an outage it goes on, without making up for it."""
    loop = asyncio.get_running_loop()
    every = 1 / min(rate, PORTIONS)
    due, owed = loop.time(), 0.0
    while True:
        owed += rate * every
        count = int(owed)
        owed -= count
        customers = [new_customer() for _ in range(count)]
        orders = [new_order(customer) for customer in customers if random.random() < ORDERS_PER_CUSTOMER]
        try:
            if customers:
                await Customer.ainsert_many(customers)
            if orders:
                await Order.ainsert_many(orders)
        except PyMongoError as error:
            print(f"the shop could not write, it will go on: {error}", file=sys.stderr)
            await asyncio.sleep(PAUSE_S)
        due = max(due + every, loop.time() - 1)
        await asyncio.sleep(max(0.0, due - loop.time()))


def new_customer() -> Customer:
    """Return somebody who signs up now."""
    return Customer(name=f"{random.choice(FIRST)} {random.choice(LAST)}", city=random.choice(list(CITIES)))


def new_order(customer: Customer) -> Order:
    """Return something that a customer buys now."""
    item, cents = random.choice(ITEMS)
    return Order(customer=customer.name, item=item, cents=cents * random.randint(1, 3))


async def _run(uri: str, database: str, rate: float) -> None:
    async with AsyncMongoClient[dict[str, object]](uri) as client:
        connect(database=database, aclient=client)
        trading = asyncio.create_task(trade(rate))
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await asyncio.wait([trading, asyncio.create_task(reader.read())], return_when=asyncio.FIRST_COMPLETED)


def main() -> int:
    """Trade until the parent goes away."""
    uri, database, rate = sys.argv[1:]
    asyncio.run(_run(uri, database, float(rate)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
