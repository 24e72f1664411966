"""Where Django looks for the application of `INSTALLED_APPS = ["mangonel.contrib.django"]`."""

from __future__ import annotations

from mangonel.contrib.django import MangonelConfig

__all__ = ["MangonelConfig"]
