"""Field types for special texts: mail addresses, URLs, and secrets.

IP addresses need nothing here: `ipaddress.IPv4Address` and the like are stored as text.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

__all__ = ["Email", "Secret", "Url"]

# Only a mail can tell whether the address is read.
Email = Annotated[str, re.compile(r"^(?!.*\s)[^@]+@[^@.]+(\.[^@.]+)+$")]
"""A str that looks like a mail address: `email: Email`."""

Url = Annotated[str, re.compile(r"^(?!.*\s)[A-Za-z][A-Za-z0-9+.-]*://[^/?#]+")]
"""A str that is a URL with a host: `home: Url`."""


class Secret:
    """A text that is stored unchanged but shown as stars: in `repr`, logs, `to_json()` and responses.

    Args:
        text: the secret.

    Example:
        >>> token = Secret("s3cr3t")
        >>> token, token.reveal()
        (Secret('**********'), 's3cr3t')
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"expected str for a Secret, got {type(text).__name__}")
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __str__(self) -> str:
        return "**********"

    def __repr__(self) -> str:
        return "Secret('**********')"

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    @classmethod
    def __from_bson__(cls, value: Any) -> Secret:
        if not isinstance(value, str):
            # Without the value, which may be the secret in another form.
            raise ValueError(f"expected Secret, got {type(value).__name__}")
        return cls(value)

    def __to_bson__(self) -> str:
        return self._text
