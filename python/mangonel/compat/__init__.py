"""Runs programs written for PyMongo on this driver: their imports resolve to this package.

    import mangonel.compat

    mangonel.compat.install_as_pymongo()  # before anything imports PyMongo

    from pymongo import MongoClient  # this driver's

`python -m mangonel.compat SCRIPT` does the same without a change to the program. A name without a counterpart raises
a NotImplementedError that is also an AttributeError, or in an import an ImportError; docs/compatibility.md lists them.
"""

from __future__ import annotations

__all__ = ["install_as_motor", "install_as_pymongo"]


def install_as_pymongo() -> None:
    """Make `pymongo`, `bson`, `gridfs` and their submodules resolve to this package, for the whole process.

    PyMongo need not be installed. Calling it again changes nothing. From then on the driver's loggers are named
    `pymongo.command` and so on, since programs written for PyMongo configure those.

    Raises:
        RuntimeError: PyMongo was already imported.

    Example:
        >>> mangonel.compat.install_as_pymongo()
        >>> import bson
        >>> bson.ObjectId is mangonel.bson.ObjectId
        True
    """
    from mangonel._observe import logger_names
    from mangonel.compat._alias import AliasFinder, install
    from mangonel.compat._missing import MISSING
    from mangonel.compat._modules import COUNTERPARTS, PACKAGES, PYMONGO_VERSION, companions

    version = ".".join(map(str, PYMONGO_VERSION))
    finder = AliasFinder(COUNTERPARTS, PACKAGES, MISSING, companions(MISSING), {"pymongo": version})
    install(finder, "PyMongo")
    logger_names.root = "pymongo"


def install_as_motor() -> None:
    """Make `motor` resolve to this package too, along with `pymongo`, `bson` and `gridfs`, for the whole process.

    Raises:
        RuntimeError: Motor or PyMongo was already imported.

    Example:
        >>> mangonel.compat.install_as_motor()
        >>> from motor.motor_asyncio import AsyncIOMotorClient
    """
    from mangonel.compat._alias import AliasFinder, install
    from mangonel.compat._modules import MOTOR_COUNTERPARTS, MOTOR_MISSING, MOTOR_VERSION

    install_as_pymongo()
    versions = {"motor": MOTOR_VERSION}
    install(AliasFinder(MOTOR_COUNTERPARTS, frozenset(["motor"]), MOTOR_MISSING, {}, versions), "Motor")
