"""DNS and host names that a test sets."""

from __future__ import annotations

from doctor.conftest import dns, hosts

__all__ = ["dns", "hosts"]
