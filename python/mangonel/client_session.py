"""Blocking sessions and their options, under the name of the module where PyMongo has them."""

from __future__ import annotations

from mangonel._shared.sessions.options import SessionOptions, TransactionOptions
from mangonel.api import ClientSession

__all__ = ["ClientSession", "SessionOptions", "TransactionOptions"]
