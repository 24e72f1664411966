"""Finds a mongod for an interpreter that has none: the lab's own environment, the checkout's `.venv`, has one.

Engines that are too large for that environment, such as Ray and Spark, are played by the interpreter of another one.
"""

from __future__ import annotations

import os
from pathlib import Path

from mangonel.server.errors import MongodNotFound
from mangonel.server.find import VARIABLE, WHEEL_FILE, find_mongod

CHECKOUT = Path(__file__).parents[3]


def lend_mongod(checkout: Path = CHECKOUT) -> None:
    """Name the mongod of a checkout's environment to this process and those that it starts, if they would find none.

    Args:
        checkout: the folder with `.venv`; an installed package has none, and nothing changes.
    """
    try:
        find_mongod()
    except MongodNotFound:
        found = next(checkout.glob(f".venv/lib/python*/site-packages/{WHEEL_FILE}"), None)
        # A variable that names no program is an error to be told.
        if found is not None and not os.environ.get(VARIABLE):
            os.environ[VARIABLE] = str(found)
