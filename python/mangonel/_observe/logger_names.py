"""The names of the driver's loggers: below "mangonel", or "pymongo" if the shim replaces PyMongo.

Must not know: the rest of the package, or `logging`, which a client without a log does not load.
"""

from __future__ import annotations

# `install_as_pymongo` sets it: programs written for PyMongo configure PyMongo's loggers.
root = "mangonel"


def logger_name(component: str) -> str:
    """Return the name of a component's logger."""
    return f"{root}.{component}"
