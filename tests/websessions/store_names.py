"""The stores that every rule of the contract is held to; each is started by the fixture of its name."""

from __future__ import annotations

STORES = (
    "memory",
    "mongodb",
    "redis",
    "memcached",
    "mysql",
    "postgresql",
    "sqlite",
    "directory",
    "single_file",
)
