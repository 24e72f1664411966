"""The names of a browser and of its system, from the package ua-parser. Knows no websession."""

from __future__ import annotations

from functools import lru_cache

from mangonel.websessions.errors import UsageError

__all__ = ["check_parser", "names_of"]

# No browser sends a longer header, and parsing time grows with the length.
MOST_AGENT = 512


def check_parser() -> None:
    """Raise when the application starts, not at the first login, if the parser is missing.

    Raises:
        UsageError: the package ua-parser is not installed.
    """
    try:
        import ua_parser  # noqa: F401  # only whether it is there
    except ImportError as error:
        raise UsageError(
            'devices=True needs the package ua-parser: pip install "mangonel[devices]"'
        ) from error


@lru_cache(maxsize=1024)
def names_of(agent: str) -> tuple[str, str]:
    """Return the browser and the system of a User-Agent header, as ("Firefox 128", "Linux"); "" for an unknown one.

    Args:
        agent: the header; only its first 512 characters are read.

    Example:
        >>> names_of("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0")
        ('Firefox 128', 'Linux')
    """
    from ua_parser import parse

    found = parse(agent[:MOST_AGENT])
    return _name(found.user_agent), _name(found.os)


def _name(found: object) -> str:
    parts = (getattr(found, "family", None), getattr(found, "major", None))
    name = " ".join(part for part in parts if part)
    return name if name.isprintable() else ""
