"""Programs written for PyMongo run on this driver: their imports of it resolve to this package.

    import mangonel.compat

    mangonel.compat.install_as_pymongo()  # before anything imports PyMongo

    from pymongo import MongoClient  # this driver's

`python -m mangonel.compat SCRIPT` does the same for a program without changing it. What has no counterpart raises
NotImplementedError; docs/compatibility.md lists it.
"""

from __future__ import annotations

__all__ = ["install_as_motor", "install_as_pymongo"]


def install_as_pymongo() -> None:
    """Let `pymongo`, `bson`, `gridfs` and their submodules name this package, for the whole process.

    Whether PyMongo is installed does not matter. Calling it again changes nothing. The driver's loggers are named
    `pymongo.command` and so on from then on, as programs written for PyMongo configure them.

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
    from mangonel.compat._modules import COUNTERPARTS, PACKAGES

    install(AliasFinder(COUNTERPARTS, PACKAGES, MISSING), "PyMongo")
    logger_names.root = "pymongo"


def install_as_motor() -> None:
    """Let `motor` name this package as well, with `pymongo`, `bson` and `gridfs`, for the whole process.

    Raises:
        RuntimeError: Motor or PyMongo was already imported.

    Example:
        >>> mangonel.compat.install_as_motor()
        >>> from motor.motor_asyncio import AsyncIOMotorClient
    """
    from mangonel.compat._alias import AliasFinder, install
    from mangonel.compat._modules import MOTOR_COUNTERPARTS, MOTOR_MISSING

    install_as_pymongo()
    install(AliasFinder(MOTOR_COUNTERPARTS, frozenset(["motor"]), MOTOR_MISSING), "Motor")
