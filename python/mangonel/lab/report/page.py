"""placeholder"""

from typing import Any


def render(content: dict[str, Any]) -> str:
    """placeholder"""
    return ""
