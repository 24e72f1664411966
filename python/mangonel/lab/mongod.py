"""Finds a mongod for an interpreter without one, in the lab's own environment: the checkout's `.venv`.

Engines that are too large for that environment, such as Ray and Spark, have their own environment and interpreter.
"""

from __future__ import annotations

import os
from pathlib import Path

from mangonel.server.errors import MongodNotFound
from mangonel.server.find import VARIABLE, WHEEL_FILE, find_mongod

CHECKOUT = Path(__file__).parents[3]


def lend_mongod(checkout: Path = CHECKOUT) -> None:
    """Point this process and its children to the mongod of a checkout's environment, if they would find none.

    Args:
        checkout: the folder with `.venv`; an installed package has none, and nothing changes.
    """
    try:
        find_mongod()
    except MongodNotFound:
        found = next(checkout.glob(f".venv/lib/python*/site-packages/{WHEEL_FILE}"), None)
        # If the variable names no program, `find_mongod` must report that.
        if found is not None and not os.environ.get(VARIABLE):
            os.environ[VARIABLE] = str(found)
