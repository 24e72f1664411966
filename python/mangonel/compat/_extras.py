"""Internals of PyMongo that libraries import and this package does not need itself; and the version."""

from __future__ import annotations

from mangonel.bson.binary import UuidRepresentation
from mangonel.compat._modules import PYMONGO_VERSION
from mangonel.errors import InvalidName
from mangonel.read_preferences import _ServerMode
from mangonel.write_concern import WriteConcern as WriteConcern  # programs import it from `pymongo.common`

version_tuple = PYMONGO_VERSION
__version__ = version = ".".join(map(str, PYMONGO_VERSION))

# MongoEngine reads it to check an argument.
_UUID_REPRESENTATIONS = {
    "unspecified": UuidRepresentation.UNSPECIFIED,
    "standard": UuidRepresentation.STANDARD,
    "pythonLegacy": UuidRepresentation.PYTHON_LEGACY,
    "javaLegacy": UuidRepresentation.JAVA_LEGACY,
    "csharpLegacy": UuidRepresentation.CSHARP_LEGACY,
}


class HelloCompat:
    """Names of the hello command and of its predecessor. Health checks and test tools use them."""

    CMD = "hello"
    LEGACY_CMD = "ismaster"
    PRIMARY = "isWritablePrimary"
    LEGACY_PRIMARY = "ismaster"
    LEGACY_ERROR = "not master"


def get_version_string() -> str:
    """Return the version of PyMongo that these names come from."""
    return version


def get_version_tuple(text: str) -> tuple[int | str, ...]:
    """Return a version as a tuple of numbers, with a non-numeric part last."""
    return tuple(int(part) if part.isdigit() else part for part in text.split("."))


def _check_name(name: str) -> None:
    """Raise InvalidName unless `name` is a valid database name. MongoEngine checks its arguments with this."""
    if not name:
        raise InvalidName("expected a name of a database, got an empty one")
    for character in ' .$/\\\x00"':
        if character in name:
            raise InvalidName(f"expected a name of a database, got {character!r} in {name!r}")


def validate_read_preference(option: str, value: object) -> _ServerMode:
    """Return `value`; raise TypeError if it is not a read preference. MongoEngine checks its arguments with this."""
    if not isinstance(value, _ServerMode):
        raise TypeError(f"{value!r} is not a read preference")
    return value
