"""DNS and names of hosts as a test says."""

from __future__ import annotations

from doctor.conftest import dns, hosts

__all__ = ["dns", "hosts"]
