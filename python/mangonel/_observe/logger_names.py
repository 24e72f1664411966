"""What the driver's loggers are named: below "mangonel", or "pymongo" where the shim stands for PyMongo.

Must not know: anything else of the package, nor `logging`, which a client without a log does not load.
"""

from __future__ import annotations

# `install_as_pymongo` sets it: a program that was written for PyMongo configures PyMongo's loggers.
root = "mangonel"


def logger_name(component: str) -> str:
    """Return the name of a component's logger."""
    return f"{root}.{component}"
