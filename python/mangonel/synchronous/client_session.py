"""Blocking sessions and their options, under the name of the module where PyMongo has them for this face."""

from __future__ import annotations

from mangonel.client_session import ClientSession, SessionOptions, TransactionOptions

__all__ = ["ClientSession", "SessionOptions", "TransactionOptions"]
