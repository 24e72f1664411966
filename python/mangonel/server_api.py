"""The Stable API: the version of the server's commands that a client promises to use.

Spec: versioned-api.
"""

from __future__ import annotations

__all__ = ["ServerApi", "ServerApiVersion"]


class ServerApiVersion:
    """Values for `version`."""

    V1 = "1"


class ServerApi:
    """Makes the server behave as one version of the Stable API specifies.

    Args:
        version: a value of ServerApiVersion.
        strict: True: the server refuses commands outside that version. None: the server's default.
        deprecation_errors: True: the server refuses commands that the version deprecates. None: the server's default.

    Raises:
        TypeError, ValueError: a flag is not a bool, or the version is unknown.
    """

    __slots__ = ("_deprecation_errors", "_strict", "_version")

    def __init__(
        self, version: str, strict: bool | None = None, deprecation_errors: bool | None = None
    ) -> None:
        if version != ServerApiVersion.V1:
            raise ValueError(f"unknown ServerApi version: {version}; known is {ServerApiVersion.V1!r}")
        for name, value in (("strict", strict), ("deprecation_errors", deprecation_errors)):
            if value is not None and not isinstance(value, bool):
                raise TypeError(
                    f"Wrong type for ServerApi {name}, value must be an instance of bool, not {type(value)}"
                )
        self._version = version
        self._strict = strict
        self._deprecation_errors = deprecation_errors

    @property
    def version(self) -> str:
        """Sent as `apiVersion`."""
        return self._version

    @property
    def strict(self) -> bool | None:
        """Sent as `apiStrict` unless None."""
        return self._strict

    @property
    def deprecation_errors(self) -> bool | None:
        """Sent as `apiDeprecationErrors` unless None."""
        return self._deprecation_errors
