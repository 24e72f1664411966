"""Options of the sources, which Spark gives as text, and the collection that they name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mangonel._query_argument import query_of
from mangonel._shared.partitions.carry import carried
from mangonel.errors import ConfigurationError

__all__ = ["ENVIRONMENT", "Options"]

ENVIRONMENT = "MANGONEL_URI"
"""The environment variable with the URI, unless the option `connect` names another."""

# Spark's own options, which it passes to sources as well.
_SPARKS = frozenset({"checkpointlocation", "path"})


@dataclass(frozen=True)
class _Uri:
    """A URI for workers. A value, so that all parts of one process share a client."""

    uri: str

    def __call__(self) -> str:
        return self.uri


class Options:
    """Checked options of a source.

    Args:
        given: the options that Spark passes.
        known: names of the options that the source has, beside those of every source.

    Raises:
        ConfigurationError: an option is unknown, a required one is missing, or two exclude each other.
    """

    def __init__(self, given: Mapping[str, str], known: frozenset[str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        allowed = known | {"uri", "connect", "database", "collection"}
        for name in self._given:
            if name not in allowed and name not in _SPARKS:
                raise ConfigurationError(f"expected one of {sorted(allowed)} as an option, got {name!r}")
        for name in ("database", "collection"):
            if not self._given.get(name):
                raise ConfigurationError(f"expected the option {name!r}, got none")
        if self.text("uri") and self.text("connect"):
            # The plan would come from one deployment, and the rows from another.
            raise ConfigurationError(
                "expected one of the options 'uri' and 'connect', got both; 'connect' names the variable of driver and "
                "workers"
            )

    def text(self, name: str) -> str | None:
        """Return an option as it is, or None."""
        return self._given.get(name)

    def number(self, name: str) -> int | None:
        """Return an option as a number, or None."""
        text = self._given.get(name)
        if text is None:
            return None
        if not text.isdecimal() or not int(text):
            raise ConfigurationError(f"expected a positive number for the option {name!r}, got {text!r}")
        return int(text)

    def is_set(self, name: str) -> bool:
        """Return whether an option is "true"."""
        text = self._given.get(name, "false").lower()
        if text not in ("true", "false"):
            raise ConfigurationError(f'expected "true" or "false" for the option {name!r}, got {text!r}')
        return text == "true"

    def names(self, name: str) -> list[str] | None:
        """Return an option with commas as a list, or None."""
        text = self._given.get(name)
        return None if text is None else [each.strip() for each in text.split(",") if each.strip()]

    def query(self) -> dict[str, Any] | None:
        """Return the option `filter` as a query document, or None.

        Raises:
            ConfigurationError: it is no extended JSON of a document.
        """
        return query_of(self.text("filter"), "the option 'filter'", ConfigurationError)

    @property
    def connect(self) -> Callable[[], str] | str | None:
        """How other processes connect: the option `uri`, or the variable that `connect` names. None: MANGONEL_URI."""
        uri = self.text("uri")
        return _Uri(uri) if uri else self.text("connect")

    def client(self) -> Any:
        """Return a client of this process.

        Raises:
            ConfigurationError: there is no URI, or the option `uri` has a secret, which would be sent to workers.
        """
        from mangonel import MongoClient

        own, variable = self.text("uri"), self.text("connect") or ENVIRONMENT
        uri = own or os.environ.get(variable)
        if not uri:
            raise ConfigurationError(
                f"expected a URI in the option 'uri' or the variable {variable}, got neither"
            )
        # The client connects with its first operation, so after this check.
        client = MongoClient[Any](uri, connect=False)
        if own and (lacking := carried(client, None).lacking):
            raise ConfigurationError(
                f"expected no secret in the option 'uri', which workers are sent, got {lacking}; set the variable "
                f"{ENVIRONMENT} of driver and workers, or one that the option 'connect' names"
            )
        return client

    def collection(self, client: Any) -> Any:
        """Return the collection that the options name."""
        return client[self._given["database"]][self._given["collection"]]
